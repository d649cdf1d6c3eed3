"""Read, parse, record: how metadata dumps and solvers' results get in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine

from common.errors import InvalidDocument
from common.reasons import Reason
from common.releases import Release
from common.settings import Settings
from graph.record.release_merging import HashAlarm
from graph.record.releases import (
    ReleaseDelivery,
    ReleasesAdded,
    add_releases,
)
from ingest.batches import Batch, SourceRecorder, in_batches
from ingest.releases.documents import ParsedRelease, parse_releases
from ingest.sources.documents import (
    RawDocument,
    RefusedDocument,
    SourceLimits,
)
from ingest.sources.reader import documents_of

KIND = "release"
#: Releases a transaction, which is what an interruption makes read again. Each costs a tenth
#: more in batches of 500, twice as much in batches of 100, and no less in larger ones.
BATCH_RELEASES = 1_000
#: A file whose first lines are all refused is something else, and not one more is read.
PATIENCE_LINES = 1_000

#: Sources were named by the operator, on the command line.
_OPERATOR_LIMITS = SourceLimits(allow_http=True, lines=True)


@dataclass(slots=True)
class ReleaseReport:
    """What became of the releases of a run.

    :param read: releases met, refused ones included
    :param known: releases that changed nothing, or were met twice
    :param mended: entries of the quarantine that were met no more
    :param states: of all releases that were not refused
    :param problems: why those that are not solved are not
    :param alarms: files whose hash is another than before; the record keeps the first
    """

    read: int = 0
    new: int = 0
    changed: int = 0
    known: int = 0
    quarantined: int = 0
    mended: int = 0
    states: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    alarms: list[HashAlarm] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing is left for a person to look at."""
        return not (self.quarantined or self.alarms)

    def count_batch(self, batch: Batch[ReleaseDelivery], added: ReleasesAdded) -> None:
        """Count a batch and what it did to the record."""
        releases = [delivery.release for delivery in batch.deliveries]
        self.read += len(batch)
        self.new += len(added.new)
        self.changed += len(added.changed)
        self.known += len(releases) - len(added.new) - len(added.changed)
        self.quarantined += len(batch.refusals)
        self.states.update(release.state.value for release in releases)
        self.problems.update(release.problem.value for release in releases if release.problem)
        self.reasons.update(str(refusal.error.reason) for refusal in batch.refusals)
        self.alarms += added.alarms

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "read": self.read,
            "new": self.new,
            "changed": self.changed,
            "known": self.known,
            "quarantined": self.quarantined,
            "mended": self.mended,
            "states": dict(self.states),
            "problems": dict(self.problems),
            "reasons": dict(self.reasons),
            "alarms": [
                {"purl": it.purl, "file": it.filename, "known": it.known, "offered": it.offered}
                for it in self.alarms
            ],
        }


@dataclass(frozen=True, slots=True)
class ReleaseSourceOptions:
    """How sources of releases are read.

    :param as_of: when the index said so, of documents that do not tell; ``None`` for the
        newest upload that each tells of. It said so no earlier, so that what is known of a
        later day is not replaced; the time of a file tells only when it was copied
    :param addresses: names of indexes that are known by their addresses
    """

    limits: SourceLimits = _OPERATOR_LIMITS
    as_of: datetime | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


def read_releases(
    source: str, reading: ReleaseSourceOptions, on_release: Callable[[], None] = lambda: None
) -> Iterator[Batch[ReleaseDelivery]]:
    """Read and parse ``source`` into batches of bounded size, in order."""
    found = _releases_in(source, reading, on_release)
    return in_batches(found, lambda it: len(it.release.body), BATCH_RELEASES)


def check_releases(
    sources: Iterable[str],
    reading: ReleaseSourceOptions,
    on_release: Callable[[], None] = lambda: None,
) -> ReleaseReport:
    """What an import would make of ``sources`` in an empty record; nothing is written."""
    report = ReleaseReport()
    seen: set[str] = set()
    for source in sources:
        for batch in read_releases(source, reading, on_release):
            new = {str(it.release.purl) for it in batch.deliveries} - seen
            report.count_batch(batch, ReleasesAdded(new, set(), 0, []))
            seen |= new
    return report


def import_releases(
    settings: Settings,
    engine: Engine,
    sources: Iterable[str],
    reading: ReleaseSourceOptions,
    *,
    on_release: Callable[[], None] = lambda: None,
    on_commit: Callable[[], None] = lambda: None,
) -> ReleaseReport:
    """Take in every release of ``sources``, and quarantine what cannot be.

    :param on_commit: called after each batch, such as to wake the projector
    :raises StoreUnavailable: if a store is lost; what was committed stays
    """
    report = ReleaseReport()
    for source in sources:
        recorder = SourceRecorder(settings, engine, KIND, source, add_releases)
        for batch, added in recorder.record(read_releases(source, reading, on_release)):
            report.count_batch(batch, added)
            on_commit()
        report.mended += recorder.mended
    return report


def _releases_in(
    source: str, reading: ReleaseSourceOptions, on_release: Callable[[], None]
) -> Iterator[ReleaseDelivery | RefusedDocument]:
    parser = _Parser(reading, datetime.now(UTC))
    refused: int | None = 0
    for raw in documents_of(source, reading.limits):
        for found in parser.releases(raw):
            yield found
            on_release()
            if refused is not None:
                refused = refused + 1 if isinstance(found, RefusedDocument) else None
        if refused is not None and refused >= PATIENCE_LINES:
            words = f"the first {refused} documents are no releases; the rest was not read"
            yield RefusedDocument(raw.source, InvalidDocument(Reason.UNREADABLE, words))
            return


@dataclass(slots=True)
class _Parser:
    """Parses the documents of a source, and dates them.

    :param now: when the run began; no index said anything later
    """

    reading: ReleaseSourceOptions
    now: datetime

    def releases(
        self, raw: RawDocument | RefusedDocument
    ) -> Iterator[ReleaseDelivery | RefusedDocument]:
        if isinstance(raw, RefusedDocument):
            yield raw
            return
        for found in parse_releases(raw, addresses=self.reading.addresses, now=self.now):
            if isinstance(found, ParsedRelease):
                as_of = found.as_of or self.reading.as_of or self._newest_upload(found.release)
                yield ReleaseDelivery(found.release, raw.source, as_of)
            else:
                yield found

    def _newest_upload(self, release: Release) -> datetime | None:
        told = (release.uploaded_at, *(file.uploaded_at for file in release.files))
        return max((min(it, self.now) for it in told if it is not None), default=None)
