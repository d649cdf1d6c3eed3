"""``thoth serve``: the HTTP server."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from common.errors import InvalidArgument
from common.settings import Settings

_MOST = 64


@dataclass(frozen=True, slots=True)
class _Tls:
    self_signed: bool
    certificate: Path | None
    key: Path | None

    @property
    def wanted(self) -> bool:
        return self.self_signed or self.certificate is not None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, _MOST), default=2, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1, _MOST), default=8, show_default=True,
              help="Requests that each process answers at a time.")  # fmt: skip
@click.option("--tls-self-signed", is_flag=True,
              help="With a certificate of this machine's own making, which is reused.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file of a certificate, with its chain.")  # fmt: skip
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file of its key.")  # fmt: skip
@click.option("--behind-proxy", is_flag=True,
              help="One proxy stands in front: it ends TLS, and its X-Forwarded-* headers are "
              "believed.")  # fmt: skip
@click.option("--with-workers", is_flag=True, help="Run a worker for every queue, too.")
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Where processes leave their figures for /metrics.")  # fmt: skip
@click.pass_context
def serve(ctx: click.Context, /, **given: Any) -> int:
    """Answer requests over HTTP until SIGTERM; requests that run are finished."""
    settings: Settings = ctx.obj
    if given.pop("with_workers"):
        _tls(given)
        return serve_with_workers(ctx, _arguments(given), given["metrics_dir"])
    _serve(settings, is_verbose(ctx), given)
    return 0


def _serve(settings: Settings, verbose: bool, given: dict[str, Any]) -> None:
    from api.metrics_files import metrics_folder
    from api.server.http_server import ServerOptions, check, listen
    from api.server.http_server import serve as run
    from cli.service_start import (
        ensure_stores,
        log_service,
        metrics_root,
    )

    tls = _tls(given)
    log_service(verbose)
    with listen(given["host"], given["port"]) as listener:
        _refuse_open(listener, tls, behind_proxy=given["behind_proxy"])
        ensure_stores(settings)
        certificate, key = _files(settings, tls, given["host"])
        front = ServerOptions(
            given["workers"], given["threads"], certificate, key, given["behind_proxy"]
        )
        # Entered before anything imports the client library, which looks for it then.
        with metrics_folder(metrics_root(settings, given["metrics_dir"]), "serve"):
            check(settings, front)
            click.echo(f"Serving {_address(given['host'], listener, tls.wanted)}")
            run(settings, front, listener)


def serve_with_workers(
    ctx: click.Context, arguments: Sequence[str], metrics_dir: Path | None = None
) -> int:
    """Run the server and workers as child processes, so that each may end without the others.

    :param arguments: of ``thoth serve``
    """
    from api.server.supervisor import ChildProcess
    from cli.service_start import command, ensure_stores, log_service
    from cli.worker import PROCESSES, shared_out, supervise, workers_of

    log_service(is_verbose(ctx))
    ensure_stores(ctx.obj)
    server = ChildProcess("serve", command("serve", *arguments), essential=True)
    return supervise(ctx.obj, [server, *workers_of(shared_out(PROCESSES))], metrics_dir)


def is_verbose(ctx: click.Context) -> bool:
    """Whether ``thoth -v`` was asked for."""
    return bool(ctx.find_root().params.get("verbose"))


def _arguments(given: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def _tls(given: dict[str, Any]) -> _Tls:
    tls = _Tls(given["tls_self_signed"], given["tls_cert"], given["tls_key"])
    if tls.self_signed and tls.certificate:
        raise InvalidArgument("--tls-self-signed and --tls-cert: give one of them")
    if (tls.certificate is None) is not (tls.key is None):
        raise InvalidArgument("--tls-cert and --tls-key: give both, or --tls-self-signed")
    return tls


def _refuse_open(listener: socket.socket, tls: _Tls, *, behind_proxy: bool) -> None:
    from api.server.http_server import is_private

    if not (tls.wanted or behind_proxy or is_private(listener)):
        raise InvalidArgument(
            "--host: others could reach this address, and read tokens on their way: give"
            " --tls-self-signed, or --tls-cert and --tls-key, or --behind-proxy"
        )


def _files(settings: Settings, tls: _Tls, host: str) -> tuple[Path | None, Path | None]:
    if not tls.self_signed:
        return _checked(tls)
    from api.server.certificates import self_signed
    from graph.embedded.home import unusable

    named = [host] if host not in {"0.0.0.0", "::", ""} else []  # noqa: S104 - compared, not bound
    try:
        made = self_signed(settings.home / "tls", named)
    except OSError as error:
        raise unusable(settings.home / "tls", error) from error
    click.echo(f"certificate: {made.path}, until {made.expires_at:%Y-%m-%d}")
    click.echo(f"sha256 fingerprint: {made.fingerprint}")
    return made.path, made.key_path


def _checked(tls: _Tls) -> tuple[Path | None, Path | None]:
    """The files of a real certificate, once it is sure that they can be used."""
    import ssl

    if tls.certificate is not None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # An empty password: a key that has one is refused, and nobody is asked for it.
            context.load_cert_chain(tls.certificate, tls.key, password="")
        except OSError as error:
            raise InvalidArgument(f"--tls-cert and --tls-key: {error}") from error
    return tls.certificate, tls.key


def _address(host: str, listener: socket.socket, tls: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{listener.getsockname()[1]}"
