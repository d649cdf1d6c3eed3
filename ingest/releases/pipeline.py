"""Imports releases from metadata dumps and results of an earlier solver into the record.

That solver installed each release into an environment of its own and listed its requirements there.
Requirements therefore hold for one environment and have neither markers nor extras. Hashes are left
out, because the document does not say to which files they belong.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Engine

from common.settings import Settings
from graph.record.release_merging import HashAlarm
from graph.record.releases import ReleaseDelivery, ReleasesAdded, add_releases
from ingest.personal_data import scrub_words
from ingest.record import Batch, SourceRecorder, in_batches
from ingest.releases.parsing import index_name, release_of
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.declared_fields import report_of
from model.errors import InvalidDocument, Reason
from model.json_documents import load_json
from model.json_fields import Fields, Record
from model.packages.identity import Purl
from model.packages.releases import SOLVER, Release, ReleaseProblem

KIND = "release"
#: Releases in a transaction; an interrupted run reads at most so many again. Measured: a release
#: takes 10 % longer in batches of 500, twice as long in batches of 100, no less in larger ones.
BATCH_RELEASES = 1_000
#: A file is not read further if so many first documents are refused.
MAX_REFUSED_LINES = 1_000

#: For sources that the operator named on the command line.
_OPERATOR_LIMITS = SourceLimits(allow_http=True, lines=True)
#: Maximum stored characters of a message.
_LONGEST = 10_000
_NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ParsedRelease:
    """A release that a document describes.

    :param as_of: time of the index's description, if the document says
    """

    release: Release
    as_of: datetime | None


def parse_releases(
    raw: RawDocument, *, addresses: Mapping[str, str] = _NO_ADDRESSES, now: datetime | None = None
) -> Iterator[ParsedRelease | RefusedDocument]:
    """Yield the releases in ``raw`` in their order; a document's content never raises an error.

    :param addresses: names of indexes by their URL
    :param now: later times are refused
    """
    moment = datetime.now(UTC) if now is None else now
    try:
        for release, as_of in _releases_in(raw, addresses, moment):
            if isinstance(release, InvalidDocument):
                yield _refusal(raw, release)
            else:
                yield ParsedRelease(release, as_of)
    except InvalidDocument as error:
        yield _refusal(raw, error)


def _releases_in(
    raw: RawDocument, addresses: Mapping[str, str], now: datetime
) -> Iterator[tuple[Release | InvalidDocument, datetime | None]]:
    if raw.data is None:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, "an inspection; `thoth ingest inspections` takes those"
        )
    value, _ = load_json(raw.data)
    document = Fields(value).record
    if is_solver_document(document):
        result = SolverResult(Fields(document), addresses, now)
        as_of = result.as_of()
        for release in result.releases():
            yield release, as_of
    elif "name" in document and "version" in document:
        yield release_of(document, now=now), None
    else:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA,
            "neither a release, with `name` and `version`, nor a solver's result, with a `tree`",
        )


def _refusal(raw: RawDocument, error: InvalidDocument) -> RefusedDocument:
    """Refuse a document; remove private data that the message and the field may quote."""
    message, name = scrub_words(error.message, _LONGEST), scrub_words(error.field, _LONGEST)
    return RefusedDocument(
        raw.source, InvalidDocument(error.reason, message, field=name, place=raw.place)
    )


@dataclass(slots=True)
class ReleaseReport:
    """Counts of a run.

    :param read: releases, refused ones included
    :param known: releases that changed nothing, or occurred twice
    :param mended: entries of the quarantine that the sources no longer cause
    :param states: of all releases that were not refused
    :param problems: of the releases that are not solved
    :param alarms: files whose hash changed; the record keeps the first
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
        """Whether nothing in the import needs the attention of a person."""
        return not (self.quarantined or self.alarms)

    def count_batch(self, batch: Batch[ReleaseDelivery], added: ReleasesAdded) -> None:
        """Add a batch and its effects on the record to the counts."""
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
        alarms = [
            {"purl": it.purl, "file": it.filename, "known": it.known, "offered": it.offered}
            for it in self.alarms
        ]
        return {**report_of(self), "alarms": alarms}


@dataclass(frozen=True, slots=True)
class ReleaseSourceOptions:
    """How sources of releases are read.

    :param as_of: date of documents that have none; ``None`` for the newest upload in each. The
        index cannot have described a release before its newest upload, and an early date cannot
        replace newer knowledge. The time of a file is not used: it is that of the last copy
    :param addresses: names of indexes by their URL
    """

    limits: SourceLimits = _OPERATOR_LIMITS
    as_of: datetime | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


def read_releases(
    source: str, reading: ReleaseSourceOptions, on_release: Callable[[], None] = lambda: None
) -> Iterator[Batch[ReleaseDelivery]]:
    """Read and parse ``source`` into batches of bounded size, in order."""
    releases = _deliveries_in(source, reading, on_release)
    return in_batches(releases, lambda it: len(it.release.body), BATCH_RELEASES)


