"""Compare two locks with data from the stores, for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import orjson

from adviser.advice_request import RequestOptions, StackRequest
from adviser.advise import in_this_process
from adviser.answering.index_resolution import IndexResolution
from adviser.answering.index_selection import indexes_to_search
from adviser.answering.knowledge import Knowledge, KnowledgeObserver, KnowledgeSources
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import (
    GuardResult,
    MissingKind,
    guard,
    known_version,
    versions_without_candidate,
    without_accepted,
)
from adviser.guard_findings import GuardGroup, findings_of, proposal_text
from adviser.guard_proposals import UpgradeProposals, harmful_packages, nearest_first
from adviser.harm_prevention import pins_of
from adviser.packs.stored_packs import PackReader, known_hardware
from adviser.projects.locks import OF_OTHERS, ProjectLock
from adviser.projects.project import Project, ProjectRequirement
from adviser.reports.serialization import claim_document, identified_claim, plain
from adviser.scoring.criteria import AllowList, RecommendationType
from adviser.scoring.verdicts import family_document
from adviser.vex import VexStatement, VexStatements
from common.settings import Settings
from graph.engine import GRAPH, Stores
from graph.hung_stores import watchdog
from graph.record.evidence import MAX_MEASUREMENTS, evidence_for
from graph.record.vulnerabilities import known_vulnerabilities
from graph.snapshot_reader import CheckTime, load_packages
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, fault_in
from model.measurements.evidence import Evidence, RecordedHardware
from model.packages.candidates import (
    Candidate,
    Dependency,
    Excluded,
    ExclusionReason,
    KnownVulnerability,
)
from model.packages.environments import Environment
from model.packages.identity import changes_between, package_version, same_version
from model.packages.snapshot import Snapshot, with_revision
from model.text import counted, first_few

#: At most this number of versions of a harmful package are read, the nearest ones.
_MOST_NEAR = 10


@dataclass(frozen=True, slots=True)
class LockKnowledge:
    """All knowledge that a comparison of two locks needs.

    :param snapshot: has the versions of the two locks, and all versions of harmful packages
    :param vulnerabilities: of changed versions that are not candidates of the snapshot
    :param speed_only: whether only speed is known, as from a pack
    """

    snapshot: Snapshot
    evidence: Evidence
    vulnerabilities: Mapping[tuple[str, str], Sequence[KnownVulnerability]]
    hardware: tuple[RecordedHardware, ...]
    speed_only: bool = False

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

    def of_locks(
        self,
        old: Mapping[str, str],
        new: Mapping[str, str],
        environment: Environment,
        hardware: Iterable[str],
    ) -> LockKnowledge:
        """The knowledge without versions that neither lock has, unless their package does harm.

        :param hardware: digests of the hardware classes whose measurements were read
        """
        harmful: set[str] = set()
        for digest in tuple(hardware) or (None,):
            upgrade = compare_lock_versions(self, old, new, environment, digest)
            harmful.update(harmful_packages(upgrade))
        return replace(self, snapshot=_locked_versions(self.snapshot, old, new, harmful))

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
    """Knowledge of the stores about two locks, each given as version by package name.

    The packages of the locks are read in all versions, because measurements of other versions show
    the noise; requirements are not followed. The number of queries to PostgreSQL does not depend on
    the size of the locks.

    :param recorded: all recorded hardware classes
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :param check_time: called between the steps of the reading
    :raises InvalidArgument: if there are more than :data:`MAX_MEASUREMENTS`
    :raises StoreUnavailable: if a store does not answer
    """
    names = sorted({*old, *new})
    with watchdog(GRAPH, stores.settings.hung_store_s):
        snapshot = load_packages(
            stores.driver, names, environment, database=stores.database, check_time=check_time
        )
    snapshot = _with_unread(snapshot, {*old.items(), *new.items()})
    with stores.engine.connect() as connection:
        check_time()
        now = datetime.now(UTC)
        own = evidence_for(
            connection, snapshot, now, with_excluded=True, hardware=hardware,
            most=MAX_MEASUREMENTS, check_time=check_time,
        )  # fmt: skip
        packs = PackReader(connection, stores.settings, now)
        evidence = packs.with_packs(own, snapshot, with_excluded=True)
        unlisted = versions_without_candidate(old, new, snapshot)
        vulnerabilities = known_vulnerabilities(connection, unlisted)
    return LockKnowledge(snapshot, evidence, vulnerabilities, tuple(recorded))


@dataclass(frozen=True, slots=True)
class _LockReads:
    """What is read from the indexes for a comparison of two locks.

    :param harmful: packages of the new lock of which the nearest versions are read, too
    """

    versions: tuple[Dependency, ...]
    harmful: tuple[str, ...] = ()


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
        recorded = known_hardware(connection, stores.settings)
    hardware = (requested_hardware(recorded, prefix).digest,)
    may_fetch = stores.settings.fetch_missing if fetch is None else fetch
    missing = _LockReads(_changed_versions(old, new)) if fetch else None
    if missing is None:
        observer.before_graph()
    done: list[_LockReads] = []
    unmet: dict[str, str] = {}
    while True:
        if missing is not None:
            unmet |= _read_from_indexes(stores, request, new, missing, observer)
            done.append(missing)
        known = knowledge_of_locks(stores, old, new, environment, recorded, hardware)
        known = known.of_locks(old, new, environment, hardware)
        missing = _missing_reads(known, old, new, environment, hardware[0], done)
        if missing is None or not may_fetch:
            return known, unmet if done else None


def _missing_reads(
    known: LockKnowledge,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    hardware: str,
    done: Collection[_LockReads],
) -> _LockReads | None:
    """What to read from the indexes next: the changed versions, then what a proposal needs."""
    upgrade = compare_lock_versions(known, old, new, environment, hardware)
    # Whether the metadata of a new version was never read.
    if not done and any(it.kind is MissingKind.METADATA and it.remedy for it in upgrade.missing):
        return _LockReads(_changed_versions(old, new))
    harmful = tuple(harmful_packages(upgrade))
    # A proposal is proven from what all versions of the lock require.
    if harmful and not any(it.harmful for it in done) and _unproven(known.snapshot, new, harmful):
        return _LockReads(pins_of(new), harmful)
    return None


def _read_from_indexes(
    stores: Stores,
    request: StackRequest,
    new: Mapping[str, str],
    reads: _LockReads,
    observer: KnowledgeObserver,
) -> dict[str, str]:
    """Read versions into the record and the graph; returns why some could not be read, by package.

    :param new: the new lock
    """

    async def read(resolution: IndexResolution) -> dict[str, str]:
        await resolution.read_versions(reads.versions)
        near = (
            (name, nearest_first(resolution.listed.candidates(name), new[name]))
            for name in reads.harmful
        )
        await resolution.read_versions(
            Dependency(name, f"=={it.version}")
            for name, listed in near
            for it in listed[:_MOST_NEAR]
        )
        return resolution.unmet()

    sources = KnowledgeSources(stores)
    known = Knowledge(sources, request, observer, in_this_process, reads.versions, fetches=True)
    unmet = known.use(read, dict[str, str])
    # Locks are compared by the graph.
    from graph.projection import sync  # loads the driver

    sync(stores.engine, stores.driver, database=stores.database)
    return unmet


def _unproven(snapshot: Snapshot, new: Mapping[str, str], harmful: Iterable[str]) -> bool:
    """Whether a version of the new lock, or most versions of a harmful package, are unread."""
    read = all(isinstance(known_version(snapshot, *it), Candidate) for it in new.items())
    return not read or any(len(snapshot.packages.get(it, ())) < _MOST_NEAR for it in harmful)


def _with_unread(snapshot: Snapshot, releases: Iterable[tuple[str, str]]) -> Snapshot:
    """The snapshot with missing releases as unread versions, so that their jobs are found."""
    excluded = dict(snapshot.excluded)
    for name, version in sorted(releases):
        if known_version(snapshot, name, version) is None:
            with suppress(InvalidDocument):  # no version by PEP 440
                release = package_version(name, version)
                reason = ExclusionReason.UNREAD, "its metadata was not read"
                unread = Excluded(release.purl, release.version, release.index, *reason)
                excluded[name] = (*excluded.get(name, ()), unread)
    return with_revision(
        replace(
            snapshot,
            packages=MappingProxyType(dict.fromkeys(excluded, ()) | dict(snapshot.packages)),
            excluded=MappingProxyType(excluded),
            missing=tuple(it for it in snapshot.missing if it not in excluded),
        )
    )


def _locked_versions(
    snapshot: Snapshot, old: Mapping[str, str], new: Mapping[str, str], whole: Collection[str]
) -> Snapshot:
    """The snapshot without versions that neither lock has, except of packages in ``whole``."""

    def is_locked(name: str, known: Candidate | Excluded) -> bool:
        return name in whole or any(
            same_version(lock.get(name), known.version) for lock in (old, new)
        )

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
    vex: Sequence[VexStatement] = (),
) -> GuardResult:
    """Compare two locks, each given as version by package name; nothing is proposed.

    :param allowed: identifiers of accepted vulnerabilities
    :param vex: VEX statements on vulnerabilities
    """
    known, evidence = knowledge.snapshot, knowledge.evidence
    upgrade = guard(old, new, known, evidence, environment, hardware, knowledge.vulnerabilities)
    upgrade = upgrade.without_unseen() if knowledge.speed_only else upgrade
    details = evidence.vulnerabilities
    statements = VexStatements(vex, details, evidence.as_of.date())
    return without_accepted(upgrade, AllowList(allowed, details), statements)


def proposals_for(
    knowledge: LockKnowledge,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    hardware: str | None,
    allowed: Collection[str] = (),
    requirements: Sequence[Dependency] = (),
) -> UpgradeProposals:
    """Replacements for harmful versions; the parameters are those of :func:`compare_lock_versions`.

    :param requirements: the project's requirements, which the lock must meet
    """
    return UpgradeProposals(
        old, new, knowledge.snapshot, knowledge.evidence, environment, hardware,
        knowledge.vulnerabilities, allowed, requirements,
    )  # fmt: skip


def guard_document(upgrade: GuardResult) -> dict[str, Any]:
    """The result as JSON values."""
    findings = findings_of(upgrade)
    groups = {group: [plain(it) for it in findings if it.group is group] for group in GuardGroup}
    shown = {"shown": [identified_claim(it) for it in upgrade.shown]} if upgrade.shown else {}
    return {
        "outcome": upgrade.outcome.value,
        "family": family_document(upgrade.comparisons),
        **{key: it for key, it in plain(upgrade).items() if key not in {"shown", "python"}},
        "groups": {
            group.value: them
            for group, them in groups.items()
            if them or group is not GuardGroup.SHOWN
        },
        "proposals": [{**plain(it), "message": proposal_text(it)} for it in upgrade.proposals],
        "claims": [identified_claim(it) for it in upgrade.claims],
        "stacks": [identified_claim(it) for it in upgrade.stacks],
        "undetermined": [claim_document(it) for it in upgrade.undetermined],
        **shown,
    }


def side_document(lock: ProjectLock, versions: Mapping[str, str]) -> dict[str, Any]:
    """The packages and entries of a lock, as JSON values.

    :param versions: of the packages that it installs, by name
    """
    left_out = [{"what": it.what, "kind": it.code.value} for it in lock.elsewhere]
    return {"packages": dict(sorted(versions.items())), "not_covered": left_out}


def not_compared(locks: Sequence[ProjectLock], markers: Mapping[str, str]) -> tuple[str, ...]:
    """Names of packages that differ in what two locks do not install (:data:`OF_OTHERS`)."""
    old, new = locks
    left_out = old.left_out(markers) | new.left_out(markers)
    return tuple(sorted({name for name, _ in (old.pins ^ new.pins) & left_out}))


def not_compared_lines(names: Sequence[str]) -> Iterator[str]:
    """A line about the packages of :func:`not_compared`, if there are any."""
    if names:
        many = counted(len(names), "package that differs", "packages that differ")
        yield f"not compared: {many}, {OF_OTHERS}: {first_few(names, 10)}"


def _changed_versions(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Dependency, ...]:
    """Versions of changed packages as requirements."""
    return tuple(
        Dependency(it.name, f"=={version}")
        for it in changes_between(old, new)
        for version in (it.old, it.new)
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


def pinned_request(
    settings: Settings,
    lock: ProjectLock,
    manifest: Project | None,
    versions: Mapping[str, str],
    environment: Environment,
) -> StackRequest:
    """A request that only these versions meet, to write them in the format of a lock.

    :param lock: gives the extras and the indexes
    :param manifest: a project whose sections the new lock keeps, as in a ``Pipfile.lock``
    """
    extras = {it.name: it.extras for it in lock.entries}
    pins = [ProjectRequirement(it, f"=={at}", extras.get(it, ())) for it, at in versions.items()]
    project = Project(tuple(pins), indexes=lock.indexes, source=lock.source)
    if manifest is not None:
        project = replace(manifest, locked=None, lock_entries=())
    options = RequestOptions(
        dev=manifest is not None,
        groups=tuple(manifest.groups) if manifest else (),
        constraints=pins_of(versions),
        indexes=indexes_to_search(settings, project),
    )
    return StackRequest(project, environment, RecommendationType.LATEST, options)
