"""``up``, ``down``, ``status`` and ``migrate``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from common.settings import Settings

if TYPE_CHECKING:
    from cli.store_status import StoreStatus
    from graph.embedded.stores import Started

_NOT_ALL_UP = 3

as_json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object."
)


@click.command()
@as_json_option
@click.option(
    "--serve", is_flag=True, help="Then serve over HTTPS and take jobs, until Ctrl-C ends it all."
)
@click.option("--port", type=click.IntRange(0, 65535), help="With --serve.  [default: 8443]")
@click.pass_context
def up(ctx: click.Context, as_json: bool, serve: bool, port: int | None) -> int:
    """Start the embedded stores, and wait until they answer."""
    from graph.embedded import EmbeddedStores
    from graph.engine import to_stderr

    if port is not None and not serve:
        raise click.UsageError("--port is for --serve", ctx)
    settings: Settings = ctx.obj
    began = time.perf_counter()
    started = EmbeddedStores(settings).start(to_stderr)
    elapsed_s = round(time.perf_counter() - began, 3)
    _tell_started(settings, started, elapsed_s, as_json)
    return _served(ctx, started, port) if serve else 0


def _served(ctx: click.Context, started: list[Started], port: int | None) -> int:
    """Serve until a signal, then stop the stores, if it was this command that started them."""
    from cli.serve import serve_with_workers
    from graph.embedded import EmbeddedStores

    options = ["--tls-self-signed", *([] if port is None else ["--port", str(port)])]
    try:
        return serve_with_workers(ctx, options)
    finally:
        if started and all(store.now for store in started):
            EmbeddedStores(ctx.obj).stop()


def _tell_started(
    settings: Settings, started: list[Started], elapsed_s: float, as_json: bool
) -> None:
    if as_json:
        stores = [
            {"name": s.name, "started": s.now, "port": s.record.port, "pid": s.record.pid}
            for s in started
        ]
        _print_json({"home": str(settings.home), "stores": stores, "elapsed_s": elapsed_s})
        return
    for store in started:
        words = f"started in {elapsed_s:.1f} s" if store.now else "already up"
        click.echo(f"{store.name}: {words}, port {store.record.port}, pid {store.record.pid}")
    for name in _external(settings):
        click.echo(f"{name}: external, not ours to start")


@click.command()
@as_json_option
@click.pass_obj
def down(settings: Settings, as_json: bool) -> None:
    """Stop the embedded stores; their data stays."""
    from graph.embedded import EmbeddedStores

    stopped = EmbeddedStores(settings).stop()
    if as_json:
        stores = [{"name": store.name, "stopped": store.now} for store in stopped]
        _print_json({"home": str(settings.home), "stores": stores})
        return
    for store in stopped:
        click.echo(f"{store.name}: {'stopped' if store.now else 'was not running'}")
    for name in _external(settings):
        click.echo(f"{name}: external, not ours to stop")


@click.command()
@as_json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the stores; exit code 3 if one is down. Starts nothing."""
    from cli.store_status import inventory

    settings: Settings = ctx.obj
    stores = inventory(settings)
    if as_json:
        _print_json({"home": str(settings.home), "stores": [asdict(store) for store in stores]})
    else:
        click.echo(f"home: {settings.home}")
        for store in stores:
            click.echo(_described(store))
    if not all(store.up for store in stores):
        ctx.exit(_NOT_ALL_UP)


@click.command()
@as_json_option
@click.pass_obj
def migrate(settings: Settings, as_json: bool) -> None:
    """Bring both stores' schemas to what this version expects; safe to repeat."""
    from graph.engine import open_stores
    from graph.migrate import migrate as apply

    with open_stores(settings) as stores:
        before = apply(stores)
    if as_json:
        _print_json({"stores": [asdict(state) for state in before]})
        return
    for state in before:
        words = f"applied {', '.join(state.pending)}" if state.pending else "nothing to do"
        click.echo(f"{state.store}: {words}, schema {state.expected or 'empty'}")


def _external(settings: Settings) -> list[str]:
    embedded = {
        "PostgreSQL": settings.embedded_database,
        "the graph": settings.embedded_graph,
    }
    return [name for name, here in embedded.items() if not here]


def _described(store: StoreStatus) -> str:
    facts = {
        "url": store.url,
        "pid": store.pid,
        "version": store.version,
        "schema": store.schema,
        "size": None if store.size_bytes is None else f"{store.size_bytes / 1e6:.1f} MB",
        "problem": store.problem,
        "hint": store.hint,
    }
    kind = "embedded" if store.embedded else "external"
    lines = [f"{store.name}: {'up' if store.up else 'down'} ({kind})"]
    lines += [f"  {name}: {value}" for name, value in facts.items() if value is not None]
    return "\n".join(lines)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
