"""Apply the rules of a request to a snapshot: which versions may be chosen, with which scores.

Rules that depend on the choice of other packages are left to the search.

The score of a stack has levels (:mod:`adviser.resolver.objective`). Each level is a sum over the
versions of the stack, and at most 0, which is the ideal. Penalties, such as known vulnerabilities,
count from zero. They weigh the same even if the package has no better version, so a stack without
the package is better. The other criteria only say which version of a package is preferred. They
count as the difference to the version with the best sum: otherwise a package that is good by them,
such as a fast one, would be installed for no other reason, and a required package would cost a
stack what none of its versions can offer. There is one best version for the newness criteria, and
one for all other criteria together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from adviser.resolver.inferred_bounds import InferredBounds, bounds_in, compiled_ranks, with_bounds
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits, names_prerelease, pins
from adviser.resolver.universe import RefusedVersion, RequestRule, Universe, nearness_of
from common.versioned_cache import VersionedCache
from model.packages.candidates import Candidate, Dependency, Excluded
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot

#: Score of a version by criterion, in the order of the criteria, as fixed-point integers.
Scores = Mapping[Purl, tuple[int, ...]]
#: Contribution of a version to the score of a stack, by criterion.
Contributions = dict[Purl, tuple[int, ...]]


def contributions_of(
    candidates: Sequence[Candidate],
    scores: Scores,
    penalties: Collection[int],
    plain: Callable[[Candidate], bool],
    newness: Collection[int] = (),
) -> Iterator[tuple[Purl, tuple[int, ...]]]:
    """The contributions of every version of one package; empty if nothing has a score.

    The reference is chosen before the rules of a request refuse versions, so a further constraint
    can make a result worse but never better. A version that needs an explicit requirement serves as
    the reference only if there is no other version. A version that scores above the reference loses
    no points.

    :param candidates: candidates of one index, newest first
    :param penalties: positions of the criteria that count from zero
    :param plain: whether a version may be chosen without being required by name
    :param newness: positions of the criteria of newness, which have a reference of their own
    :raises ValueError: if a penalty is above zero
    """
    if not scores or not candidates:
        return
    width = max(len(scores.get(it.purl, ())) for it in candidates)
    columns = [[0] * len(candidates) for _ in range(width)]
    values = [scores.get(it.purl) or (0,) * width for it in candidates]
    for column in (it for it in penalties if it < width):
        columns[column] = [value[column] for value in values]
        for candidate, value in zip(candidates, values, strict=True):
            if value[column] > 0:
                raise ValueError(f"a penalty of {candidate.purl} is above zero: {value}")
    preferences = [column for column in range(width) if column not in penalties]
    eligible = [place for place, it in enumerate(candidates) if plain(it)]
    groups = (
        [column for column in preferences if column not in newness],
        [column for column in preferences if column in newness],
    )
    for group in filter(None, groups):
        sums = [sum(value[column] for column in group) for value in values]
        best = max(eligible or range(len(candidates)), key=sums.__getitem__)
        for place, value in enumerate(values):
            if sums[place] <= sums[best]:
                for column in group:
                    columns[column][place] = value[column] - values[best][column]
    for place, it in enumerate(candidates):
        yield it.purl, tuple(column[place] for column in columns)


def universe_of(
    snapshot: Snapshot,
    request: ResolverRequest,
    scores: Scores,
    penalties: Collection[int] = (),
    newness: Collection[int] = (),
    reused: VersionedCache[str, AdmittedPackage] | None = None,
) -> Universe:
    """The versions of ``snapshot`` that ``request`` may choose from.

    :param scores: by Package URL; missing versions score 0
    :param penalties: positions of the criteria that count from zero
    :param newness: positions of the criteria of newness
    :param reused: packages of an earlier universe of the same request, except refused versions
    :raises ValueError: if a penalty is above zero
    """
    reused = VersionedCache() if reused is None else reused
    roots = _kept(snapshot.roots if request.roots is None else request.roots, request)
    screen = _Screen(request)
    compiled = compiled_ranks(snapshot.environment) if request.inferred_bounds else None
    packages: dict[str, Sequence[Candidate]] = {}
    refused: dict[str, Sequence[RefusedVersion]] = {}
    contributions: Contributions = {}
    inferred: dict[Purl, tuple[Dependency, ...]] = {}
    named = {it.name for it in roots}

    def admitted(name: str, candidates: Sequence[Candidate]) -> AdmittedPackage:
        unbounded = compiled is None or name in request.unbounded
        bounds = {} if unbounded else bounds_in(candidates, compiled or ())
        excluded = snapshot.excluded.get(name, ())
        source = _index_of(name, candidates, excluded, request)
        usable, out = screen.screened(name, candidates, source)
        served = [it for it in candidates if it.index == source]
        return AdmittedPackage(
            with_bounds(_relieved(usable, request), bounds),
            _all_refused(out, excluded),
            dict(contributions_of(served, scores, penalties, screen.plain, newness)),
            bounds,
            frozenset(
                dependency.name
                for it in candidates
                for dependency in it.requires
                if dependency.url is None
            ),
        )

    for name, candidates in snapshot.packages.items():
        inputs = (
            candidates, snapshot.excluded.get(name, ()),
            request.inferred_bounds and name not in request.unbounded, request.refused,
            [scores.get(it.purl) for it in candidates] if scores else (),
        )  # fmt: skip
        package = reused.get(name, inputs, partial(admitted, name, candidates))
        packages[name], refused[name] = package.usable, package.refused
        contributions.update(package.contributions)
        inferred.update(package.inferred)
        named |= package.named
    names = dict.fromkeys(it.name for it in sorted(roots, key=lambda it: it.order))
    universe = Universe(
        packages=packages,
        refused=refused,
        roots=roots,
        contributions=contributions,
        newness=frozenset(newness),
        direct=tuple(it for it in dict.fromkeys([*request.direct, *names]) if it in names),
        prereleases=screen.prereleases(packages) | _named_prereleases(roots, request),
        pinned=screen.pinned(packages),
        overrides=request.overrides,
        unlisted=frozenset(named - snapshot.packages.keys() - set(snapshot.missing)),
        absent={name: it.message for name, it in snapshot.absences.items()},
        bounds_inferred=request.inferred_bounds,
        inferred=inferred,
    )
    nearness = nearness_of(roots, partial(_newest, universe), universe.unlisted)
    return replace(universe, nearness=nearness)


def _newest(universe: Universe, name: str) -> Candidate | None:
    """The newest version that the request may choose; ``None`` if the package has none."""
    wanted = [universe.specifier_of(it) for it in universe.roots if it.name == name]
    versions = (
        it
        for it in universe.packages.get(name, ())
        if not universe.needs_invitation(it) and all(admits(one, it.version) for one in wanted)
    )
    return next(versions, None)


@dataclass(frozen=True, slots=True)
class AdmittedPackage:
    """The versions of a package that a request admits, with the data that the universe needs.

    :param named: packages that its candidates require
    """

    usable: Sequence[Candidate]
    refused: Sequence[RefusedVersion]
    contributions: Contributions
    inferred: InferredBounds
    named: frozenset[str]


def choosable(snapshot: Snapshot, request: ResolverRequest) -> dict[str, frozenset[Purl]]:
    """For each package name, the versions that a stack may have if it meets the request.

    It applies two kinds of requirements: those of the request, and those shared by all usable
    versions of a package that every stack contains. The result still includes versions that only a
    combination of choices excludes.
    """
    universe = universe_of(snapshot, replace(request, inferred_bounds=False), {})
    usable = {
        name: [it for it in candidates if _is_invited(it, universe.pinned, universe.prereleases)]
        for name, candidates in universe.packages.items()
    }
    needed: dict[str, list[str]] = {}
    for root in universe.roots:
        needed.setdefault(root.name, []).append(universe.specifier_of(root))
    for name, texts in needed.items():
        usable[name] = [
            it for it in usable.get(name, ()) if all(admits(text, it.version) for text in texts)
        ]
    pending = list(needed)
    in_every_stack = set(needed)
    while pending:
        for name, admitted in _asked_by_all(usable[pending.pop()], universe).items():
            kept = [it for it in usable.get(name, ()) if any(all(
                admits(text, it.version) for text in texts) for texts in admitted)]  # fmt: skip
            if name not in in_every_stack or len(kept) < len(usable.get(name, ())):
                usable[name] = kept
                in_every_stack.add(name)
                pending.append(name)
    return {name: frozenset(it.purl for it in candidates) for name, candidates in usable.items()}


def _is_invited(
    candidate: Candidate, pinned: Collection[Purl], prereleases: Collection[str]
) -> bool:
    """Whether a version may be chosen although no other package requires it by name."""
    if candidate.yanked:
        return candidate.purl in pinned
    return not candidate.prerelease or candidate.name in prereleases


def _asked_by_all(
    candidates: Sequence[Candidate], universe: Universe
) -> dict[str, set[tuple[str, ...]]]:
    """The packages that every candidate requires, with the specifiers of each candidate."""
    specifiers: dict[str, list[tuple[str, ...]]] = {}
    for candidate in candidates:
        texts: dict[str, list[str]] = {}
        for dependency in candidate.requirements():
            texts.setdefault(dependency.name, []).append(universe.specifier_of(dependency))
        for name, several in texts.items():
            specifiers.setdefault(name, []).append(tuple(sorted(several)))
    return {
        name: set(several)
        for name, several in specifiers.items()
        if len(several) == len(candidates)
    }


def _index_of(
    name: str,
    candidates: Sequence[Candidate],
    excluded: Sequence[Excluded],
    request: ResolverRequest,
) -> str | None:
    """The one index that a package comes from; ``None`` if no index of the request has it.

    Unusable versions count, too. Otherwise, a foreign package of the same name on another index
    could replace a package that does not fit this environment (dependency confusion).
    """
    if (only := request.only_index_of(name)) is not None:
        return only
    has = {it.index for it in candidates} | {it.index for it in excluded}
    return next((index for index in request.indexes if index in has), None)


class _Screen:
    """The rules of one request by package."""

    def __init__(self, request: ResolverRequest) -> None:
        self._request = request
        self._constraints = _by_name(request.constraints)
        self._exclusions = _by_name(request.exclusions)

    def screened(
        self, name: str, candidates: Sequence[Candidate], source: str | None
    ) -> tuple[Sequence[Candidate], list[RefusedVersion]]:
        """Usable and refused versions, both in the order of ``candidates``."""
        checks = list(self._checks(name))
        if not checks and all(it.index == source for it in candidates):
            return candidates, []
        usable, out = [], []
        for candidate in candidates:
            why = _other_index(candidate, source) or next(
                filter(None, (c(candidate) for c in checks)), None
            )
            if why is None:
                usable.append(candidate)
            else:
                rule, message, text = why
                out.append(RefusedVersion(candidate.version, rule, message, candidate, text))
        return tuple(usable), out

    def _checks(self, name: str) -> Iterable[Callable[[Candidate], _Why | None]]:
        for text in self._constraints.get(name, ()):
            yield partial(_outside, name, text)
        for text in self._exclusions.get(name, ()):
            yield partial(_within, name, text)
        if self._request.published_after or self._request.published_before:
            yield self._untimely
        if self._request.refused:
            yield self._by_policy
        if not self._request.may_build(name):
            yield _unbuilt

    def _untimely(self, candidate: Candidate) -> _Why | None:
        after, before = self._request.published_after, self._request.published_before
        if candidate.uploaded_at is None:
            return RequestRule.PUBLISHED, "its upload time is unknown", "published"
        if before is not None and candidate.uploaded_at >= before:
            limit = f"published before {before:%Y-%m-%d}"
        elif after is not None and candidate.uploaded_at < after:
            limit = f"published since {after:%Y-%m-%d}"
        else:
            return None
        return RequestRule.PUBLISHED, f"not {limit} but on {candidate.uploaded_at:%Y-%m-%d}", limit

    def _by_policy(self, candidate: Candidate) -> _Why | None:
        message = self._request.refused.get(candidate.purl)
        return None if message is None else (RequestRule.POLICY, message, "policy")

    def prereleases(self, names: Iterable[str]) -> frozenset[str]:
        """Packages whose pre-releases the request admits."""
        if self._request.all_prereleases:
            return frozenset(names)
        named = {n for n, texts in self._constraints.items() if any(map(names_prerelease, texts))}
        return self._request.prereleases | named

    def pinned(self, packages: Mapping[str, Sequence[Candidate]]) -> frozenset[Purl]:
        """Yanked versions that a constraint pins."""
        return frozenset(
            candidate.purl
            for name, texts in self._constraints.items()
            if any(map(pins, texts))
            for candidate in packages.get(name, ())
            if candidate.yanked
        )

    def plain(self, candidate: Candidate) -> bool:
        """Whether this version may be chosen without being required by name."""
        if candidate.prerelease and not (
            self._request.all_prereleases or candidate.name in self._request.prereleases
        ):
            return False
        return not candidate.yanked


#: Start of a rule about an index that has a package and is not used for it.
NOT_ON = "not on "
_Why = tuple[RequestRule, str, str]  # rule, message, the rule in full


def _other_index(candidate: Candidate, source: str | None) -> _Why | None:
    if candidate.index == source:
        return None
    if source is None:
        return (
            RequestRule.OTHER_INDEX,
            f"it is on {candidate.index}, which is not used for this package",
            f"{NOT_ON}{candidate.index}",
        )
    text = f"from {source}"
    return (
        RequestRule.OTHER_INDEX,
        f"it is on {candidate.index}, and the package comes {text}",
        text,
    )


def _outside(name: str, text: str, candidate: Candidate) -> _Why | None:
    if admits(text, candidate.version):
        return None
    return RequestRule.CONSTRAINT, f"outside the constraint {name}{text}", f"{name}{text}"


def _unbuilt(candidate: Candidate) -> _Why | None:
    if not candidate.sdist_only:
        return None
    return RequestRule.ONLY_WHEELS, "has no wheel for this environment", "with a wheel"


def _within(name: str, text: str, candidate: Candidate) -> _Why | None:
    if not admits(text, candidate.version):
        return None
    return RequestRule.EXCLUSION, f"excluded by {name}{text}", f"{name}{text}"


def _relieved(candidates: Sequence[Candidate], request: ResolverRequest) -> Sequence[Candidate]:
    """Candidates without the requirements and extras that the request removes."""
    changed = request.removed | request.bare
    if not changed:
        return candidates
    return tuple(
        replace(it, requires=tuple(_less(it, request)))
        if any(needed.name in changed and needed.name != it.name for needed in it.requires)
        else it
        for it in candidates
    )


def _less(candidate: Candidate, request: ResolverRequest) -> Iterator[Dependency]:
    for dependency in candidate.requires:
        if dependency.name == candidate.name:
            yield dependency
        elif dependency.name not in request.removed:
            yield replace(dependency, extras=()) if dependency.name in request.bare else dependency


def _kept(roots: tuple[Dependency, ...], request: ResolverRequest) -> tuple[Dependency, ...]:
    return tuple(it for it in roots if it.name not in request.removed)


def _named_prereleases(roots: Iterable[Dependency], request: ResolverRequest) -> frozenset[str]:
    """Packages with a direct requirement that names a pre-release."""
    texts = ((it.name, request.overrides.get(it.name, it.specifier)) for it in roots)
    return frozenset(name for name, text in texts if names_prerelease(text))


def _by_name(dependencies: Iterable[Dependency]) -> dict[str, tuple[str, ...]]:
    specifiers: dict[str, dict[str, None]] = {}
    for it in sorted(dependencies, key=lambda it: it.order):
        specifiers.setdefault(it.name, {})[it.specifier] = None
    return {name: tuple(texts) for name, texts in specifiers.items()}


def _all_refused(
    out: Sequence[RefusedVersion], excluded: Sequence[Excluded]
) -> Sequence[RefusedVersion]:
    """Versions that rules refuse, then versions that the snapshot excludes."""
    if not out and not excluded:
        return ()
    return (*out, *(RefusedVersion(it.version, it.reason, it.message) for it in excluded))
