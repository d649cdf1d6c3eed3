"""Reads results of other benchmark systems from sources, and stores them.

Personal data never reaches the record: readers take only known fields, and texts are searched for
e-mail addresses. An entry is stored as a whole, so that a run can be interrupted and repeated.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from pathlib import Path
from posixpath import join
from typing import Any

from sqlalchemy import Engine

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.benchmark_entries import COPIED_AT_ONCE, Entry, entry_id_of, store_entries
from graph.record.quarantine import QuarantineReason, add_refusals
from ingest.benchmarks.result_tree import ResultTree
from ingest.benchmarks.systems import SYSTEMS, BenchmarkSystem
from ingest.personal_data import scrub_text
from ingest.sources.archives import unpack_archive
from ingest.sources.bounded_reads import MAX_DEPTH, empty, unreadable
from ingest.sources.content_detection import NO_REGULAR_FILE, system_of
from ingest.sources.file_names import is_archive
from ingest.sources.source_items import SourceLimits, local_path, stored_source
from model.declared_fields import report_of
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.measurements.benchmark_results import BenchmarkResult, MeasuredFile, Validity

KIND = "benchmark_result"
#: Entries are stored after this time even if they are few, because reading logs can take minutes.
_STORED_AFTER_S = 5.0
_INTEGER_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read.

    :param system: reads all files as results of this system, instead of recognising them
    :param stated: versions and hardware that files do not name, see
        :func:`ingest.benchmarks.user_metadata.stated_facts`
    """

    system: BenchmarkSystem | None = None
    stated: Mapping[str, str] = field(default_factory=dict)


DEFAULT_OPTIONS = ReadOptions()


@dataclass(slots=True)
class BenchmarkReport:
    """Counts of the results that a run read and stored.

    :param results: results that were read, by key of the system
    :param failed: results without a value, which are stored with their reason
    :param skipped: files that are no result of a known system, by reason
    """

    files: int = 0
    entries: int = 0
    new: int = 0
    known: int = 0
    failed: int = 0
    quarantined: int = 0
    results: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return report_of(self)


def known_system(key: str) -> BenchmarkSystem:
    """The readable system with this key.

    :raises InvalidArgument: if there is none
    """
    readable = {it.key: it for it in SYSTEMS}
    if key not in readable:
        raise InvalidArgument(f"{key!r} is not one of {', '.join(sorted(readable))}")
    return readable[key]


def ingest_benchmarks(
    settings: Settings,
    engine: Engine,
    sources: Sequence[str],
    limits: SourceLimits,
    *,
    options: ReadOptions = DEFAULT_OPTIONS,
    on_file: Callable[[], None] = lambda: None,
    on_commit: Callable[[], None] = lambda: None,
) -> BenchmarkReport:
    """Store every result in ``sources`` once, and quarantine refused files.

    :param on_file: called for each file that was recognised or skipped
    :param on_commit: called after each transaction that stored an entry
    :raises StoreUnavailable: if the store is lost; stored entries are kept
    """
    report = BenchmarkReport()
    for source in sources:
        refusals: list[QuarantineReason] = []
        items = _read(source, limits, options, report, on_file)
        for group in _groups(_entries(items, refusals, report)):
            with relational_errors(settings), engine.begin() as connection:
                new = store_entries(connection, stored_source(source), group)
            if new:
                report.new += new
                on_commit()
        with relational_errors(settings), engine.begin() as connection:
            add_refusals(connection, refusals)
    report.known = sum(report.results.values()) - report.new
    return report


def _entries(
    items: Iterable[tuple[str, _Entry | InvalidDocument]],
    refusals: list[QuarantineReason],
    report: BenchmarkReport,
) -> Iterator[_Entry]:
    """The entries among ``items``, counted and without personal data; refusals are set aside."""
    for origin, item in items:
        if isinstance(item, InvalidDocument):
            refusals.append(
                QuarantineReason(KIND, origin, item.place, item.reason, item.field, item.message)
            )
            report.quarantined += 1
            report.reasons[str(item.reason)] += 1
        else:
            entry_id, results = item
            report.entries += 1
            yield entry_id, (_storable(it, report) for it in results)


