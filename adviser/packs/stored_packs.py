"""The packs of a store: added whole or not at all, and read from a local cache."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from adviser.packs.manifest import PackManifest
from adviser.packs.trust import evidence_pack, read_policy
from common.files import private_folder
from common.settings import Settings
from graph.record.documents import delete_unreferenced_bodies
from graph.record.evidence import purls_in
from graph.record.hardware import recorded_hardware
from graph.record.measurements import installed_component
from graph.record.packs import PackHead, StoredPack, add_pack, pack_files, remove_pack, stored_packs
from model.errors import DamagedDocument, InvalidArgument, InvalidPack, Reason
from model.json_documents import digest_bytes
from model.measurements.evidence import (
    Evidence,
    EvidencePack,
    MeasuredObservation,
    RecordedHardware,
)
from model.packages.identity import Purl, package_version_of
from model.packages.snapshot import Snapshot

if TYPE_CHECKING:  # files of packs need pyarrow, which takes 0.3 s to load
    from adviser.packs.pack_files import Pack

_LOG = logging.getLogger(__name__)


def add_packed(
    engine: Engine, settings: Settings, pack: Pack, address: str,
    progress: Callable[[int, int], None],
) -> bool:  # fmt: skip
    """Store an opened pack in one transaction.

    :param address: path or URL that it came from, without secrets
    :param progress: called with the number of bytes that were stored, and of all
    :returns: ``False`` if the record has it already
    :raises InvalidPack: if the record has this pack with the signature of another key
    """
    with engine.begin() as connection:
        envelope = None if pack.envelope is None else pack.envelope.decode()
        manifest = pack.manifest.canonical.decode()
        head = PackHead(pack.digest, pack.manifest.name, manifest, envelope, pack.key, address)
        return add_pack(connection, settings, head, pack.contents(progress))


def remove_packed(engine: Engine, settings: Settings, digest: str) -> None:
    """Remove a pack from the record, and its files from the document store and the cache."""
    with engine.begin() as connection:
        remove_pack(connection, digest)
    delete_unreferenced_bodies(settings, engine)
    for folder in _cache(settings).glob(f"{_hex(digest)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def pack_named(packs: Collection[StoredPack], name: str) -> StoredPack:
    """The pack with a name, or with a prefix of its digest.

    :raises InvalidArgument: if there is none, or there are several
    """
    digest = name if ":" in name else f"sha256:{name}"
    named = [it for it in packs if it.name == name or it.digest.startswith(digest)]
    if len(named) != 1:
        raise InvalidArgument(
            f"{len(named)} packs have this name or a digest that begins so: {name}",
            hint="`thoth pack list` shows all packs",
        )
    return named[0]


def pack_folder(connection: Connection, settings: Settings, stored: StoredPack) -> Path:
    """The files of a pack in the local cache, where every later process finds them.

    :raises DamagedDocument: if a part in the document store is damaged
    """
    from adviser.packs.pack_files import ENVELOPE, MANIFEST

    # A pack that was signed anew has other files.
    signed = digest_bytes((stored.envelope or "").encode())
    folder = _cache(settings) / f"{_hex(stored.digest)}-{_hex(signed)[:8]}"
    if folder.is_dir():
        return folder
    part = Path(tempfile.mkdtemp(prefix="part-", dir=private_folder(folder.parent)))
    try:
        (part / MANIFEST).write_text(stored.manifest, "utf-8")
        if stored.envelope is not None:
            (part / ENVELOPE).write_text(stored.envelope, "utf-8")
        for path, body in pack_files(connection, settings, stored.digest):
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            with (part / path).open("ab") as file:
                file.write(body)
        with suppress(OSError):  # another process has been faster
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _cache(settings: Settings) -> Path:
    return settings.index_cache / "packs"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


@lru_cache(maxsize=64)
def _opened(folder: Path) -> Pack:
    """A pack of the cache, compared with its manifest once in a process."""
    from adviser.packs.pack_files import opened

    return opened(folder)


def opened_pack(connection: Connection, settings: Settings, stored: StoredPack) -> Pack:
    """A pack of the record; if the cache was changed, its files are written again.

    :raises InvalidPack: if the stored pack does not match its digest
    :raises DamagedDocument: if a part in the document store is damaged
    """
    folder = pack_folder(connection, settings, stored)
    with suppress(InvalidPack):
        if (pack := _opened(folder)).digest == stored.digest:
            return pack
    # The cache was changed.
    shutil.rmtree(folder, ignore_errors=True)
    _opened.cache_clear()
    pack = _opened(pack_folder(connection, settings, stored))
    if pack.digest != stored.digest:
        message = f"its digest is {pack.digest}, but the record has {stored.digest}"
        raise InvalidPack(Reason.TAMPERED, message, place=stored.name)
    return pack


@dataclass(frozen=True, slots=True)
class _ReadablePack:
    """An opened pack with its trust, and all versions in its stacks."""

    pack: Pack
    about: EvidencePack
    purls: frozenset[Purl]


def observations_of(manifest: PackManifest, evidence: Evidence) -> Iterator[MeasuredObservation]:
    """The evidence of one pack as measurements with their stacks, as comparisons take them."""
    libraries = {it.name: it.component for it in manifest.scripts}
    packages = {
        stack: tuple(map(package_version_of, purls)) for stack, purls in evidence.stacks.items()
    }
    for reading in evidence.readings:
        series, installed = evidence.series[reading.series], packages[reading.stack]
        component, version = installed_component(
            libraries.get(series.indicator), {it.name: it.version for it in installed}
        )
        label = evidence.hardware[series.hardware_digest]
        yield MeasuredObservation(series, reading, label, component, version, installed)


class PackReader:
    """Adds the evidence of packs to our own, and reads nothing twice.

    :param now: ages are measured from the beginning of its day (UTC)
    """

    def __init__(self, connection: Connection, settings: Settings, now: datetime) -> None:
        self._now = now
        self._packs = [*_readable(connection, settings, now)]
        #: Evidence of a pack for some versions, and the last result with what it was made of.
        self._packed: dict[str, tuple[frozenset[Purl], Evidence]] = {}
        self._last: tuple[Evidence, list[Evidence], Evidence] | None = None

    def with_packs(
        self, own: Evidence, snapshot: Snapshot, *, with_excluded: bool = False
    ) -> Evidence:
        """Our own evidence and the evidence of all packs for a snapshot.

        :param with_excluded: include stacks that contain an excluded version
        :returns: the same object as before if nothing changed; ``own`` without packs
        """
        purls = purls_in(snapshot, with_excluded=with_excluded) if self._packs else ()
        several = (self._evidence(each, purls) for each in self._packs)
        packed = [it for it in several if it.series]
        if not packed:
            return own
        last = self._last
        if last is None or last[0] is not own or last[1] != packed:
            last = self._last = own, packed, own.with_packs(packed)
        return last[2]

    def observations(
        self, own: Collection[str], indicator: str | None = None, hardware: str | None = None
    ) -> Iterator[tuple[EvidencePack, list[MeasuredObservation]]]:
        """The measurements of each pack, as :func:`measured_observations` reads our own.

        :param own: identifiers of observations that count as our own
        :param indicator: name of an indicator
        :param hardware: prefix of digests of hardware classes
        """

        def counts(row: MeasuredObservation) -> bool:
            return (
                row.reading.observation_id not in own
                and indicator in {None, row.series.indicator}
                and row.series.hardware_digest.startswith(hardware or "")
            )

        for each in self._packs:
            evidence = self._evidence(each, each.purls)
            observed = observations_of(each.pack.manifest, evidence)
            yield each.about, [row for row in observed if counts(row)]

    def _evidence(self, readable: _ReadablePack, purls: Collection[Purl]) -> Evidence:
        from adviser.packs.pack_evidence import packed_evidence

        wanted = readable.purls.intersection(purls)
        known = self._packed.get(readable.pack.digest)
        if known is None or known[0] != wanted:
            try:
                evidence = packed_evidence(readable.pack, readable.about, wanted, self._now)
            except InvalidArgument as error:  # a pack of others must not end an answer
                _log_left_out(readable.pack.digest, error)
                evidence = Evidence(self._now)
            known = self._packed[readable.pack.digest] = wanted, evidence
        return known[1]


def known_hardware(connection: Connection, settings: Settings) -> list[RecordedHardware]:
    """The hardware classes of the record and of its packs, by digest."""
    classes = {it.digest: it for it in recorded_hardware(connection)}
    for stored in stored_packs(connection):
        from adviser.packs.pack_evidence import packed_hardware

        with suppress(InvalidPack, DamagedDocument):
            packed = packed_hardware(opened_pack(connection, settings, stored))
            classes = {it.digest: it for it in packed} | classes
    return [classes[it] for it in sorted(classes)]


def _log_left_out(digest: str, error: Exception) -> None:
    _LOG.warning("pack_left_out", extra={"pack": digest, "error": str(error)})


def _readable(connection: Connection, settings: Settings, now: datetime) -> Iterator[_ReadablePack]:
    packs = stored_packs(connection)
    if not packs:  # an invalid policy matters only then
        return
    policy = read_policy(settings)
    for stored in packs:
        try:
            pack = opened_pack(connection, settings, stored)
            purls = frozenset(Purl(it["purl"]) for it in pack.rows("stacks", ("purl",)))
        except (InvalidPack, DamagedDocument) as error:
            _log_left_out(stored.digest, error)
            continue
        about = evidence_pack(pack.manifest, pack.key, policy, now.date())
        yield _ReadablePack(pack, about, purls)
