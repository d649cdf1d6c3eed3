"""Proposes replacements for harmful versions of a new lock, without I/O.

The nearest version without the harm is proposed, if the whole lock with it is a valid stack. The
resolver proves this over the versions of both locks; packages without harm move only if the lock
is no valid stack otherwise, and then back to their old versions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from adviser.advise import in_this_process
from adviser.guard import GuardResult, Proposal, Vulnerabilities, guard, known_version
from adviser.harm_prevention import harmful_versions, pins_of
from adviser.resolver.admission import universe_of
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.scoring.assessment_types import Premises
from adviser.scoring.stack_pairs import MeasuredStackIndex
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, Dependency, newest_first
from model.packages.environments import Environment
from model.packages.identity import (
    DEFAULT_INDEX,
    Purl,
    changes_between,
    package_version,
    same_version,
)
from model.packages.snapshot import Snapshot

#: Maximum number of versions of a harmful package that are considered, the nearest ones.
MOST_VERSIONS = 40
#: Maximum number of packages for which a version is proposed.
MOST_PROPOSALS = 10
#: Seconds for all proposals together, and for a lock without all harm.
_TIME_S = 5.0
#: At most this number of locks are compared with the old one; then only its versions are left.
_MOST_ROUNDS = 8
#: Maximum number of lines of a conflict in a message.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ProposedLock:
    """The new lock without harmful changes.

    :param versions: by name; empty if no such lock is known
    :param unread: its packages whose requirements are unknown, so that it is not proven
    :param problem: why no such lock is known
    """

    versions: Mapping[str, str]
    unread: tuple[str, ...] = ()
    problem: str = ""


def harmful_packages(upgrade: GuardResult) -> list[str]:
    """Names of the packages with settled harm, sorted."""
    names = {it.package for it in upgrade.slower if it.package is not None}
    names |= {it.name for it in upgrade.introduced} | {it.name for it in upgrade.yanked}
    return sorted(names)


def nearest_first(listed: Sequence[Candidate], version: str) -> list[Candidate]:
    """The versions of a package by their distance from one of them, newer ones first.

    :param listed: newest first
    """
    at = next((n for n, it in enumerate(listed) if same_version(it.version, version)), 0)
    places = sorted(range(len(listed)), key=lambda n: (abs(n - at), n))
    return [listed[n] for n in places][:MOST_VERSIONS]


class UpgradeProposals:
    """Searches for locks without harm.

    :param old: versions of the old lock by name
    :param new: versions of the new lock by name
    :param snapshot: has the versions of both locks, and the other versions of harmful packages
    :param vulnerabilities: as for :func:`adviser.guard.guard`
    :param allowed: identifiers of accepted vulnerabilities
    :param requirements: further requirements on the lock, such as those of the project
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the inputs of the comparison
        self,
        old: Mapping[str, str],
        new: Mapping[str, str],
        snapshot: Snapshot,
        evidence: Evidence,
        environment: Environment,
        hardware: str | None,
        vulnerabilities: Vulnerabilities | None = None,
        allowed: Collection[str] = (),
        requirements: Sequence[Dependency] = (),
    ) -> None:
        self._old, self._new, self._snapshot, self._evidence = old, new, snapshot, evidence
        self._environment, self._hardware = environment, hardware
        self._vulnerabilities, self._requirements = vulnerabilities, tuple(requirements)
        self._packages = {name: self._candidates(name) for name in sorted({*old, *new})}
        listed = replace(snapshot, packages=self._packages)
        self._harmful = harmful_versions(listed, evidence, old, Premises(None), allowed)
        self._measured = MeasuredStackIndex(evidence)

    def _candidates(self, name: str) -> tuple[Candidate, ...]:
        """The candidates of a package, with the locked versions whose metadata was not read."""
        listed = list(self._snapshot.packages.get(name, ()))
        for version in dict.fromkeys(filter(None, (self._new.get(name), self._old.get(name)))):
            known = known_version(self._snapshot, name, version)
            if isinstance(known, Candidate):
                continue
            purl = package_version(name, version).purl if known is None else known.purl
            index = known.index if known else listed[0].index if listed else DEFAULT_INDEX
            harm = tuple((self._vulnerabilities or {}).get((name, version), ()))
            listed.append(Candidate(purl, name, version, index, vulnerabilities=harm, read=False))
        return tuple(newest_first(listed))

    def with_proposals(self, upgrade: GuardResult, time_s: float = _TIME_S) -> GuardResult:
        """The comparison with the nearest version without harm for each harmful package, by name.

        Slower packages come first if there are more than :data:`MOST_PROPOSALS`.

        :param time_s: seconds for all packages; untried packages are counted
        """
        slower = {it.package for it in upgrade.slower}
        harmful = sorted(harmful_packages(upgrade), key=lambda it: it not in slower)
        end, proposals = monotonic() + time_s, list[Proposal]()
        for name in harmful[:MOST_PROPOSALS]:
            if monotonic() >= end:
                break
            lock = self.lock_without([name], upgrade, end)
            changes = changes_between(self._new, lock.versions) if lock.versions else ()
            others = {it.name: it.new or "" for it in changes if it.name != name}
            instead, problem = lock.versions.get(name), lock.problem or None
            proposals.append(Proposal(name, self._new[name], instead, others, lock.unread, problem))
        proposals.sort(key=lambda it: it.package)
        untried = len(harmful) - len(proposals)
        return replace(upgrade, proposals=tuple(proposals), untried=untried)

    def lock_without(
        self, names: Collection[str], upgrade: GuardResult, end: float | None = None
    ) -> ProposedLock:
        """The valid stack nearest to the new lock in which none of ``names`` does harm.

        :param upgrade: the comparison of the two locks
        :param end: when the search stops, on the clock of :func:`time.monotonic`
        """
        end = monotonic() + _TIME_S if end is None else end
        own = {it.purl for name in names for it in self._packages[name]}
        refused = {purl: reason for purl, reason in self._harmful.items() if purl in own}
        slower = {it.package for it in upgrade.slower if it.package in names}
        for candidate in (it for name in slower for it in self._packages[name or ""]):
            # Without a measured stack, nothing can be known of its speed.
            if not self._is_old(candidate) and not self._measured.holding(candidate.purl):
                refused[candidate.purl] = "its speed is unknown here"
        rounds = 0
        while True:
            lock = self._nearest(names, refused, end)
            harmful = self._slower_in(lock, names, slower) if lock.versions else set()
            if not harmful:
                return lock
            rounds += 1
            for candidate in (it for name in harmful for it in self._packages[name]):
                tried = candidate.version == lock.versions[candidate.name]
                if tried or (rounds >= _MOST_ROUNDS and not self._is_old(candidate)):
                    refused[candidate.purl] = "it is slower, or its speed is unknown here"

    def _slower_in(
        self, lock: ProposedLock, names: Collection[str], slower: Collection[str | None]
    ) -> set[str]:
        """The harmful packages that are still slower in a lock, or whose speed is unknown."""
        guarded = guard(
            self._old, lock.versions, self._snapshot, self._evidence, self._environment,
            self._hardware, self._vulnerabilities,
        )  # fmt: skip
        settled = {it.package for it in guarded.claims}
        changed = {it.name for it in guarded.changes if it.new is not None}
        unknown = {name for name in slower if name in changed - settled}
        return {
            it for it in ({it.package for it in guarded.slower} | unknown) if it in names and it
        }

    def _nearest(
        self, names: Collection[str], refused: Mapping[Purl, str], end: float
    ) -> ProposedLock:
        """The valid stack nearest to the new lock, without refused versions."""
        packages: dict[str, tuple[Candidate, ...]] = {}
        scores: dict[Purl, tuple[int, int]] = {}
        for name, listed in self._packages.items():
            ours = self._new.get(name)
            if name in names and ours is not None:
                near = nearest_first(listed, ours)
                scores |= {it.purl: (0, -distance) for distance, it in enumerate(near)}
            else:
                near = [it for it in listed if self._is_old(it) or same_version(it.version, ours)]
                kept = (it.purl for it in near if not same_version(it.version, ours))
                scores |= dict.fromkeys(kept, (-1, 0))
            purls = {it.purl for it in near}
            packages[name] = tuple(it for it in listed if it.purl in purls)
        return self._resolved(names, packages, scores, refused, end)

    def _resolved(
        self,
        names: Collection[str],
        packages: Mapping[str, tuple[Candidate, ...]],
        scores: Mapping[Purl, tuple[int, int]],
        refused: Mapping[Purl, str],
        end: float,
    ) -> ProposedLock:
        listed = [it for them in packages.values() for it in them]
        locked = [it for it in listed if same_version(it.version, self._new.get(it.name))]
        added = {one.name for it in locked for one in it.requires} - self._old.keys()
        rules = ResolverRequest(
            roots=(
                *(Dependency(name) for name in self._new if name not in added),
                *(it for it in self._requirements if it.name in packages),
            ),
            direct=tuple(sorted(names)),
            constraints=pins_of(
                {it.name: it.version for it in locked if it.yanked and it.purl not in refused}
            ),
            prereleases=frozenset(
                it.name for it in listed if it.prerelease and (it in locked or self._is_old(it))
            ),
            indexes=tuple(dict.fromkeys(it.index for it in listed)),
            index_of={it.name: it.index for it in locked},
            refused=refused,
        )
        # What the new lock leaves out although a version requires it is not from an index.
        assumed = {one.name for it in locked for one in it.requires}
        unknown = {one.name for it in listed for one in it.requires} - packages.keys() - assumed
        snapshot = replace(
            self._snapshot, packages=packages, excluded={}, missing=tuple(sorted(unknown))
        )
        universe = universe_of(snapshot, rules, scores, penalties={0}, newness={1})
        resolution = in_this_process(universe, Budget(time_s=max(0.0, end - monotonic())))
        if not resolution.stacks:
            conflict = resolution.conflict
            cause = "; ".join(conflict.lines()[:_SHOWN]) if conflict else "no stack found in time"
            return ProposedLock({}, problem=cause)
        chosen = {it.purl for it in resolution.stacks[0].choices}
        unread = tuple(sorted(it.name for it in listed if it.purl in chosen and not it.read))
        return ProposedLock(resolution.stacks[0].versions(), unread)

    def _is_old(self, candidate: Candidate) -> bool:
        return same_version(candidate.version, self._old.get(candidate.name))
