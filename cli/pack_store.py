"""``thoth pack add``, ``list``, ``remove``, ``follow``, ``unfollow`` and ``index``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from adviser.packs.manifest import parse_manifest
from adviser.packs.stored_packs import pack_named, remove_packed
from adviser.packs.trust import TrustPolicy, evidence_pack, read_policy, trust_of
from cli.console import (
    Column,
    Table,
    moment_text,
    print_json,
    print_lines,
    progress_bars,
    shown,
)
from cli.machine import machine_options
from cli.options import NamedPath, as_json_option, pack_argument
from common.settings import Settings
from graph.record.packs import StoredPack, followed_addresses, stored_packs, unfollow_address
from ingest.record import open_record
from loop.pack_exchange import add_from, follow_packs, pack_address, write_index
from model.errors import InvalidArgument, InvalidDocument
from model.json_documents import as_json_time
from model.redaction import absolute_source
from model.text import counted


@click.command()
@click.argument("address", metavar="FILE|FOLDER|URL")
@as_json_option
@click.pass_obj
def add(settings: Settings, address: str, as_json: bool) -> None:
    """Add an evidence pack to this store.

    The pack is checked and stored whole, apart from the measurements of this store. From then on,
    answers use its measurements as far as the trust policy allows. A pack that was added before
    changes nothing. URL begins with https:// or s3://.
    """
    policy, place = read_policy(settings), pack_address(settings, address)
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        pack, new = add_from(settings, engine, place, bars.update)
    about = evidence_pack(pack.manifest, pack.key, policy, datetime.now(UTC).date())
    trust = trust_of(about, policy)
    if as_json:
        print_json({"digest": pack.digest, "name": pack.manifest.name, "new": new,
                    "decides": trust.decides, "reason": trust.reason})  # fmt: skip
        return
    state = "added" if new else "added before"
    print_lines([f"{pack.manifest.name}: {state} ({pack.digest[:15]})", trust.reason])


@click.command("list")
@as_json_option
@click.pass_obj
def list_packs(settings: Settings, as_json: bool) -> None:
    """List the packs of this store, and what the trust policy says about each.

    The addresses that the nightly run reads are listed, too.
    """
    policy = read_policy(settings)
    with open_record(settings) as engine, engine.connect() as connection:
        packs = [_pack_document(it, policy) for it in stored_packs(connection)]
        addresses = followed_addresses(connection)
    if as_json:
        print_json({
            "policy": policy.source,
            "packs": packs,
            "followed": [
                {"address": it.address, "followed_at": as_json_time(it.followed_at),
                 "read_at": as_json_time(it.read_at)}
                for it in addresses
            ],
        })  # fmt: skip
        return
    if packs:
        table = Table([
            Column("pack", wraps=True), Column("measured"), Column("jobs", right=True),
            Column("key"), Column("verdict", wraps=True), Column("added"),
        ])  # fmt: skip
        for pack in packs:
            table.add(
                f"{shown(pack['name'])}\n{pack['digest'][:15]}",
                str(pack.get("measured_until", ""))[:10], f"{pack.get('jobs', '')}",
                (pack["key"] or "none")[:15], shown(pack["reason"]), pack["added_at"][:10],
            )  # fmt: skip
        table.print()
    else:
        click.echo("No packs: `thoth pack add` adds one.")
    for followed in addresses:
        read = "never read" if followed.read_at is None else f"read {moment_text(followed.read_at)}"
        print_lines([f"follows {followed.address}, {read}"])


def _pack_document(stored: StoredPack, policy: TrustPolicy) -> dict[str, Any]:
    document = {
        "digest": stored.digest,
        "name": stored.name,
        "key": stored.key,
        "address": stored.address,
        "added_at": as_json_time(stored.added_at),
    }
    try:
        manifest = parse_manifest(stored.manifest.encode())
    except InvalidDocument as error:  # of a later version
        return {**document, "decides": False, "reason": f"cannot be read: {error.message}"}
    about = evidence_pack(manifest, stored.key, policy, datetime.now(UTC).date())
    return {
        **document,
        "licence": manifest.licence,
        "measured_until": as_json_time(manifest.measured_until),
        "jobs": sum(it.jobs for it in manifest.sessions),
        "sessions": manifest.session_count,
        "indicators": manifest.indicators,
        "hardware": [asdict(it) for it in manifest.hardware],
        **trust_of(about, policy)._asdict(),
    }


@click.command()
@click.argument("name", metavar="DIGEST_PREFIX|NAME")
@click.pass_obj
def remove(settings: Settings, name: str) -> None:
    """Remove a pack from this store; nothing else changes."""
    with open_record(settings) as engine:
        with engine.connect() as connection:
            pack = pack_named(stored_packs(connection), name)
            addresses = followed_addresses(connection)
        remove_packed(engine, settings, pack.digest)
    print_lines([f"{pack.name}: removed ({pack.digest[:15]})"])
    if any(pack.address.startswith(f"{it.address}/") for it in addresses):
        click.echo("hint: the next night adds it again; `thoth pack unfollow` ends that", err=True)


@click.command()
@click.argument("address", metavar="FOLDER|URL")
@as_json_option
@click.pass_context
def follow(context: click.Context, address: str, as_json: bool) -> None:
    """Add the packs of an address now, and new ones every night.

    The address is a folder, such as one of a Git work tree, or begins with https:// or s3://. Its
    file packs.json, which `thoth pack index` writes, names the packs. Refused packs go to the
    quarantine, and the exit code is 6.
    """
    from cli.ingest import REFUSED, print_followed

    settings: Settings = context.obj
    place = pack_address(settings, address).rstrip("/")
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        report = follow_packs(settings, engine, place, bars.update)
    if as_json:
        print_json(asdict(report))
    else:
        print_followed(asdict(report))
    if report.refused:
        context.exit(REFUSED)


@click.command()
@click.argument("address", metavar="FOLDER|URL")
@click.pass_obj
def unfollow(settings: Settings, address: str) -> None:
    """No longer read an address; the packs from there stay."""
    place = absolute_source(address).rstrip("/")  # also one that is no longer allowed
    with open_record(settings) as engine, engine.begin() as connection:
        if not unfollow_address(connection, place):
            raise InvalidArgument(
                "this address is not followed", hint="`thoth pack list` shows those that are"
            )


@click.command()
@click.argument(
    "folder", metavar="DIR", type=NamedPath(exists=True, file_okay=False, path_type=Path)
)
def index(folder: Path) -> None:
    """Write packs.json, which names the packs in a folder, for others to follow.

    Packs are .tar files and folders in DIR. Whoever follows a URL can read only .tar files.
    """
    listed = write_index(folder)
    click.echo(f"{folder / 'packs.json'}: {counted(len(listed), 'pack')}")


@click.command()
@pack_argument
@click.option("-k", "--cells", type=click.IntRange(1, 1000), default=5, show_default=True,
              help="Number of comparisons, chosen by chance.")  # fmt: skip
@click.option("--between", type=(str, str), metavar="OLD NEW",
              help="Instead, all comparisons between two versions, such as numpy==2.0.2"
                   " numpy==2.4.6, or of the packages that change between two locks.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(5, 1000), default=10, show_default=True,
              help="Number of jobs of each stack.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the inspections; another one measures anew."
                   "  [default: one in THOTH_HOME/again]")  # fmt: skip
@click.option("--trust-packages", is_flag=True,
              help="Run packages of a pack whose key the trust policy does not know.")  # fmt: skip
@machine_options
@as_json_option
@click.pass_context
def again(context: click.Context, /, **options: Any) -> None:
    """Measure some comparisons of a pack on this machine, and say whether they agree.

    Without PACK, the one that ships. Only series of this machine's hardware class are measured,
    with the versions and hashes of the pack, both stacks of a comparison in turns. Two effects
    agree if they differ by no more than both 95 % intervals allow. The jobs are ingested and count
    as your own. After an interruption, the same command continues. Indicators run without the
    sandbox and import the packages of the pack, so the trust policy must know the key that signed
    it. Exit code 1 if a comparison disagrees or could not be measured.
    """
    from cli.pack_again import measure_again  # loads the executor

    context.exit(0 if measure_again(context.obj, **options) else 1)
