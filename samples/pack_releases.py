"""Packs release documents of the record into ``packages.jsonl.gz``.

Run as ``python -m samples.pack_releases NAME… --versions 6 --also numpy==2.0.2`` after
``thoth packages add NAME…``: the newest versions of each package and those that are named, one
document a line. The same record gives the same bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import click
from packaging.version import InvalidVersion, Version
from sqlalchemy import Connection, select

from common.settings import Settings
from graph.engine import open_stores
from graph.record.documents import body_of
from graph.tables import PackageVersionRow

ARCHIVE = Path(__file__).parent / "packages.jsonl.gz"


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--versions", default=6, show_default=True, help="How many of each package.")
@click.option("--also", multiple=True, metavar="NAME==VERSION", help="Older releases as well.")
def pack(names: tuple[str, ...], versions: int, also: tuple[str, ...]) -> None:
    """Pack the newest versions of NAME."""
    wanted = {tuple(it.split("==", 1)) for it in also}
    settings = Settings.from_env()
    with open_stores(settings, graph=False) as stores, stores.engine.connect() as record:
        lines = [
            body_of(record, settings, document) or b""
            for name in sorted(names)
            for document in _documents(
                record, name, versions, {version for it, version in wanted if it == name}
            )
        ]
    with ARCHIVE.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(b"\n".join(lines) + b"\n")
    click.echo(f"{len(lines)} releases, {ARCHIVE.stat().st_size / 1000:.0f} kB")


def _documents(record: Connection, name: str, count: int, also: set[str]) -> Iterator[str]:
    rows = record.execute(
        select(PackageVersionRow.version, PackageVersionRow.release_document_id).where(
            PackageVersionRow.name == name, PackageVersionRow.state == "solved"
        )
    )
    known = {version: document for version, document in rows if document and _is_final(version)}
    for place, version in enumerate(sorted(known, key=Version, reverse=True)):
        if place < count or version in also:
            yield known[version]


def _is_final(version: str) -> bool:
    try:
        return not Version(version).is_prerelease
    except InvalidVersion:
        return False


if __name__ == "__main__":
    pack()
