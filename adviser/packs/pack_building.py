"""Builds an evidence pack from the record; entry point :func:`build_pack`."""

import hashlib
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import orjson
from packaging.utils import canonicalize_name
from sqlalchemy import Connection, Engine

from adviser.exports import tables as export_tables
from adviser.exports.parquet import at_one_moment, target_folder, write_rows
from adviser.packs.envelope import Assurance, signed
from adviser.packs.manifest import TABLES, MeasuredWheel, PackFile, PackManifest
from adviser.packs.pack_contents import NEVER, summary_of
from adviser.packs.pack_files import (
    ENVELOPE,
    INDICATORS,
    MANIFEST,
    Pack,
    files_in,
    opened,
    write_archive,
)
from common import __version__
from common.files import atomic_file
from common.settings import Settings
from graph.record.documents import body_of
from graph.record.exported_rows import ExportSelection
from model.errors import InvalidArgument
from model.json_fields import Fields
from pis.bundle import script_of, script_sha256
from pis.catalogue import INDICATORS as BUNDLED
from pis.catalogue import summaries

ARCHIVE_SUFFIX = ".tar"


def build_pack(  # noqa: PLR0913 - one for each option
    engine: Engine,
    settings: Settings,
    target: Path,
    selection: ExportSelection,
    *,
    name: str | None = None,
    licence: str | None = None,
    replacing: bool = False,
    progress: Callable[[str, int], None] = lambda table, rows: None,
) -> Pack:
    """Write measurements of the record as a pack; equal selections of a record give equal bytes.

    Without indicators in the selection, the bundled indicators are selected: scripts and commands
    of your own are private.

    :param target: a new folder, or a new archive if its name ends with ``.tar``
    :param name: for people; by default the name of the target
    :param licence: SPDX expression; ``None`` states no licence
    :param replacing: replace an earlier pack
    :param progress: called with the name of a table and its number of rows so far
    :raises InvalidArgument: if nothing was measured, or ``target`` must not be written
    """
    if not selection.indicators:
        selection = replace(selection, indicators=tuple(sorted(summaries())))
    if target.suffix != ARCHIVE_SUFFIX:
        with target_folder(target, replace=replacing, marker=MANIFEST) as part:
            _fill(engine, settings, part, selection, name or target.name, licence, progress)
        return opened(target)
    if target.exists() and not replacing:
        raise InvalidArgument(f"{target}: exists already", hint="replace it with --replace")
    if target.is_dir() or (target.exists() and not tarfile.is_tarfile(target)):
        raise InvalidArgument(f"{target}: is no pack, so it is not replaced")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        part = Path(folder)
        _fill(engine, settings, part, selection, name or target.stem, licence, progress)
        write_archive(target, files_in(part))
    return opened(target)


def sign_pack(path: Path, key: Any, assurance: Assurance) -> Pack:
    """Sign a pack, and replace an earlier signature.

    :param key: a private Ed25519 key
    :raises InvalidPack: if it is not whole
    """
    pack = opened(path)
    envelope = signed(pack.manifest, key, assurance)
    if pack.path.is_dir():
        # Beside the pack, which has no other files than those of its manifest.
        with atomic_file(pack.path / ENVELOPE, folder=pack.path.parent) as file:
            file.write(envelope)
    else:
        write_archive(pack.path, pack.places, **{ENVELOPE: envelope})
    return opened(pack.path)


def _fill(
    engine: Engine,
    settings: Settings,
    part: Path,
    selection: ExportSelection,
    name: str,
    licence: str | None,
    progress: Callable[[str, int], None],
) -> None:
    """Write all files of a pack into an empty folder."""
    with at_one_moment(engine) as connection:
        written = [
            write_rows(connection, export_tables.TABLES[it], part, progress, selection)
            for it in TABLES
        ]
        counts = {it.name: it.rows for it in written}
        files = tuple(_pack_files(part))
        empty = PackManifest(
            name, licence, NEVER, NEVER, __version__, counts, files, (), (), (), ()
        )
        pack = Pack(part, empty, None, None, None, files_in(part))
        summary = summary_of(pack)
        if not summary.scripts:
            raise InvalidArgument("the selection has no measurement: nothing is written")
        hashes = _locked_hashes(connection, settings, pack)
    bundled = {script_sha256(it): it for it in {it.name for it in summary.scripts} & {*BUNDLED}}
    (part / INDICATORS).mkdir()
    for script in bundled.keys() & {it.script_sha256 for it in summary.scripts}:
        path = part / INDICATORS / f"{script}.py"
        path.write_text(script_of(bundled[script]), encoding="utf-8")
    stated: dict[str, Any] = {it.name: getattr(summary, it.name) for it in fields(summary)}
    wheels = (it.purl for it in summary.wheels)
    stated["wheels"] = tuple(MeasuredWheel(it, hashes.get(it, ())) for it in wheels)
    manifest = replace(empty, files=tuple(_pack_files(part)), **stated)
    (part / MANIFEST).write_bytes(manifest.canonical)


def _pack_files(folder: Path) -> Iterator[PackFile]:
    for name, place in sorted(files_in(folder).items()):
        with place.path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        yield PackFile(name, sha256, place.size_bytes)


def _locked_hashes(
    connection: Connection, settings: Settings, pack: Pack
) -> Mapping[str, tuple[str, ...]]:
    """SHA-256 of the files that the locks of its stacks allow, by Package URL.

    Reads one inspection of each stack.
    """
    inspections = pack.rows("inspections", ("stack_digest", "document_id"))
    documents = {it["stack_digest"]: it["document_id"] for it in inspections}
    purls: dict[str, dict[str, str]] = defaultdict(dict)
    for row in pack.rows("stacks", ("stack_digest", "name", "purl")):
        purls[row["stack_digest"]][row["name"]] = row["purl"]
    hashes: dict[str, set[str]] = defaultdict(set)
    for stack, document_id in sorted(documents.items()):
        body = body_of(connection, settings, document_id)
        python = Fields(orjson.loads(body or b"{}")).nested("specification").nested("python")
        for name, entry in python.nested("requirements_locked").nested("default").items():
            purl = purls[stack].get(canonicalize_name(name))
            if purl is not None and isinstance(entry, dict):
                hashes[purl].update(Fields(entry).texts("hashes"))
    prefix = "sha256:"
    return {
        purl: tuple(sorted(it.removeprefix(prefix) for it in allowed if it.startswith(prefix)))
        for purl, allowed in hashes.items()
    }
