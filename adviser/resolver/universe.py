"""The versions that a request may choose from, why others are refused, and how near packages are.

The nearness of a package is its distance from the project along requirements: the newness of near
packages is weighed first. Only the requirements of newest versions count: of the project's direct
requirements, and of the packages that they require. So the levels of the score depend only on the
request and the indexes, not on the chosen stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from model.packages.candidates import Candidate, Dependency, ExclusionReason
from model.packages.identity import Purl

#: Number of distances that have a level of their own.
DISTANCES = 2


@dataclass(frozen=True, slots=True)
class Nearness:
    """The packages at each distance from the project.

    :param packages: names at distance 1, 2, … up to :data:`DISTANCES`; direct requirements are at
        distance 0 and left out
    :param unread: newest versions on the way that were not read, so that distances are unknown
    :param unlisted: packages on the way about which nothing is known
    """

    packages: tuple[frozenset[str], ...] = (frozenset(),) * DISTANCES
    unread: tuple[Candidate, ...] = ()
    unlisted: frozenset[str] = frozenset()

    def level_of(self, name: str) -> int:
        """0 for packages at distance 1; :data:`DISTANCES` for all that are farther away."""
        distances = (at for at, names in enumerate(self.packages) if name in names)
        return next(distances, DISTANCES)


def nearness_of(
    roots: Iterable[Dependency],
    newest: Callable[[str], Candidate | None],
    unlisted: Collection[str],
) -> Nearness:
    """The distances of packages, as far as the newest versions on the path were read.

    :param roots: requirements of the request
    :param newest: returns the newest version of a package that the request may choose
    :param unlisted: packages about which nothing is known
    """
    pending = _extras(roots)
    seen: dict[str, set[str]] = {}
    layers = []
    unread: list[Candidate] = []
    unknown: set[str] = set()
    for _ in range(DISTANCES):
        required: list[Dependency] = []
        for name, wanted in sorted(pending.items()):
            seen.setdefault(name, set()).update(wanted)
            candidate = newest(name)
            if candidate is None:
                unknown |= {name}.intersection(unlisted)
            elif candidate.read:
                required += candidate.requirements(seen[name])
            else:
                unread.append(candidate)
        # A package that was seen is followed again if further extras of it are required.
        pending = {
            name: wanted
            for name, wanted in _extras(required).items()
            if name not in seen or not wanted <= seen[name]
        }
        layers.append(frozenset(pending.keys() - seen.keys()))
    return Nearness(tuple(layers), tuple(unread), frozenset(unknown))


def _extras(dependencies: Iterable[Dependency]) -> dict[str, set[str]]:
    """The extras of each required package; requirements that name a URL are left out."""
    extras: dict[str, set[str]] = {}
    for dependency in dependencies:
        if dependency.url is None:
            extras.setdefault(dependency.name, set()).update(dependency.extras)
    return extras


class RequestRule(StrEnum):
    """Rules of a request that refuse a candidate. The values are stored; never rename them."""

    CONSTRAINT = "constraint"
    EXCLUSION = "exclusion"
    #: Published outside the dates of the request, or at an unknown time.
    PUBLISHED = "published"
    #: On another index than the one that the package comes from.
    OTHER_INDEX = "other_index"
    #: Refused by a rule of the caller, such as one about vulnerabilities.
    POLICY = "policy"
    #: Without a wheel for the environment, while the request takes only wheels.
    ONLY_WHEELS = "only_wheels"


@dataclass(frozen=True, slots=True)
class RefusedVersion:
    """A version that cannot be chosen.

    :param message: for a person: ``needs glibc 2.34, this environment has 2.28``
    :param candidate: the candidate that a rule of the request refuses; ``None`` if the snapshot
        has no candidate for this version
    :param rule: text of the rule, such as ``numpy<2``; the same for all versions that it refuses
    """

    version: str
    reason: RequestRule | ExclusionReason
    message: str
    candidate: Candidate | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Universe:
    """The usable versions with their scores. The checker and the searches read nothing else.

    A pre-release may be chosen if its package is in ``prereleases``, if a requirement on the
    package names a pre-release, or if all requirements together leave no other version (PEP 440,
    and pip). A yanked version may be chosen if it is in ``pinned``, or if a requirement pins it
    exactly (PEP 592). pip has the same rule; in uv, only the request itself can pin such a version.

    As in pip and uv, an extra that a version does not have adds no requirements and excludes
    nothing.

    A version is *unread* if only the page of its index is known; a package is *unlisted* if nothing
    about it is known. Unread versions take part as if they required nothing. A requirement on an
    unlisted package counts as met. So this universe contains every stack
    of the true universe, with the same score. The exceptions are stacks in which only an unread
    version invites a pre-release or a yanked version. If all versions of a best stack have been
    read, it is also a best stack of the true universe, not counting the exceptions. With
    ``unread_invite`` there is no exception: an unread version might require any version by name.

    :param packages: usable versions by name, newest first, no version twice
    :param refused: versions that cannot be chosen, by name
    :param roots: requirements of the request
    :param contributions: by version, the contribution of each criterion to the score of a stack
        (:func:`adviser.resolver.admission.contributions_of`); absent if all are 0
    :param newness: positions of the criteria that count as newness
    :param direct: packages that the request names, in declared order
    :param pinned: yanked versions that a constraint of the request pins
    :param overrides: specifier by name that replaces every requirement on the package
    :param unlisted: packages that a requirement names and whose index page was not read
    :param absent: by name of a package without any version, the answers of the indexes
    :param unread_invite: whether unread versions count as if they named every pre-release and
        every yanked version. Solvers then use unread versions of any package as a pretext to choose
        pre-releases, so these unread versions would be read one after the other. So this option is
        on only to prove that there is no stack.
    :param bounds_inferred: whether inferred bounds count
        (:mod:`adviser.resolver.inferred_bounds`)
    :param inferred: inferred bounds by version, which are among its requirements
    :param nearness: the distance of each package from the request
    :param criteria_levels: number of criteria, if each is a level of the score by itself, in order;
        0 for the levels of advice
    :param dropped: by name, what the absence of a package contributes to each of these levels, at
        most 0. A cost of absence would reward packages that nothing requires, so the searches
        choose only what the roots require. It would also punish unread versions, as if they
        required nothing. So an unread version may keep, at no cost, each of these packages that a
        read version of the same package requires; it is assumed to require no others of them
    :param unread_keep_all: whether unread versions may keep any of these packages instead, so that
        nothing is assumed
    """

    packages: Mapping[str, Sequence[Candidate]]
    refused: Mapping[str, Sequence[RefusedVersion]]
    roots: tuple[Dependency, ...]
    contributions: Mapping[Purl, tuple[int, ...]] = field(default_factory=dict)
    newness: frozenset[int] = frozenset()
    direct: tuple[str, ...] = ()
    prereleases: frozenset[str] = frozenset()
    pinned: frozenset[Purl] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()
    unread_invite: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)
    bounds_inferred: bool = False
    inferred: Mapping[Purl, tuple[Dependency, ...]] = field(default_factory=dict)
    nearness: Nearness = field(default_factory=Nearness)
    criteria_levels: int = 0
    dropped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unread_keep_all: bool = False

    def specifier_of(self, dependency: Dependency) -> str:
        """The specifier of a dependency after overrides."""
        return self.overrides.get(dependency.name, dependency.specifier)

    def values(self, candidate: Candidate) -> tuple[int, int]:
        """The two contributions of a version, each at most 0: before newness, and by newness."""
        contributions = self.contributions.get(candidate.purl, ())
        newness = sum(contributions[it] for it in self.newness if it < len(contributions))
        return sum(contributions) - newness, newness

    def level_values(self, candidate: Candidate) -> tuple[int, ...]:
        """The contributions of a version by level of the score."""
        if self.criteria_levels:
            return self.contributions.get(candidate.purl) or (0,) * self.criteria_levels
        levels = [0] * self.level_count
        levels[0], newness = self.values(candidate)
        levels[self.level_of(candidate.name)] += newness
        return tuple(levels)

    def preference(self, candidate: Candidate) -> tuple[int, ...]:
        """Sort key: smaller for the version of a package that a stack had better have."""
        values = self.level_values(candidate) if self.criteria_levels else self.values(candidate)
        return tuple(-it for it in values)

    def inviting(self) -> Universe | None:
        """The universe with ``unread_invite``; ``None`` if the option makes no difference."""
        unread = any(not it.read for them in self.packages.values() for it in them)
        if self.unread_invite or not (unread or self.unlisted):
            return None
        return replace(self, unread_invite=True)

    @property
    def level_count(self) -> int:
        """Number of levels of the score.

        The first level holds the criteria before newness. Each direct requirement then has a level
        for its newness, then each distance from the project (:class:`Nearness`). The last level
        holds the newness of all other packages.
        """
        return self.criteria_levels or 1 + len(self.direct) + DISTANCES + 1

    def level_of(self, name: str) -> int:
        """The level that the newness of a package belongs to."""
        if name in self.direct:
            return self.direct.index(name) + 1
        return len(self.direct) + 1 + self.nearness.level_of(name)

    def likely_needs(self, name: str) -> frozenset[str]:
        """The packages in ``dropped`` that unread versions of a package may require."""
        if self.unread_keep_all:
            return frozenset(self.dropped.keys() - {name})
        candidates = (it for it in self.packages.get(name, ()) if it.read)
        named = {one.name for it in candidates for one in it.requires}
        return frozenset(named & self.dropped.keys() - {name})

    def needs_invitation(self, candidate: Candidate) -> bool:
        """Whether a version is yanked or a pre-release, so that only a requirement can admit it."""
        if candidate.yanked and candidate.purl not in self.pinned:
            return True
        return candidate.prerelease and candidate.name not in self.prereleases