def _groups(entries: Iterable[_Entry]) -> Iterator[list[Entry]]:
    """Entries that are stored in one transaction; each group must be used before the next.

    Many files have one entry with a few results, and a transaction costs as much as hundreds of
    results. Only the last entry of a group may have results that are not read yet.
    """
    group: list[Entry] = []
    count, began = 0, time.monotonic()
    for entry_id, results in entries:
        read = list(islice(results, COPIED_AT_ONCE - count))
        count += len(read)
        group.append((entry_id, chain(read, results)))
        if count >= COPIED_AT_ONCE or time.monotonic() - began > _STORED_AFTER_S:
            yield group
            group, count, began = [], 0, time.monotonic()
    if group:
        yield group


def _storable(result: BenchmarkResult, report: BenchmarkReport) -> BenchmarkResult:
    """Count ``result``, and leave out values that no store takes: personal data, long integers."""
    report.results[result.system] += 1
    report.failed += result.validity is Validity.FAILED
    kept = {
        key: it
        for key, it in result.parameters.items()
        if not isinstance(it, int) or abs(it) < _INTEGER_LIMIT
    }
    if len(kept) < len(result.parameters):
        result = replace(result, parameters=kept)
    return without_personal_data(result)


def without_personal_data(result: BenchmarkResult) -> BenchmarkResult:
    """``result`` without e-mail addresses in its texts."""
    if "@" not in f"{result.benchmark}{result.reason}{result.parameters}{result.hardware}":
        return result
    return replace(
        result,
        benchmark=scrub_text(result.benchmark),
        reason=None if result.reason is None else scrub_text(result.reason),
        parameters={
            key: scrub_text(it) if isinstance(it, str) else it
            for key, it in result.parameters.items()
        },
        hardware={key: scrub_text(it) for key, it in result.hardware.items()},
    )


_Entry = tuple[str, Iterator[BenchmarkResult]]


def _read(
    source: str,
    limits: SourceLimits,
    options: ReadOptions,
    report: BenchmarkReport,
    on_file: Callable[[], None],
) -> Iterator[tuple[str, _Entry | InvalidDocument]]:
    """Entries and refusals of one source; each entry must be used before the next is requested."""
    origin = stored_source(source)
    with ExitStack() as stack:
        refused: list[InvalidDocument] = []
        skipped = Counter[str]()
        try:
            tree = _tree(source, origin, limits, stack, refused, skipped)
            tree.stated = options.stated
        except InvalidDocument as error:
            yield origin, error
            return
        for refusal in refused:
            yield origin, refusal
        by_system: dict[str, list[str]] = {}
        report.files += skipped.total()
        yields = bool(refused)
        for place in tree.places:
            report.files += 1
            try:
                recognised = options.system
                if recognised is None:
                    with tree.opened(place) as stream:
                        recognised = system_of(stream)
            except InvalidDocument as error:
                yields = True
                yield origin, error
            else:
                if recognised is None:
                    skipped["not a result of a known benchmark"] += 1
                else:
                    by_system.setdefault(recognised.key, []).append(place)
            on_file()
        for key, places in by_system.items():
            for item in _of_system(tree, known_system(key), places, skipped):
                yields = True
                yield origin, item
        report.skipped += skipped
        if not yields:
            yield origin, empty("", skipped, "source")


def _of_system(
    tree: ResultTree, system: BenchmarkSystem, places: Sequence[str], skipped: Counter[str]
) -> Iterator[_Entry | InvalidDocument]:
    """Entries of one system, and then the refusals."""
    reader = system.reader
    refused: list[InvalidDocument] = []
    unused = set(places)
    yield from results_by_entry(_only_results(tree, reader(tree, places), refused, unused))
    yield from refused
    if unused:
        skipped[f"file of {system.title} that contains no result"] += len(unused)


