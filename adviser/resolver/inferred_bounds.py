"""Upper bounds that a release does not declare, but that follow from other evidence.

*Retroactive bounds.* The newest release of a series limits a dependency for which an earlier
release of the series declares no upper bound: flask 1.1.4 requires ``jinja2<3``, and flask 1.1.2
does not work with jinja2 3 either. A series is all versions that differ only in the last part of
the release number, as in the criterion ``maintenance``.

*NumPy's binary interface.* NumPy 2 changed it. A wheel with compiled code that is older than the
first pre-release of NumPy 2 was built for NumPy 1, and cannot be imported with NumPy 2. Compiled
code of that age in a source distribution was written for the interface of NumPy 1.

If no stack meets all inferred bounds, the bounds of single packages do not count.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from packaging.specifiers import Specifier
from packaging.version import Version

from adviser.resolver.specifiers import specifier_set
from model.packages.candidates import Candidate, Dependency
from model.packages.environments import Environment
from model.packages.identity import Purl, series_of

#: Upload of numpy 2.0.0b1, the first pre-release of NumPy 2, by the package index
NUMPY_2_BEGAN = datetime(2024, 3, 12, tzinfo=UTC)

#: By Package URL: the requirements that are added to a version.
InferredBounds = Mapping[Purl, tuple[Dependency, ...]]


def inferred_bounds(
    packages: Mapping[str, Sequence[Candidate]], environment: Environment
) -> InferredBounds:
    """The inferred bounds of all versions that were read.

    :param packages: candidates by name, newest first
    """
    compiled = compiled_ranks(environment)
    bounds: dict[Purl, tuple[Dependency, ...]] = {}
    for candidates in packages.values():
        bounds.update(bounds_in(candidates, compiled))
    return bounds


def bounds_in(candidates: Sequence[Candidate], compiled: Container[int | None]) -> InferredBounds:
    """The inferred bounds of the versions of one package that were read.

    :param candidates: newest first
    :param compiled: see :func:`compiled_ranks`
    """
    bounds: dict[Purl, tuple[Dependency, ...]] = {}
    for head, candidate in _with_heads(candidates):
        added = dict.fromkeys([*_retroactive(head, candidate), *_numpy_1(candidate, compiled)])
        if added:
            bounds[candidate.purl] = tuple(added)
    return bounds


def with_bounds(candidates: Sequence[Candidate], bounds: InferredBounds) -> Sequence[Candidate]:
    """The candidates with their inferred bounds as further requirements."""
    if not any(it.purl in bounds for it in candidates):
        return candidates
    return tuple(
        replace(it, requires=(*it.requires, *bounds[it.purl])) if it.purl in bounds else it
        for it in candidates
    )


def head_of(candidates: Sequence[Candidate], wanted: Candidate) -> Candidate | None:
    """The newest release in a version's series on its index; ``None`` for that release itself."""
    for candidate in candidates:
        if candidate.purl == wanted.purl:
            return None
        same = candidate.index == wanted.index and series_of(candidate.version) == series_of(
            wanted.version
        )
        if same and not candidate.prerelease and not candidate.yanked:
            return candidate
    return None


def _with_heads(candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate | None, Candidate]]:
    """Each version that was read, preceded by the newest release of its series, if there is one."""
    heads: dict[tuple[str, tuple[int, ...]], Candidate] = {}
    for candidate in candidates:
        if not candidate.read and candidate.prerelease:
            continue
        key = candidate.index, series_of(candidate.version)
        head = heads.get(key)
        if head is None and not candidate.prerelease and not candidate.yanked:
            heads[key] = candidate
        if candidate.read:
            yield head, candidate


def _retroactive(head: Candidate | None, candidate: Candidate) -> Iterator[Dependency]:
    if (
        head is None
        or not head.read
        or not candidate.requires
        or candidate.requires == head.requires
    ):
        return
    limits = {key: limit for key, limit in _upper_bounds(head).items() if limit}
    if not limits:
        return
    bounded = _upper_bounds(candidate)
    required = {(dependency.name, dependency.extra) for dependency in candidate.requires}
    for (name, extra), limit in limits.items():
        if (name, extra) in required and (name, extra) not in bounded and name != candidate.name:
            reason = f"{candidate.name} {head.version} restricts {name} to {limit}; "
            reason += f"{candidate.version} declared no bound"
            yield Dependency(name, limit, extra=extra, reason=reason)


def _upper_bounds(candidate: Candidate) -> dict[tuple[str, str | None], str]:
    """Upper bounds by dependency and extra.

    A pin to one version counts as a bound, too. The text of this bound is empty, because a pin says
    nothing about other releases.
    """
    bounds: dict[tuple[str, str | None], list[str]] = {}
    for dependency in candidate.requires:
        if limits := _limits(dependency.specifier):
            bounds.setdefault((dependency.name, dependency.extra), []).extend(limits)
    return {key: ",".join(sorted(filter(None, texts))) for key, texts in bounds.items()}


@lru_cache(maxsize=65_536)
def _limits(text: str) -> tuple[str, ...]:
    """The upper bounds in a specifier; an empty text for a pin."""
    limits = map(_limit, specifier_set(text)) if text else ()
    return tuple(it for it in limits if it is not None)


def _limit(specifier: Specifier) -> str | None:
    if specifier.operator in ("<", "<="):
        return str(specifier)
    if specifier.operator == "~=":
        release = Version(specifier.version).release[:-1]
        return f"<{'.'.join(map(str, (*release[:-1], release[-1] + 1)))}"
    return "" if specifier.operator in ("==", "===") else None


def compiled_ranks(environment: Environment) -> frozenset[int]:
    """Ranks of wheel tags whose compiled code needs one binary interface of Python."""
    tags = enumerate(environment.tags)
    return frozenset(rank for rank, tag in tags if tag.abi != "none" and tag.platform != "any")


def _numpy_1(candidate: Candidate, compiled: Container[int | None]) -> Iterator[Dependency]:
    old = candidate.uploaded_at is not None and candidate.uploaded_at < NUMPY_2_BEGAN
    if not old or not (candidate.compiled or candidate.wheel_rank in compiled):
        return
    if ("numpy", None) in _upper_bounds(candidate):
        return
    if any(one.name == "numpy" and one.extra is None for one in candidate.requires):
        what = f"{candidate.name} {candidate.version}"
        made = "written" if candidate.compiled else "compiled"
        reason = f"{what} was {made} before NumPy 2, for the interface of NumPy 1"
        yield Dependency("numpy", "<2", reason=reason)