def check_releases(
    sources: Iterable[str],
    reading: ReleaseSourceOptions,
    on_release: Callable[[], None] = lambda: None,
) -> ReleaseReport:
    """Report what :func:`import_releases` would store in an empty record; write nothing."""
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
    """Store every release of ``sources``, and quarantine documents that are refused.

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


def _deliveries_in(
    source: str, reading: ReleaseSourceOptions, on_release: Callable[[], None]
) -> Iterator[ReleaseDelivery | RefusedDocument]:
    parser = _Parser(reading, datetime.now(UTC))
    refused: int | None = 0
    for raw in documents_of(source, reading.limits):
        for release in parser.releases(raw):
            yield release
            on_release()
            if refused is not None:
                refused = refused + 1 if isinstance(release, RefusedDocument) else None
        if refused is not None and refused >= MAX_REFUSED_LINES:
            message = f"the first {refused} documents are not releases; the rest was not read"
            yield RefusedDocument(raw.source, InvalidDocument(Reason.UNREADABLE, message))
            return


@dataclass(slots=True)
class _Parser:
    """Parses the documents of a source and dates their releases.

    :param now: when the run began; no document can be newer
    """

    reading: ReleaseSourceOptions
    now: datetime

    def releases(
        self, raw: RawDocument | RefusedDocument
    ) -> Iterator[ReleaseDelivery | RefusedDocument]:
        if isinstance(raw, RefusedDocument):
            yield raw
            return
        for parsed in parse_releases(raw, addresses=self.reading.addresses, now=self.now):
            if isinstance(parsed, RefusedDocument):
                yield parsed
                continue
            release, as_of = parsed.release, parsed.as_of or self.reading.as_of
            uploads = (release.uploaded_at, *(file.uploaded_at for file in release.files))
            newest = max((min(it, self.now) for it in uploads if it is not None), default=None)
            yield ReleaseDelivery(release, raw.source, as_of or newest)


_LONGEST_TEXT = 2**26
#: Messages of an installer if the index has nothing to install; other messages are failed builds.
_NO_FILES = ("could not find a version", "no matching distribution")
#: Texts of the solver for any version.
_ANY = frozenset({"", "*", "any"})


def is_solver_document(document: Record) -> bool:
    """Whether a document is the result of a solver."""
    result = document.get("result")
    return isinstance(result, dict) and "tree" in result


@dataclass(frozen=True, slots=True)
class SolverResult:
    """One result of a solver run.

    :param addresses: names of indexes by their URL
    """

    document: Fields
    addresses: Mapping[str, str]
    now: datetime

    def as_of(self) -> datetime | None:
        """Return when the solver ran.

        :raises InvalidDocument: if it is not a time, or lies in the future
        """
        return self.document.nested("metadata").time("datetime", self.now)

    def releases(self) -> Iterator[Release | InvalidDocument]:
        """Yield installed releases, then failed releases, then errors for all other entries.

        A release may occur several times. The first success counts; if there is none, the first
        failure counts.
        """
        seen: set[Purl] = set()
        for release in self._entries():
            if isinstance(release, InvalidDocument):
                yield release
            elif release.purl not in seen:
                seen.add(release.purl)
                yield release

    def _entries(self) -> Iterator[Release | InvalidDocument]:
        result = self.document.nested("result")
        for key, read in (
            ("tree", self._solved), ("errors", self._failed),
            ("unparsed", _unparsed), ("unresolved", _unresolved),
        ):  # fmt: skip
            for position, item in enumerate(result.sequence(key)):
                at = result.at / key / position
                try:
                    yield release_of(read(Fields(item, at)), now=self.now)
                except InvalidDocument as error:
                    if error.field.startswith(at):
                        yield error
                        continue
                    # The field becomes a path in the solver's document.
                    inner = error.field.removeprefix("$").lstrip(".")
                    message = f"{inner}: {error.message}" if inner else error.message
                    yield InvalidDocument(error.reason, message, field=at)

    def _solved(self, entry: Fields) -> Record:
        requirements = []
        for dependency in entry.each("dependencies"):
            name = dependency.required_text("package_name")
            specifier = (dependency.text("required_version", 2_000) or "").strip()
            requirements.append(name if specifier.lower() in _ANY else f"{name}{specifier}")
        return {**self._identity(entry), "requires_dist": requirements}

    def _failed(self, entry: Fields) -> Record:
        message = entry.nested("details").text("message", _LONGEST_TEXT) or ""
        # The first and the last line of a traceback say what failed.
        lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
        ends = dict.fromkeys((*lines[:1], *lines[-1:]))
        no_files = any(text in message.lower() for text in _NO_FILES)
        problem = ReleaseProblem.NO_FILES if no_files else ReleaseProblem.NOT_RECORDED
        return {
            **self._identity(entry),
            "requires_dist": None,
            "problem": problem.value,
            "problem_message": " … ".join(line[:400] for line in ends),
        }

    def _identity(self, entry: Fields) -> Record:
        index = entry.get("index_url", entry.get("index"))
        if isinstance(index, str):
            known = self.addresses.get(index.rstrip("/"))
            index = known or index_name(index, entry.at / "index_url")
        return {
            "name": entry.get("package_name"),
            "version": entry.get("package_version", entry.get("version")),
            "index": index,
            "metadata_source": SOLVER,
        }


def _unparsed(entry: Fields) -> Record:
    message = (
        f"the solver could not read {(entry.text('requirement', _LONGEST_TEXT) or '')[:200]!r}"
    )
    raise entry.invalid(Reason.INVALID_REQUIREMENT, message)


def _unresolved(entry: Fields) -> Record:
    specifier = entry.text("version_spec", _LONGEST_TEXT) or ""
    message = f"the solver found no version of {entry.text('package_name') or ''}{specifier[:200]}"
    raise entry.invalid(Reason.UNRESOLVED, message)
