"""Fix the vulnerabilities of a lock, for ``thoth fix``."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from adviser.advice_request import StackRequest
from adviser.advise import Advice, Resolver, SnapshotAndEvidence, advise
from adviser.answering.index_resolution import IndexResolution
from adviser.fix import FixResult, FixSearch
from adviser.fix_universe import CountedVulnerabilities, LockToFix
from adviser.projects.project import ProjectFormat
from adviser.reports.serialization import plain
from adviser.resolver.specifiers import admits
from adviser.scoring.criteria import AllowList
from adviser.vex import VexStatement, VexStatements
from common.formats.locks.entries import LockEntry
from model.advisories import Severity
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.identity import same_version
from model.packages.snapshot import Snapshot, with_revision

T = TypeVar("T")

#: Steps of branch and bound. Measured on 96 packages: the solver takes 0.05 s; branch and bound,
#: which cannot tell before the end what a stack drops, more than 10 s.
_STEPS = 2_000
#: Changes when a key changes its meaning or disappears, not when a key is added.
SCHEMA_VERSION = "fix-1"


class FixKnowledge(Protocol):
    """Sources of fixes: the stores and indexes, or an archive and a pack."""

    request: StackRequest
    resolver: Resolver

    @property
    def stored(self) -> SnapshotAndEvidence:
        """Snapshot and evidence without reading the indexes."""

    def use(self, listed: Callable[[IndexResolution], Awaitable[T]], stored: Callable[[], T]) -> T:
        """As :meth:`adviser.answering.knowledge.Knowledge.use`."""

    def affecting(
        self, releases: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Sequence[KnownVulnerability]]:
        """The vulnerabilities of versions that no index has, by name and version."""

    @property
    def advisories_as_of(self) -> datetime | None:
        """When the oldest archive of advisories was read; ``None`` if none was."""


@dataclass(frozen=True, slots=True)
class FixOptions:
    """Options of a fix.

    :param only: identifiers of the vulnerabilities to remove; empty for all
    :param least: less severe vulnerabilities do not count
    :param elsewhere: names of locked packages that come from no index
    :param of_these: function that removes evidence about other states of the project
    :param vex: VEX statements on vulnerabilities
    :param widely: whether the proof is tried without assumptions about unread versions, which may
        take as long as everything else
    """

    only: Collection[str] = ()
    least: Severity | None = None
    elsewhere: Collection[str] = ()
    of_these: Callable[[Evidence], Evidence] = lambda evidence: evidence
    vex: Sequence[VexStatement] = ()
    widely: bool = False


@dataclass(frozen=True, slots=True)
class LockFixes:
    """The fixes of a lock, with the inputs of the search.

    :param locked: version of each locked package
    :param snapshot: with its revision
    :param advisories_as_of: when the oldest archive of advisories was read; ``None`` if none was,
        so that no version counts as vulnerable
    :param not_looked_at: number of other versions that the lock pins
    """

    result: FixResult
    locked: Mapping[str, str]
    snapshot: Snapshot
    evidence: Evidence
    advisories_as_of: datetime | None
    not_looked_at: int = 0

    @property
    def unknown(self) -> dict[str, str]:
        """The versions of locked packages that neither an index nor an advisory knows, by name."""
        universe = self.result.universe
        names = (it for it in universe.unknown if not universe.locked[it].vulnerabilities)
        return {it: self.locked[it] for it in names}

    @property
    def nothing_known(self) -> bool:
        """Whether no package of the lock is known."""
        return len(self.unknown) == len(self.locked)

    def document(self) -> dict[str, Any]:
        """The fixes as JSON values, best first."""
        result = self.result
        return {
            "schema_version": SCHEMA_VERSION,
            "packages": len(self.locked),
            "not_looked_at": self.not_looked_at,
            "advisories_as_of": plain(self.advisories_as_of),
            "open": plain(result.open),
            "closed": plain(result.closed),
            "not_counted": result.not_counted,
            "fixes": plain(result.fixes),
            "conflict": plain(result.conflict),
            "unread": result.unread,
            "unknown": result.universe.unknown,
            "snapshot": self.snapshot.revision,
            "evidence": self.evidence.revision,
        }


def fixes_of_lock(known: FixKnowledge, options: FixOptions, threads: int = 1) -> LockFixes:
    """The fixes of a lock: the smallest, the smallest without a slow-down, and the advised stack.

    :param known: for a request whose project has this lock
    """
    locked = known.request.project.locked or {}

    def search(at: SnapshotAndEvidence, resolver: Resolver) -> FixSearch:
        snapshot, request = at[0], known.request
        evidence = options.of_these(at[1])
        lost = [
            (name, entry.version)
            for name, entry in locked.items()
            if not any(
                same_version(one.version, entry.version) for one in snapshot.packages.get(name, ())
            )
        ]
        lock = _lock_to_fix(request, options, evidence, known.affecting(lost) if lost else {})
        budget = replace(request.options.budget(threads), steps=_STEPS)
        limited = partial(resolver, budget=budget)
        alone = partial(known.resolver, budget=budget) if options.widely else None
        return FixSearch(
            lock, snapshot, evidence, request.environment, request.hardware, limited, alone
        )

    def found(at: SnapshotAndEvidence, resolver: Resolver) -> tuple[FixResult, FixSearch]:
        searched = search(at, resolver)
        return searched.result(), searched

    def with_newest(result: FixResult, advice: Advice) -> FixResult:
        if advice.best is None:
            return result
        known_there = search((advice.snapshot, advice.evidence), known.resolver)
        return known_there.with_newest(result, advice.best.versions())

    async def listed(resolution: IndexResolution) -> tuple[FixResult, FixSearch]:
        result, searched = await resolution.search(found)
        if result.open and result.conflict is None:
            # All newest versions are read for this, which may take long for an old lock. Where many
            # versions pin each other, no smallest fix is found in time, and this is the only one.
            with suppress(TimeoutError):
                async with asyncio.timeout(known.request.options.time_s):
                    result = with_newest(result, await resolution.advise(threads))
        return result, searched

    def stored() -> tuple[FixResult, FixSearch]:
        result, searched = found(known.stored, known.resolver)
        if result.open and result.conflict is None:
            advice = advise(known.request, *known.stored, resolver=known.resolver, threads=threads)
            result = with_newest(result, advice)
        return result, searched

    result, searched = known.use(listed, stored)
    return LockFixes(
        result, {name: it.version for name, it in locked.items()},
        with_revision(searched.snapshot), searched.evidence, known.advisories_as_of,
    )  # fmt: skip


def _lock_to_fix(
    request: StackRequest,
    options: FixOptions,
    evidence: Evidence,
    vulnerabilities: Mapping[tuple[str, str], Sequence[KnownVulnerability]],
) -> LockToFix:
    """The lock of a request, with the rules for its fixes."""
    details, allowed = evidence.vulnerabilities, request.options.allowed_vulnerabilities
    project, locked = request.project, request.project.locked or {}
    rules, bounds = request.resolver_request({}), _bounds(request, locked)
    return LockToFix(
        {name: it.version for name, it in locked.items()},
        CountedVulnerabilities(
            AllowList(allowed, details),
            AllowList(options.only, details) if options.only else None,
            options.least,
            VexStatements(options.vex, details, evidence.as_of.date()),
        ),
        replace(rules, constraints=(*rules.constraints, *bounds)),
        () if project.format is ProjectFormat.LOCK else request.roots,
        {name: it.extras for name, it in locked.items() if it.extras},
        vulnerabilities,
        frozenset(options.elsewhere),
        request.options.published_before,
        {f"{it.name}{it.specifier}": whose for it, whose in bounds.items()
         if it not in rules.constraints},
    )  # fmt: skip


def _bounds(request: StackRequest, locked: Mapping[str, LockEntry]) -> dict[Dependency, str]:
    """Requirements of groups, extras and development on locked packages, and whose they are.

    Those that the lock does not meet are left out.
    """
    project, required = request.project, {it.name for it in request.roots}
    optional = [(f"the group {name}", them) for name, them in project.groups.items()]
    optional += [(f"the extra {name}", them) for name, them in project.extras.items()]
    optional.append(("the project's development", project.dev))
    bounds: dict[Dependency, str] = {}
    for whose, requirements in optional:
        for requirement in requirements:
            if (
                requirement.name in locked.keys() - required
                and requirement.specifier
                and requirement.holds(request.environment.markers)
                and admits(requirement.specifier, locked[requirement.name].version)
            ):
                bound = Dependency(requirement.name, requirement.specifier)
                bounds.setdefault(bound, whose)
    return bounds
