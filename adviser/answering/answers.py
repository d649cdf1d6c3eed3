"""Make a report for a request and store it."""

import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from adviser.advice_request import StackRequest
from adviser.advise import Advice
from adviser.answering.target_hardware import requested_hardware
from adviser.packs.stored_packs import known_hardware
from adviser.reports.documents import (
    SCHEMA_VERSION,
    ReleaseKnowledge,
    report_bytes,
    report_document,
    result_document,
    unread_count,
)
from adviser.reports.manifests import Files
from adviser.reports.record_links import head_of, links_of
from adviser.reports.serialization import code_version, dataclass_to_json
from adviser.reports.unfetched_versions import UnfetchedVersions, unfetched_in
from adviser.resolver.results import Conflict
from graph.engine import GRAPH, Stores
from graph.hung_stores import watchdog
from graph.record.advice import add_advice
from graph.record.benchmark_entries import context_of
from graph.record.freshness import FEW_ENTRIES, lag_of
from graph.record.release_queries import files_of, metadata_files_of, unread_of
from model.advice import StoredAdvice
from model.errors import StoreUnavailable
from model.json_documents import digest_bytes
from model.packages.candidates import Dependency
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from model.packages.wheels import installed_rank, installed_wheel


def unfetched_versions(
    stores: Stores, request: StackRequest, snapshot: Snapshot, conflict: Conflict | None
) -> tuple[UnfetchedVersions, ...]:
    """Unread versions that indexes list and that could resolve a conflict; runs one query."""
    if conflict is None:
        return ()
    with stores.engine.connect() as connection:
        listed = unread_of(connection, list(snapshot.revisions))
    return unfetched_in(conflict, request, snapshot, listed)


#: Prefix of identifiers of advice.
PREFIX = "adviser"
_VERSION_PARTS = ("major", "minor", "micro", "releaselevel", "serial")


@dataclass(frozen=True, slots=True)
class Answer:
    """An advice with its report.

    :param timings: duration of each step in seconds, by name
    """

    advice: Advice
    known: ReleaseKnowledge
    report: dict[str, Any]
    timings: dict[str, float]

    @property
    def unread(self) -> int:
        """Number of packages and versions that were not read, so that a conflict proves nothing."""
        return unread_count(self.advice, self.known)


def make_answer(
    stores: Stores,
    advice: Advice,
    timings: dict[str, float],
    *,
    urls: bool = False,
    all_listed: bool = False,
    advice_id: str | None = None,
) -> Answer:
    """The report of an advice; nothing is stored.

    :param timings: duration of each earlier step, in seconds; later steps are added
    :param all_listed: whether the advice covers all versions that the indexes list, so that
        reading more cannot change it
    """
    with timed(timings, "files_s"):
        known = files_known(stores, advice, all_listed=all_listed)
        if urls:
            from adviser.answering.file_listings import addresses_of

            wanted = {
                (candidate.index, choice.name, choice.version)
                for stack in advice.resolution.stacks
                for choice in stack.choices
                for candidate in advice.universe.packages[choice.name]
                if candidate.purl == choice.purl
            }
            known = replace(known, urls=addresses_of(stores.settings, wanted))
    with timed(timings, "report_s"):
        result = result_document(advice, known)
    timings["total_s"] = sum(timings[it] for it in _STEPS if it in timings)
    return Answer(advice, known, report_document(result, metadata(timings, advice_id)), timings)


#: Steps of an answer that follow each other.
_STEPS = ("knowledge_s", "search_s", "indexes_s", "files_s", "report_s")


def text_of(dependency: Dependency) -> str:
    """A dependency as requirement text."""
    extras = f"[{','.join(dependency.extras)}]" if dependency.extras else ""
    return f"{dependency.name}{extras}{dependency.specifier}"


def files_known(stores: Stores, advice: Advice, *, all_listed: bool = False) -> ReleaseKnowledge:
    """The recorded files of every advised stack; for a conflict, the versions that were not read.

    :param all_listed: the advice covers all listed versions, so no unread version is reported
    """
    purls = {it.purl for stack in advice.resolution.stacks for it in stack.choices}
    with stores.engine.connect() as connection:
        names = {it.name for it in advice.request.requirements}
        known = ReleaseKnowledge(
            files=files_of(connection, purls),
            benchmarks=tuple(context_of(connection, names, advice.request.hardware)),
        )
        if not all_listed:
            read = metadata_files_of(connection, purls)
            known = replace(known, other_wheels=_read_of_others(advice, known.files, read))
    if all_listed:
        return known
    conflict = advice.resolution.conflict
    unread = unfetched_versions(stores, advice.request, advice.snapshot, conflict)
    return replace(known, unread=unread)


