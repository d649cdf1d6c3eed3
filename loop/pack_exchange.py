"""Reads evidence packs from files and addresses, and follows addresses that publish new ones.

An address needs no server: a folder, such as one of a Git work tree, or a URL of a web server or an
object store. Its file :data:`INDEX` names the packs in it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Engine

from adviser.packs.stored_packs import add_packed
from common.settings import OBJECT_STORES, Settings
from graph.record.document_store import client_errors, file_system_of
from graph.record.packs import follow_address, followed_addresses, note_read, stored_packs
from graph.record.postgresql_helpers import current_time
from graph.record.quarantine import QuarantineReason, add_refusals, resolve_source
from ingest.advisories.sources import Validators, fetch_archive
from ingest.sources.source_items import MEBIBYTE, check_url, local_path, stored_source
from model.errors import (
    InvalidArgument,
    InvalidDocument,
    InvalidPack,
    ProjectError,
    Reason,
    StoreUnavailable,
)
from model.json_documents import load_json
from model.json_fields import ROOT, Fields
from model.redaction import absolute_source

if TYPE_CHECKING:
    from adviser.packs.pack_files import Pack

#: Name of the file that lists the packs of an address.
INDEX = "packs.json"
#: Kind of refused packs in the quarantine.
KIND = "pack"
_SCHEMA = "packs-1"
#: Name of a server in messages.
_WHAT = "the address of packs"
_INDEX_BYTES = 4 * MEBIBYTE
_PACK_BYTES = 2048 * MEBIBYTE
_MOST_PACKS = 1000
_PARENT = re.compile(r"/(?:\.|%2e){2}(?:/|\Z)", re.IGNORECASE)
#: Forms of the fields of an index, with what they are.
_FORMS = {
    "digest": (r"sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits"),
    "address": (r"(?!\.)[A-Za-z0-9_.+-]+(/(?!\.)[A-Za-z0-9_.+-]+)*", "a path below the index"),
}


#: Called with a step, what of it is done, and all of it.
NamedProgress = Callable[[str, int, int], None]
_STORED = "Bytes stored"


def _ignore(step: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class ListedPack:
    """A pack in an index.

    :param size_bytes: of its file, or of all files in its folder
    :param address: of its file or folder, relative to the address of the index
    """

    name: str
    digest: str
    size_bytes: int
    address: str


@dataclass(slots=True)
class FollowReport:
    """The result of reading followed addresses.

    :param added: names of new packs
    :param refused: relative addresses of packs that are in quarantine, with the reasons
    :param unread: addresses whose index could not be read, with the reasons
    """

    addresses: int = 0
    added: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def pack_address(settings: Settings, address: str) -> str:
    """Check the address of packs from the command line, and return it; a path becomes absolute.

    :raises InvalidArgument: if packs must not be read from there
    """
    place = absolute_source(address)
    scheme = place.partition("://")[0] if local_path(place) is None else "file"
    if scheme not in {"file", "http", "https", *OBJECT_STORES}:
        raise InvalidArgument(f"{scheme[:40]}://: not a path, nor an https:// or s3:// address")
    try:
        check_url(place)
    except InvalidDocument as error:
        raise InvalidArgument(error.message) from None
    _require_allowed(settings, place)
    return place


def _require_allowed(settings: Settings, place: str) -> None:
    """:raises InvalidArgument: if the settings do not allow the address"""
    resolved = _absolute_place(place)
    allowed = [_absolute_place(absolute_source(it)).rstrip("/") for it in settings.pack_addresses]
    inside = any(resolved == it or resolved.startswith(f"{it}/") for it in allowed)
    if allowed and (not inside or _PARENT.search(resolved)):
        raise InvalidArgument(f"{stored_source(place)}: PACK_ADDRESSES does not allow this address")


def _absolute_place(place: str) -> str:
    path = local_path(place)
    return place if path is None else str(Path(path).resolve())


def add_from(
    settings: Settings, engine: Engine, address: str, progress: NamedProgress = _ignore
) -> tuple[Pack, bool]:
    """Add the pack at an address of :func:`pack_address`; it is stored whole or not at all.

    :param progress: called with a step, its finished amount, and its total
    :returns: the pack, and whether it is new
    :raises InvalidDocument: if the pack is refused
    :raises StoreUnavailable: if the address does not answer
    """
    with _checked_pack(address, _PACK_BYTES, progress) as pack:
        source = stored_source(address)
        return pack, add_packed(engine, settings, pack, source, partial(progress, _STORED))


@contextmanager
def _checked_pack(address: str, most_bytes: int, progress: NamedProgress) -> Iterator[Pack]:
    """The pack at an address; the checked files stay unchanged within the block.

    :raises InvalidPack: if it is not whole, or its tables are inconsistent
    """
    from adviser.packs.pack_contents import check_contents  # loads pyarrow
    from adviser.packs.pack_files import copy_pack, opened

    with _fetched(address, most_bytes) as path, TemporaryDirectory(prefix="thoth-pack-") as folder:
        try:
            copy = Path(folder, "pack.tar")
            if local_path(address) is not None:  # others can change it
                copy_pack(path, copy)
            pack = opened(copy if copy.exists() else path, partial(progress, "Bytes compared"))
            check_contents(pack, partial(progress, "Measurements compared"))
        except InvalidPack as error:
            error.place = stored_source(address)
            raise
        yield pack


def follow_packs(
    settings: Settings, engine: Engine, address: str, progress: NamedProgress = _ignore
) -> FollowReport:
    """Remember an address, and add the packs of its index that the record lacks.

    :param progress: as for :func:`add_from`
    :raises InvalidArgument: if the address has a query, which may be a secret
    :raises InvalidDocument: if the index is refused; then the address is not remembered
    :raises StoreUnavailable: if it cannot be read
    """
    if stored_source(address) != address:
        raise InvalidArgument("an address to follow has no query")
    report, listed = FollowReport(), _index(address)
    with engine.begin() as connection:
        follow_address(connection, address)
    _add_listed(settings, engine, address, listed, report, progress)
    return report


def read_followed_addresses(settings: Settings, engine: Engine) -> dict[str, Any] | None:
    """Add new packs of all followed addresses.

    :returns: a :class:`FollowReport` as JSON values; ``None`` if there are no addresses
    """
    with engine.connect() as connection:
        addresses = [it.address for it in followed_addresses(connection)]
    report = FollowReport()
    for address in addresses:
        try:
            _require_allowed(settings, address)
            _add_listed(settings, engine, address, _index(address), report)
        except ProjectError as error:
            report.unread[address] = str(error)
    return asdict(report) if addresses else None


def _add_listed(
    settings: Settings,
    engine: Engine,
    address: str,
    listed: list[ListedPack],
    report: FollowReport,
    progress: NamedProgress = _ignore,
) -> None:
    report.addresses += 1
    with engine.connect() as connection:
        began = current_time(connection)
        known = {it.digest for it in stored_packs(connection)}
    refusals = []
    for entry in listed:
        if entry.digest in known:
            continue
        try:
            source = f"{address.rstrip('/')}/{entry.address}"
            with _checked_pack(source, entry.size_bytes, progress) as pack:
                if pack.digest != entry.digest:
                    message = f"the index names {entry.digest}, and the pack is {pack.digest}"
                    raise InvalidDocument(Reason.TAMPERED, message)
                stored = partial(progress, _STORED)
                if add_packed(engine, settings, pack, source, stored):
                    report.added.append(pack.manifest.name)
        except StoreUnavailable as error:
            if error.store != _WHAT:
                raise
            problem = InvalidDocument(Reason.UNREADABLE, str(error))
        except InvalidDocument as error:
            problem = error
        else:
            continue
        report.refused[entry.address] = str(problem)
        what = problem.reason, problem.field, problem.message
        refusals.append(QuarantineReason(KIND, address, entry.address, *what))
    with engine.begin() as connection:
        add_refusals(connection, refusals)
        resolve_source(connection, address, began, KIND)
        note_read(connection, address)


def _index(address: str) -> list[ListedPack]:
    """:raises InvalidDocument: if the address has no index, or a wrong one"""
    with _fetched(f"{address.rstrip('/')}/{INDEX}", _INDEX_BYTES) as path:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InvalidDocument(
                Reason.UNREADABLE, f"{stored_source(address)}: no {INDEX}",
                hint="`thoth pack index DIR` writes it",
            ) from error  # fmt: skip
    index = Fields(load_json(data)[0], ROOT)
    if index.get("schema_version") != _SCHEMA:
        raise index.invalid(Reason.UNKNOWN_SCHEMA, f"is not {_SCHEMA}", "schema_version")
    if len(index.sequence("packs")) > _MOST_PACKS:
        raise index.invalid(Reason.OUT_OF_RANGE, f"more than {_MOST_PACKS} packs", "packs")
    return [_listed(entry) for entry in index.each("packs")]


def _listed(entry: Fields) -> ListedPack:
    for key, (form, meaning) in _FORMS.items():
        if not re.fullmatch(form, entry.required_text(key)):
            message = f"{entry[key][:80]!r} is not {meaning}"
            raise entry.invalid(Reason.OUT_OF_RANGE, message, key)
    return ListedPack(
        entry.required_text("name"), entry["digest"],
        entry.required_integer("size_bytes", 1, _PACK_BYTES), entry["address"],
    )  # fmt: skip


def write_index(folder: Path) -> list[ListedPack]:
    """Write the index of the packs in a folder; each pack is a ``.tar`` or a folder.

    :raises InvalidArgument: for a name that followers refuse, or an invalid pack
    """
    from adviser.packs.pack_files import MANIFEST, opened

    listed = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or (path.suffix != ".tar" and not (path / MANIFEST).exists()):
            continue
        if not re.fullmatch(_FORMS["address"][0], path.name):
            raise InvalidArgument(
                f"{path}: followers refuse this name",
                hint="rename it: letters, digits and the characters _ . + -",
            )
        pack = opened(path)
        files = [path] if path.is_file() else [it for it in path.rglob("*") if it.is_file()]
        size = sum(it.stat().st_size for it in files)
        listed.append(ListedPack(pack.manifest.name, pack.digest, size, path.name))
    document = {"schema_version": _SCHEMA, "packs": [asdict(it) for it in listed]}
    part = folder / f".{INDEX}.part"
    part.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    part.replace(folder / INDEX)
    return listed


@contextmanager
def _fetched(address: str, most_bytes: int) -> Iterator[Path]:
    """The file or folder at an address; remote files are downloaded for the block.

    :raises InvalidDocument: if a remote file is larger
    :raises StoreUnavailable: if the address does not answer
    """
    if (path := local_path(address)) is not None:
        yield Path(path)
        return
    with TemporaryDirectory(prefix="thoth-pack-") as folder:
        target = Path(folder) / "pack.tar"
        if address.partition("://")[0] in {"http", "https"}:
            fetched = fetch_archive(
                address, Validators(), target.parent, most_bytes=most_bytes, what=_WHAT
            )
            assert fetched.path is not None  # noqa: S101 - no version is known
            yield fetched.path.rename(target)
            return
        with _address_errors():
            filesystem, remote = file_system_of(address)
            filesystem.invalidate_cache()
            size = filesystem.size(remote)
        if size > most_bytes:
            raise InvalidDocument(Reason.FILE_TOO_LARGE, f"larger than {most_bytes:,} bytes")
        with _address_errors(), filesystem.open(remote, "rb") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, MEBIBYTE)
        yield target


@contextmanager
def _address_errors() -> Iterator[None]:
    """:raises StoreUnavailable: in place of the errors of an object store"""
    try:
        yield
    except client_errors(ImportError) as error:
        cause = str(error) if isinstance(error, ImportError) else type(error).__name__
        hint = "check the address, and the credentials in the environment"
        raise StoreUnavailable(_WHAT, cause, hint) from error
