"""The versions from which a fix of a lock is chosen, and the cost of each change of the lock.

The score has one level for each criterion, in this order: vulnerabilities that the lock does not
have; open vulnerabilities, once for each affected package; versions that are younger than the
request allows; packages that change, are added or dropped; steps between major release lines,
between minor ones, and other steps. Newer versions settle ties. So the best stack of this universe
is the smallest change of the lock that leaves the fewest vulnerabilities open, and introduces none
that can be avoided.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from packaging.version import Version

from adviser.resolver.admission import universe_of
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import Nearness, RefusedVersion, RequestRule, Universe
from adviser.scoring.criteria import AllowList, severity_of
from adviser.vex import NO_STATEMENTS, VexStatements
from model.advisories import Severity
from model.packages.candidates import Candidate, Dependency, KnownVulnerability, newest_first
from model.packages.identity import DEFAULT_INDEX, Purl, package_version, same_version, version_of
from model.packages.snapshot import Snapshot

#: Names of the levels of the score, in order. They are printed; never rename them.
LEVELS = (
    "introduced vulnerabilities",
    "open vulnerabilities",
    "versions younger than allowed",
    "changed packages",
    "major steps",
    "minor steps",
    "patch steps",
)
INTRODUCED, OPEN, YOUNG, CHANGED = range(4)


@dataclass(frozen=True, slots=True)
class CountedVulnerabilities:
    """The vulnerabilities that count.

    :param accepted: vulnerabilities that the user accepts
    :param only: if given, only these are to be removed; a fix never introduces others
    :param least: less severe vulnerabilities do not count; unrated ones do
    :param vex: VEX statements; vulnerabilities that they close do not count
    """

    accepted: AllowList
    only: AllowList | None = None
    least: Severity | None = None
    vex: VexStatements = NO_STATEMENTS

    def counts(self, candidate: Candidate, vulnerability: KnownVulnerability) -> bool:
        """Whether a fix must not introduce a vulnerability of a version."""
        if self.vex.closing(candidate.name, candidate.version, vulnerability.id) is not None:
            return False
        severity = severity_of(vulnerability)
        if self.least is not None and severity is not None and severity.rank < self.least.rank:
            return False
        return not self.accepted.accepts(vulnerability)

    def to_remove(self, candidate: Candidate) -> list[KnownVulnerability]:
        """The vulnerabilities of a version that a fix is to remove."""
        return [
            it
            for it in candidate.vulnerabilities
            if self.counts(candidate, it) and (self.only is None or self.only.accepts(it))
        ]

    def introduced(self, candidate: Candidate, known: Collection[str]) -> list[KnownVulnerability]:
        """The vulnerabilities of a version that are not among the identifiers ``known``."""
        new = (it for it in candidate.vulnerabilities if it.id not in known)
        return [it for it in new if self.counts(candidate, it)]

    def known(self, candidate: Candidate) -> frozenset[str]:
        """The identifiers of the vulnerabilities of a locked version that count."""
        return frozenset(it.id for it in candidate.vulnerabilities if self.counts(candidate, it))


@dataclass(frozen=True, slots=True)
class LockToFix:
    """A lock, and the rules for its fixes.

    :param versions: by name
    :param requirements: of the project, if they hold in the environment; empty without a manifest
    :param extras: by package, the extras that the lock itself names
    :param vulnerabilities: of locked versions that are no candidates, by name and version
    :param elsewhere: packages of the lock that come from no index
    :param rules: the rules of the request; its roots, refused versions and times do not count
    :param young_from: later releases are chosen only if otherwise more vulnerabilities are open
    :param bounds: whose each constraint of ``rules`` is, unless it is one of the request
    """

    versions: Mapping[str, str]
    counted: CountedVulnerabilities
    rules: ResolverRequest
    requirements: tuple[Dependency, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vulnerabilities: Mapping[tuple[str, str], Sequence[KnownVulnerability]] = field(
        default_factory=dict
    )
    elsewhere: frozenset[str] = frozenset()
    young_from: datetime | None = None
    bounds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FixUniverse:
    """The universe of a lock's fixes.

    :param locked: the locked version of each package, with its known requirements
    :param unknown: locked packages that no index has here, so that their requirements are unknown
    :param unmet: requirements of locked versions that the lock does not meet, by package; they do
        not count, because the lock works without them
    :param assumed: locked packages that no other locked package requires; the universe requires
        them
    :param beside: locked versions of these packages, and of packages that only they require
    """

    universe: Universe
    locked: Mapping[str, Candidate]
    unknown: tuple[str, ...]
    unmet: Mapping[str, tuple[Dependency, ...]]
    assumed: tuple[str, ...]
    beside: Mapping[str, str]


def fix_universe(snapshot: Snapshot, lock: LockToFix) -> FixUniverse:
    """The universe of a lock's fixes.

    :param snapshot: has the packages of the lock among its roots; may have unread versions
    """
    listed, unknown = _with_locked(snapshot, lock)
    every = [it for them in listed.packages.values() for it in them]
    ours = {it.purl: it for it in every if same_version(it.version, lock.versions.get(it.name))}
    rules = replace(
        lock.rules,
        roots=lock.requirements,
        removed=lock.rules.removed | lock.elsewhere,
        prereleases=lock.rules.prereleases | {it.name for it in ours.values() if it.prerelease},
        published_before=None,
        published_after=None,
        refused={
            it.purl: "its publisher yanked it" for it in every if it.yanked and it.purl not in ours
        },
    )
    universe = universe_of(listed, rules, {})
    usable = (it for them in universe.packages.values() for it in them if it.purl in ours)
    locked = {it.name: it for it in (*ours.values(), *usable)}
    roots, assumed = _roots(universe, lock, locked)
    active = _reached(roots, locked)
    unmet = {
        name: out
        for name, it in locked.items()
        if (out := tuple(_unmet(universe, it, lock.versions, active.get(name, set()))))
    }
    for name, out in unmet.items():
        # The lock has some other version of it, or leaves it out.
        any_version = (
            replace(it, specifier="") if it in out else it
            for it in locked[name].requires
            if it not in out or it.name in lock.versions
        )
        locked[name] = replace(locked[name], requires=tuple(dict.fromkeys(any_version)))
    packages = {
        name: tuple(locked[name] if it.purl in ours else it for it in them)
        if name in unmet else them
        for name, them in universe.packages.items()
    }  # fmt: skip
    known = {it.name: lock.counted.known(it) for it in ours.values()}
    contributions = {
        it.purl: values
        for name, them in packages.items()
        for it, values in _contributions(name, them, lock, known.get(name, frozenset()))
    }
    listed_names = {*listed.packages, *listed.missing}
    universe = replace(
        universe,
        packages=packages,
        roots=roots,
        direct=(),
        contributions=contributions,
        pinned=universe.pinned | ours.keys(),
        unlisted=universe.unlisted | ({it.name for it in roots} - listed_names),
        nearness=Nearness(),
        criteria_levels=len(LEVELS),
        dropped={name: _values(changed=1) for name in sorted(lock.versions)},
    )
    own = _reached(lock.requirements, locked)
    beside = {name: it for name, it in lock.versions.items() if name not in own}
    return FixUniverse(universe, locked, unknown, unmet, assumed, beside)


def without(universe: Universe, refused: Mapping[Purl, str]) -> Universe:
    """The universe without some versions.

    Pre-releases that would be admitted because these versions are missing are left out, too.

    :param refused: the reason by version, which conflicts name
    """
    packages, out = dict(universe.packages), dict(universe.refused)
    for name, them in universe.packages.items():
        why = next((refused[it.purl] for it in them if it.purl in refused), None)
        if why is None:
            continue
        gone = [it for it in them if it.purl in refused or universe.needs_invitation(it)]
        packages[name] = tuple(it for it in them if it not in gone)
        reasons = [(it, refused.get(it.purl, why)) for it in gone]
        left_out = (RefusedVersion(it.version, RequestRule.POLICY, r, it, r) for it, r in reasons)
        out[name] = (*left_out, *out.get(name, ()))
    return replace(universe, packages=packages, refused=out)


def _with_locked(snapshot: Snapshot, lock: LockToFix) -> tuple[Snapshot, tuple[str, ...]]:
    """The snapshot in which every locked version is a candidate, and the unknown packages."""
    packages, unknown = dict(snapshot.packages), list[str]()
    for name, version in sorted(lock.versions.items()):
        listed = packages.get(name, ())
        is_known = name in packages or name in snapshot.missing
        if not is_known or any(same_version(it.version, version) for it in listed):
            continue
        excluded = snapshot.excluded.get(name, ())
        out = next((it for it in excluded if same_version(it.version, version)), None)
        candidate = None if out is None else out.last_resort
        if candidate is None:
            index = out.index if out else listed[0].index if listed else DEFAULT_INDEX
            index = lock.rules.only_index_of(name) or index
            purl = out.purl if out else package_version(name, version, index).purl
            known = tuple(lock.vulnerabilities.get((name, version), ()))
            candidate = Candidate(purl, name, version, index, vulnerabilities=known)
            unknown.append(name)
        packages[name] = tuple(newest_first([*listed, candidate]))
    missing = tuple(it for it in snapshot.missing if it not in packages)
    return replace(snapshot, packages=packages, missing=missing), tuple(unknown)


def _roots(
    universe: Universe, lock: LockToFix, locked: Mapping[str, Candidate]
) -> tuple[tuple[Dependency, ...], tuple[str, ...]]:
    """The requirements of a project, and the packages that are required besides."""
    roots = list(universe.roots)
    left = lock.versions.keys() - _reached(roots, locked).keys()
    assumed: list[str] = []
    while left:
        required = {
            it.name
            for name in left & locked.keys()
            for it in locked[name].requirements(lock.extras.get(name, ()))
            if it.name != name
        }
        # Packages that only require each other: the first one stands for them.
        first = sorted(left - required) or [min(left)]
        assumed += first
        roots += [Dependency(name, extras=lock.extras.get(name, ())) for name in first]
        left -= _reached(roots, locked).keys()
    return tuple(roots), tuple(assumed)


def _reached(roots: Iterable[Dependency], locked: Mapping[str, Candidate]) -> dict[str, set[str]]:
    """The packages that requirements reach in a lock, with the requested extras."""
    extras: dict[str, set[str]] = {}
    pending = list(roots)
    while pending:
        dependency = pending.pop()
        known = extras.get(dependency.name)
        if known is not None and known.issuperset(dependency.extras):
            continue
        extras.setdefault(dependency.name, set()).update(dependency.extras)
        if (candidate := locked.get(dependency.name)) is not None:
            pending += candidate.requirements(extras[dependency.name])
    return extras


def _unmet(
    universe: Universe, candidate: Candidate, versions: Mapping[str, str], extras: set[str]
) -> Iterator[Dependency]:
    """The requirements of a locked version that the lock does not meet."""
    for dependency in candidate.requires:
        version = versions.get(dependency.name)
        active = dependency.extra is None or dependency.extra in extras
        if active and dependency.url is None and dependency.name != candidate.name and (
            version is None or not admits(universe.specifier_of(dependency), version)
        ):  # fmt: skip
            yield dependency


def _contributions(
    name: str, versions: Sequence[Candidate], lock: LockToFix, known: frozenset[str]
) -> Iterator[tuple[Candidate, tuple[int, ...]]]:
    """The cost of each version; versions without a cost are left out."""
    ours = lock.versions.get(name)
    lines = release_lines(one.version for one in versions) if ours is not None else []
    for candidate in versions:
        introduced = lock.counted.introduced(candidate, known)
        remaining = [v for v in lock.counted.to_remove(candidate) if v.id in known]
        if lock.counted.only is None:
            remaining += introduced
        same = same_version(candidate.version, ours)
        steps = 0, 0, 0
        if ours is not None and not same:
            steps = steps_between(ours, candidate.version, lines)
        uploaded, limit = candidate.uploaded_at, lock.young_from
        young = not same and limit is not None and (uploaded is None or uploaded >= limit)
        if not same or remaining:
            yield (
                candidate,
                _values(len(introduced), len(remaining), int(young), int(not same), *steps),
            )


def _values(
    introduced: int = 0, remaining: int = 0, young: int = 0, changed: int = 0, major: int = 0,
    minor: int = 0, patch: int = 0,
) -> tuple[int, ...]:  # fmt: skip
    return -introduced, -remaining, -young, -changed, -major, -minor, -patch


def release_lines(versions: Iterable[str]) -> list[list[tuple[int, ...]]]:
    """The major release lines of a package, such as 1.x, and the minor ones, each sorted."""
    parsed = list(filter(None, map(version_of, versions)))
    return [sorted({_line(it, size) for it in parsed}) for size in (1, 2)]


def steps_between(
    old: str, new: str, lines: Iterable[Sequence[tuple[int, ...]]]
) -> tuple[int, int, int]:
    """The numbers of major, minor and other steps between two versions.

    A step back to an older version counts as a major one.

    >>> lines = release_lines(["1.0", "1.1", "1.4", "1.4.2", "2.0", "4.0"])
    >>> steps_between("1.0", "1.4.2", lines), steps_between("1.4", "4.0", lines)
    ((0, 2, 0), (2, 0, 0))
    >>> steps_between("1.4.2", "1.4", lines)
    (1, 0, 0)
    """
    first, other = version_of(old), version_of(new)
    if first is None or other is None:
        return 0, 0, 1
    major, minor = (
        abs(bisect_left(known, _line(first, size)) - bisect_left(known, _line(other, size)))
        for size, known in enumerate(lines, 1)
    )
    if major or other < first:
        return max(major, 1), 0, 0
    return (0, minor, 0) if minor else (0, 0, 1)


def _line(version: Version, size: int) -> tuple[int, ...]:
    return version.epoch, *(version.major, version.minor)[:size]