def _read_of_others(advice: Advice, files: Files, read: Mapping[Purl, str]) -> tuple[str, ...]:
    """Names of advised packages whose metadata is not from the wheel that would be installed."""
    environment, names = advice.request.environment, set()
    for choice in (it for stack in advice.resolution.stacks for it in stack.choices):
        listed = files.get(choice.purl, ())
        first = installed_wheel(listed, environment)
        wheels = (it for it in listed if it.kind == "wheel")
        source = next((it for it in wheels if it.filename == read.get(choice.purl)), None)
        if first is None or source is None:
            continue
        rank = installed_rank(first.filename, environment)
        same = first.metadata_sha256 is not None and first.metadata_sha256 == source.metadata_sha256
        if rank[0] < inf and not same and installed_rank(source.filename, environment) != rank:
            names.add(choice.name)
    return tuple(sorted(names))


def store(stores: Stores, made: Answer, also: Callable[[Any], object] | None = None) -> str:
    """Store an answer with all its inputs, in one transaction.

    The graph shows the answer at once if few other changes are waiting, otherwise a little later.

    :param also: called with the connection to write in the same transaction; then the graph is
        not updated here
    :returns: digest of the report
    """
    advice, report = made.advice, made.report
    stored = StoredAdvice(
        head_of(report, advice.request.environment),
        SCHEMA_VERSION,
        dataclass_to_json(advice.request),
        advice.snapshot.to_json(),
        advice.evidence.to_json(),
        dataclass_to_json(made.known),
        report_bytes(report),
    )
    with stores.engine.begin() as connection:
        add_advice(connection, stores.settings, stored, links_of(advice, report["result"]))
        if also is not None:
            also(connection)
            return digest_bytes(stored.report)
        waiting = lag_of(connection, FEW_ENTRIES + 1).count
    if waiting <= FEW_ENTRIES:
        # Loading the projection takes a tenth of the time of a first advice, which stores many.
        from graph.projection import sync_few

        # The answer is stored; the next synchronisation shows it in the graph.
        with suppress(StoreUnavailable), watchdog(GRAPH, stores.settings.hung_store_s):
            sync_few(stores.engine, stores.driver, database=stores.database)
    return digest_bytes(stored.report)


def metadata(timings: dict[str, float], document_id: str | None = None) -> dict[str, Any]:
    """The part of a report that differs from run to run: identifier, times and host."""
    now = datetime.now(UTC)
    # A new unique identifier; identifiers sort by time.
    return {
        "analyzer": PREFIX,
        "analyzer_version": code_version(),
        "document_id": document_id or f"{PREFIX}-{now:%y%m%d%H%M%S}-{secrets.token_hex(8)}",
        "datetime": now.isoformat(timespec="microseconds"),
        "timestamp": int(now.timestamp()),
        "duration": round(timings.get("total_s", 0.0), 6),
        "timings": {name: round(value, 6) for name, value in timings.items()},
        "hostname": platform.node() or "unknown",
        "thoth_deployment_name": "local",
        "arguments": {},
        "os_release": {},
        "distribution": _distribution(),
        "python": {
            "api_version": sys.api_version,
            "implementation_name": sys.implementation.name,
            **dict(zip(_VERSION_PARTS, sys.version_info, strict=True)),
        },
    }


def on_hardware(stores: Stores, request: StackRequest, prefix: str | None) -> StackRequest:
    """The request, for the hardware class with the digest ``prefix`` or for this host's class."""
    with stores.engine.connect() as connection:
        target = requested_hardware(known_hardware(connection, stores.settings), prefix)
    return replace(
        request, hardware=target.digest, hardware_name=target.name, hardware_note=target.note
    )


def _distribution() -> dict[str, Any]:
    release: dict[str, str] = {}
    with suppress(OSError):
        release = platform.freedesktop_os_release()
    version = release.get("VERSION_ID", "")
    major, minor, build, *_ = [*version.split("."), "", "", ""]
    return {
        "id": release.get("ID", ""),
        "like": release.get("ID_LIKE", ""),
        "codename": release.get("VERSION_CODENAME", ""),
        "version": version,
        "version_parts": {"major": major, "minor": minor, "build_number": build},
    }


@contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    """Store the duration of a ``with`` block in ``times``."""
    began = time.perf_counter()
    yield
    times[name] = time.perf_counter() - began
