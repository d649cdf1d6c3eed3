"""Compare two locks with data from the stores, for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import orjson

from adviser.advise import in_this_process
from adviser.answering.index_resolution import IndexResolution
from adviser.answering.index_selection import indexes_to_search
from adviser.answering.knowledge import Knowledge, KnowledgeObserver, KnowledgeSources
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import (
    GuardResult,
    MissingKind,
    changes_of,
    guard,
    versions_without_candidate,
    without_accepted,
)
from adviser.projects.locks import ProjectLock
from adviser.projects.project import Project
from adviser.reports.serialization import claim_document, plain
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.verdicts import family_document
from adviser.scoring.vulnerability_policy import AllowList
from adviser.stack_request import RequestOptions, StackRequest
from common.settings import Settings
from graph.engine import GRAPH, Stores
from graph.record.evidence import evidence_for
from graph.record.hardware import recorded_hardware
from graph.record.vulnerability_queries import vulnerabilities_by_version
from graph.snapshot_reader import CheckTime, load_packages
from graph.watchdog import watchdog
from model.errors import InvalidDocument
from model.json_documents import canonical_json, fault_in
from model.measurements.evidence import Evidence, RecordedHardware
from model.packages.candidates import Candidate, Dependency, Excluded, KnownVulnerability
from model.packages.environments import Environment
from model.packages.identity import same_version
from model.packages.snapshot import Snapshot, with_revision
from model.reasons import Reason

#: Maximum number of measurements of the packages of two locks; reading them takes some 10 s and
#: 170 MB.
MAX_MEASUREMENTS = 250_000


@dataclass(frozen=True, slots=True)
class LockKnowledge:
    """All knowledge that a comparison of two locks needs.

    :param snapshot: has the versions of the two locks only
    :param vulnerabilities: of changed versions that are not candidates of the snapshot
    """

    snapshot: Snapshot
    evidence: Evidence
    vulnerabilities: Mapping[tuple[str, str], tuple[KnownVulnerability, ...]]
    hardware: tuple[RecordedHardware, ...]

    def to_json(self) -> bytes:
        """The canonical JSON form, as the service sends it."""
        return canonical_json(
            {
                "snapshot": orjson.Fragment(self.snapshot.to_json()),
                "evidence": orjson.Fragment(self.evidence.to_json()),
                "vulnerabilities": [
                    [*release, [[it.id, it.severity, it.score] for it in known]]
                    for release, known in self.vulnerabilities.items()
                ],
                "hardware": [asdict(it) for it in self.hardware],
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> LockKnowledge:
        """Read the output of :meth:`to_json`; fields that a newer service adds are ignored.

        :raises InvalidDocument: if ``data`` is not such a document
        """
        try:
            raw = orjson.loads(data)
            return cls(
                Snapshot.from_json(canonical_json(raw["snapshot"])),
                Evidence.from_json(canonical_json(raw["evidence"])),
                {
                    (name, version): tuple(
                        KnownVulnerability(identifier, severity, score)
                        for identifier, severity, score, *_ in known
                    )
                    for name, version, known, *_ in raw["vulnerabilities"]
                },
                tuple(
                    RecordedHardware(it["digest"], it["label"], it["identity"])
                    for it in raw["hardware"]
                ),
            )
        except (LookupError, TypeError, ValueError) as error:
            raise InvalidDocument(
                Reason.UNREADABLE, f"not the knowledge of locks: {fault_in(error)}", field="$"
            ) from error


def knowledge_of_locks(
    stores: Stores,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    recorded: Iterable[RecordedHardware],
    hardware: Collection[str] | None = None,
    check_time: CheckTime = lambda: None,
) -> LockKnowledge:
    """What the stores know of two locks, each given as version by package name.

    The packages of the locks are read in all versions, because measurements of the others show the
    noise; what they require is not read. The number of queries to PostgreSQL does not depend on
    the size of the locks.

    :param recorded: all recorded hardware classes
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :param check_time: called between the steps of the reading
    :raises InvalidArgument: if there are more than :data:`MAX_MEASUREMENTS`
    :raises StoreUnavailable: if a store does not answer
    """
    names = sorted({*old, *new})
    with watchdog(GRAPH, stores.settings.query_timeout_s * 2):
        snapshot = load_packages(
            stores.driver, names, environment, database=stores.database, check_time=check_time
        )
    with stores.engine.connect() as connection:
        check_time()
        evidence = evidence_for(
            connection, snapshot, datetime.now(UTC), with_excluded=True, hardware=hardware,
            most=MAX_MEASUREMENTS, check_time=check_time,
        )  # fmt: skip
        unlisted = versions_without_candidate(old, new, snapshot)
        vulnerabilities = {
            release: tuple(
                KnownVulnerability(it.vulnerability_id, it.severity, it.score) for it in known
            )
            for release, known in vulnerabilities_by_version(connection, unlisted).items()
        }
    known = locked_versions(snapshot, old, new)
    return LockKnowledge(known, evidence, vulnerabilities, tuple(recorded))


def read_knowledge_of_locks(
    stores: Stores,
    request: StackRequest,
    old: Mapping[str, str],
    new: Mapping[str, str],
    fetch: bool | None,
    observer: KnowledgeObserver,
    prefix: str | None,
) -> tuple[LockKnowledge, Mapping[str, str] | None]:
    """:func:`knowledge_of_locks`, after the indexes were read if that is necessary.

    :param request: of :func:`request_of_locks`
    :param fetch: whether the metadata of changed versions is read from the indexes; ``None`` if it
        is missing
    :param prefix: as for :func:`requested_hardware`
    :returns: also why the indexes cannot provide a version, by package; ``None`` if these were not
        read
    """
    environment = request.environment
    with stores.engine.connect() as connection:
        recorded = recorded_hardware(connection)
    hardware = (requested_hardware(recorded, prefix).digest,)
    if not fetch:
        observer.before_graph()
        knowledge = knowledge_of_locks(stores, old, new, environment, recorded, hardware)
        if fetch is False or not stores.settings.fetch_missing:
            return knowledge, None
        if not lacks_metadata(compare_lock_versions(knowledge, old, new, environment, None)):
            return knowledge, None
    changed = changed_versions(old, new)

    async def read(resolution: IndexResolution) -> Mapping[str, str]:
        await resolution.read_versions(changed)
        return resolution.unmet()

    known = Knowledge(
        KnowledgeSources(stores), request, observer, in_this_process, changed, fetches=True
    )
    unmet: Mapping[str, str] = known.use(read, dict)
    # Locks are compared by the graph.
    from graph.projection import sync  # loads the driver

    sync(stores.engine, stores.driver, database=stores.database)
    return knowledge_of_locks(stores, old, new, environment, recorded, hardware), unmet


def locked_versions(snapshot: Snapshot, old: Mapping[str, str], new: Mapping[str, str]) -> Snapshot:
    """The snapshot without versions that neither lock has."""

    def is_locked(name: str, known: Candidate | Excluded) -> bool:
        return any(same_version(lock.get(name), known.version) for lock in (old, new))

    return with_revision(
        replace(
            snapshot,
            packages=MappingProxyType({
                name: tuple(it for it in versions if is_locked(name, it))
                for name, versions in snapshot.packages.items()
            }),
            excluded=MappingProxyType({
                name: tuple(it for it in versions if is_locked(name, it))
                for name, versions in snapshot.excluded.items()
            }),
        )
    )  # fmt: skip


def compare_lock_versions(
    knowledge: LockKnowledge,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    hardware: str | None,
    allowed: Collection[str] = (),
) -> GuardResult:
    """Compare two locks, each given as version by package name.

    :param allowed: identifiers of accepted vulnerabilities
    """
    known, evidence = knowledge.snapshot, knowledge.evidence
    upgrade = guard(old, new, known, evidence, environment, hardware, knowledge.vulnerabilities)
    return without_accepted(upgrade, AllowList(allowed, evidence.vulnerabilities))


def guard_document(upgrade: GuardResult) -> dict[str, Any]:
    """The result as JSON values."""
    return {
        "outcome": upgrade.outcome.value,
        "family": family_document(upgrade.comparisons),
        **plain(upgrade),
        "claims": [claim_document(it) for it in upgrade.claims],
        "stacks": [claim_document(it) for it in upgrade.stacks],
        "undetermined": [claim_document(it) for it in upgrade.undetermined],
    }


def lacks_metadata(upgrade: GuardResult) -> bool:
    """Whether the metadata of a new version was never read."""
    return any(it.kind is MissingKind.METADATA and it.remedy for it in upgrade.missing)


def changed_versions(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Dependency, ...]:
    """Versions of changed packages as requirements."""
    return tuple(
        Dependency(it.name, f"=={version}")
        for it in changes_of(old, new)
        for version in (it.forced, it.advised)
        if version is not None
    )


def request_of_locks(
    settings: Settings, locks: Iterable[ProjectLock], environment: Environment
) -> StackRequest:
    """A request without requirements, with the indexes that the locks name."""
    indexes = tuple(dict.fromkeys(index for lock in locks for index in lock.indexes))
    project = Project(indexes=indexes)
    options = RequestOptions(indexes=indexes_to_search(settings, project))
    return StackRequest(project, environment, RecommendationType.LATEST, options)
