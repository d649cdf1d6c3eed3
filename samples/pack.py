"""Packs what ``thoth inspect`` wrote into ``inspections.tar.gz``.

Run as ``python -m samples.pack FOLDER… --home THOTH_HOME``. Every inspection and every job goes in.
Left out are logs and the copy of the hardware beside each result, and the home of whoever measured
is replaced in texts by a neutral one. The same folders give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import click

ARCHIVE = Path(__file__).parent / "inspections.tar.gz"
HOME = "/var/lib/thoth"
_KEPT = ("build/specification", "build/status", "results/*/result")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--home", required=True, help="The home to be replaced in texts.")
def pack(folders: tuple[Path, ...], home: str) -> None:
    """Pack the inspections below FOLDER."""
    found = sorted(path for folder in folders for path in folder.rglob("inspection-*"))
    with (
        ARCHIVE.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, 0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for inspection in found:
            for path in sorted(it for kept in _KEPT for it in inspection.glob(kept)):
                name = f"{inspection.name}/{path.relative_to(inspection)}"
                _add(archive, name, path.read_text(encoding="utf-8").replace(home, HOME))
    click.echo(f"{len(found)} inspections, {ARCHIVE.stat().st_size / 1000:.0f} kB")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    pack()
