"""Fix the vulnerabilities of a lock with what stores and indexes know, for ``thoth fix``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from adviser.advise import Resolver, SnapshotAndEvidence, advise
from adviser.answering.index_resolution import IndexResolution
from adviser.answering.knowledge import Knowledge
from adviser.fix import (
    Blocker,
    Fix,
    FixResult,
    FixSearch,
    OpenVulnerability,
    settling_command,
    verdict_of,
)
from adviser.fix_universe import LEVELS, CountedVulnerabilities, LockToFix
from adviser.projects.locks import ProjectLock
from adviser.projects.project import Project, ProjectFormat, ProjectRequirement
from adviser.reports.serialization import plain
from adviser.resolver.specifiers import admits
from adviser.scoring.vulnerability_policy import AllowList
from adviser.stack_request import StackRequest
from common.formats.locks.entries import LockEntry
from graph.record.advisories import source_states
from graph.record.vulnerability_queries import vulnerabilities_by_version
from model.advisories import Severity
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.identity import same_version
from model.packages.snapshot import Snapshot, with_revision

#: Steps of branch and bound. Measured on 96 packages: the solver takes 0.05 s; branch and bound,
#: which cannot tell before the end what a stack drops, more than 10 s.
_STEPS = 2_000
#: Changes when a key changes its meaning or disappears, not when a key is added.
SCHEMA_VERSION = "fix-1"


@dataclass(frozen=True, slots=True)
class FixOptions:
    """What a user wants of a fix.

    :param only: identifiers of the vulnerabilities to remove; empty for all
    :param least: less severe vulnerabilities do not count
    """

    only: Collection[str] = ()
    least: Severity | None = None


@dataclass(frozen=True, slots=True)
class LockFixes:
    """The fixes of a lock, with what they were found from.

    :param snapshot: with its revision
    :param advisories_as_of: when the oldest archive of advisories was read; ``None`` if none was,
        so that no version counts as vulnerable
    """

    result: FixResult
    snapshot: Snapshot
    evidence: Evidence
    advisories_as_of: datetime | None


def fixes_of_lock(
    known: Knowledge,
    locked: Mapping[str, LockEntry],
    elsewhere: Collection[str],
    options: FixOptions,
    threads: int = 1,
) -> LockFixes:
    """The fixes of a lock: the smallest, the same without a slow-down, and the newest advised.

    :param known: the knowledge for a request whose project has this lock
    :param locked: the packages that it installs, by name
    :param elsewhere: the names of those that come from no index
    """
    request, stores = known.request, known.sources.stores
    engine = stores.engine
    kept: list[SnapshotAndEvidence] = []

    def search(at: SnapshotAndEvidence, resolver: Resolver) -> FixSearch:
        snapshot, evidence = at
        kept[:] = [at]
        lost = [
            (name, entry.version)
            for name, entry in locked.items()
            if not any(
                same_version(one.version, entry.version) for one in snapshot.packages.get(name, ())
            )
        ]
        with engine.connect() as connection:
            affecting = vulnerabilities_by_version(connection, lost) if lost else {}
        vulnerabilities = {
            release: [
                KnownVulnerability(head.vulnerability_id, head.severity, head.score)
                for head in them
            ]
            for release, them in affecting.items()
        }
        lock = lock_to_fix(request, locked, elsewhere, options, evidence, vulnerabilities)
        budget = replace(request.options.budget(threads), steps=_STEPS)
        return FixSearch(
            lock, snapshot, evidence, request.environment, request.hardware, resolver, budget
        )

    async def listed(resolution: IndexResolution) -> FixResult:
        newest: Mapping[str, str] | None = None
        # A lock without vulnerabilities needs no newer versions.
        if await resolution.search(lambda at, resolver: search(at, resolver).open):
            best = (await resolution.advise(threads)).best
            newest = best.versions() if best else None
        return await resolution.search(lambda at, resolver: search(at, resolver).result(newest))

    def stored() -> FixResult:
        best = advise(request, *known.stored, resolver=known.resolver, threads=threads).best
        newest = best.versions() if best else None
        return search(known.stored, known.resolver).result(newest)

    result = known.use(listed, stored)
    snapshot, evidence = kept[0]
    with engine.connect() as connection:
        as_of = min((it.as_of for it in source_states(connection)), default=None)
    return LockFixes(result, with_revision(snapshot), evidence, as_of)


def lock_to_fix(
    request: StackRequest,
    locked: Mapping[str, LockEntry],
    elsewhere: Collection[str],
    options: FixOptions,
    evidence: Evidence,
    vulnerabilities: Mapping[tuple[str, str], list[KnownVulnerability]],
) -> LockToFix:
    """The lock of a request, with the rules for its fixes."""
    details, allowed = evidence.vulnerabilities, request.options.allowed_vulnerabilities
    project, alone = request.project, request.project.format is ProjectFormat.LOCK
    rules = request.resolver_request({})
    return LockToFix(
        {name: it.version for name, it in locked.items()},
        CountedVulnerabilities(
            AllowList(allowed, details),
            AllowList(options.only, details) if options.only else None,
            options.least,
        ),
        replace(rules, constraints=(*rules.constraints, *_bounds(project, request, locked))),
        () if alone else request.roots,
        {name: it.extras for name, it in locked.items() if it.extras},
        vulnerabilities,
        frozenset(elsewhere),
        request.options.published_before,
    )


def _bounds(
    project: Project, request: StackRequest, locked: Mapping[str, LockEntry]
) -> list[Dependency]:
    """What extras, groups and development require of locked packages, if the lock meets it."""
    markers, required = request.environment.markers, {it.name for it in request.roots}
    optional = [*project.dev]
    for group in (*project.extras.values(), *project.groups.values()):
        optional += group
    return [
        Dependency(requirement.name, requirement.specifier)
        for requirement in dict.fromkeys(optional)
        if requirement.name in locked.keys() - required
        and requirement.specifier
        and requirement.holds(markers)
        and admits(requirement.specifier, locked[requirement.name].version)
    ]


def project_of_lock(
    project: Project, lock: ProjectLock, locked: Mapping[str, LockEntry], *, alone: bool
) -> Project:
    """The project with exactly this lock.

    :param locked: the packages that it installs
    :param alone: whether no manifest says what the project requires, so that it requires its locked
        packages in any version
    """
    entries = {name: replace(it, dev=False, marker=None) for name, it in locked.items()}
    project = replace(
        project, locked=entries, lock_entries=tuple(entries.values()), lock_source=lock.source,
        lock_indexes=lock.indexes, python=project.python or lock.python,
    )  # fmt: skip
    if not alone:
        return project
    requirements = tuple(ProjectRequirement(it.name, "", it.extras) for it in entries.values())
    return replace(
        project, requirements=requirements, constraints=(), dev=(), extras={}, groups={},
        format=ProjectFormat.LOCK,
    )  # fmt: skip


def fix_document(fixes: LockFixes, locked: Mapping[str, LockEntry]) -> dict[str, Any]:
    """The fixes as JSON values."""
    result = fixes.result
    return {
        "schema_version": SCHEMA_VERSION,
        "packages": len(locked),
        "advisories_as_of": plain(fixes.advisories_as_of),
        "open": [plain(it) for it in result.open],
        "fixes": [_fix_document(it, fixes) for it in result.fixes],
        "conflict": plain(result.conflict),
        "unknown": list(result.universe.unknown),
    }


def _fix_document(fix: Fix, fixes: LockFixes) -> dict[str, Any]:
    blocked = fixes.result.blocked if fix is fixes.result.fixes[0] else {}
    return {
        "kind": fix.kind,
        "changed": [
            {
                "name": change.name, "old": change.forced, "new": change.advised,
                "verdict": verdict_of(fix, change.name),
                "settled_by": settling_command(fix, change.name),
            }
            for change in fix.changes
        ],
        "fixed": [plain(it) for it in fix.fixed],
        "remaining": [
            {**plain(it), "blocked_by": _blocker_document(blocked.get(it.key))}
            for it in fix.remaining
        ],
        "introduced": [plain(it) for it in fix.introduced],
        "younger_than_allowed": list(fix.young),
        "slower": [it.package for it in fix.upgrade.slower],
        "versions": dict(sorted(fix.versions.items())),
        "proof": _proof_document(fix, fixes),
    }  # fmt: skip


def _blocker_document(blocker: Blocker | None) -> dict[str, Any] | None:
    return None if blocker is None else plain(blocker)


def _proof_document(fix: Fix, fixes: LockFixes) -> dict[str, Any] | None:
    """What is proven of a fix; ``None`` for the advised stack, which is no smallest change."""
    resolution = fix.resolution
    if resolution is None:
        return None
    objective, bound = resolution.objective or (), resolution.bound or ()
    return {
        "status": resolution.status.value,
        "levels": [
            {"name": name, "value": -value, "at_least": -least}
            for name, value, least in zip(LEVELS, objective, bound, strict=False)
        ],
        "solver": resolution.solver,
        "model": resolution.model,
        "snapshot": fixes.snapshot.revision,
        "evidence": fixes.evidence.revision,
    }


def vulnerability_text(vulnerability: OpenVulnerability) -> str:
    """``CVE-2024-1 (high) of jinja2 3.1.2``."""
    rated = f"{vulnerability.id} ({vulnerability.severity or 'unrated'})"
    return f"{rated} of {vulnerability.package} {vulnerability.version}"