def results_by_entry(results: Iterable[BenchmarkResult]) -> Iterator[_Entry]:
    """Results of one system by entry.

    :raises ScatteredResults: if a reader returns to an entry; its later results would be lost
    """
    # Hashes of entries and their places; a copy of the files elsewhere is the same entry.
    ended: set[int] = set()
    for (entry_id, source), group in groupby(results, lambda it: (entry_id_of(it), it.source)):
        key = hash((entry_id, source))
        if key in ended:
            raise ScatteredResults(source)
        ended.add(key)
        yield entry_id, group


class ScatteredResults(RuntimeError):
    """A reader yields the results of an entry with results of another entry between them."""

    def __init__(self, source: str) -> None:
        super().__init__(f"{source}: the results of an entry must follow each other")
        self.source = source


def _only_results(
    tree: ResultTree,
    items: Iterable[BenchmarkResult | InvalidDocument],
    refused: list[InvalidDocument],
    unused: set[str],
) -> Iterator[BenchmarkResult]:
    """The results among ``items``, with the paths as they are stored.

    :param refused: receives the refusals
    :param unused: files; those of results and refusals are removed
    """
    for item in items:
        if isinstance(item, InvalidDocument):
            folder = f"{item.place}/"
            unused -= {it for it in unused if it == item.place or it.startswith(folder)}
            item.place = tree.stored_place(item.place)
            refused.append(item)
            continue
        if unused:
            unused.difference_update(it.place for it in item.files)
        if tree.renames:
            files = [MeasuredFile(tree.stored_place(it.place), it.sha256) for it in item.files]
            yield replace(item, source=tree.stored_place(item.source), files=tuple(files))
        else:
            yield item


def _tree(
    source: str,
    origin: str,
    limits: SourceLimits,
    stack: ExitStack,
    refused: list[InvalidDocument],
    skipped: Counter[str],
) -> ResultTree:
    """The files of a source, with the members of its archives.

    Archives are unpacked into a folder that ``stack`` removes. Paths of members begin with the path
    of the archive, unless the archive is the source. An archive inside an archive stays packed.

    :param refused: receives the refusals of archives
    :param skipped: counts entries that are not files
    """
    local = local_path(source)
    if local is None:
        raise unreadable("", "only files and folders of this machine are read: download it first")
    path = Path(local)
    root, files = path, [path.name]
    if path.is_dir():
        files = sorted(_files_below(path, skipped))
    elif path.is_file():
        root = path.parent
    else:
        raise unreadable("", "neither a file nor a folder")
    archives = [it for it in files if is_archive(it)]
    if not archives:
        return ResultTree(origin, root, files, limits)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thoth-results-")))
    members: dict[str, Path] = {}
    left = limits
    for number, archive in enumerate(archives):
        place = archive if root == path else ""
        inside = folder / str(number)
        inside.mkdir()
        try:
            unpack_archive(root / archive, inside, left)
        except InvalidDocument as error:
            error.place = "/".join(filter(None, (place, error.place)))
            refused.append(error)
            continue
        unpacked = {inner: inside / inner for inner in _files_below(inside, Counter())}
        members |= {join(place, inner): it for inner, it in unpacked.items()}
        # The limits hold for all archives of a source together.
        size = sum(it.stat().st_size for it in unpacked.values())
        left = replace(
            left, members=left.members - len(unpacked), archive_bytes=left.archive_bytes - size
        )
    places = sorted({*files} - {*archives} | members.keys())
    return ResultTree(origin, root, places, limits, members)


def _files_below(root: Path, skipped: Counter[str]) -> Iterator[str]:
    """Paths of regular files below ``root``; links are not followed but counted as ``skipped``."""
    for name_of_folder, folders, names in os.walk(root):
        folder = Path(name_of_folder)
        inner = folder.relative_to(root)
        if len(inner.parts) > MAX_DEPTH:
            raise InvalidDocument(
                Reason.NESTED_TOO_DEEP, f"more than {MAX_DEPTH} folders deep", place=str(inner)
            )
        folders.sort()
        for name in (*names, *(it for it in folders if (folder / it).is_symlink())):
            path = folder / name
            if path.is_file() and not path.is_symlink():
                yield (inner / name).as_posix()
            else:
                skipped[NO_REGULAR_FILE] += 1
