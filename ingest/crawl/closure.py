"""The packages of a crawl: its request with bounds, and all that they require, layer by layer.

A requirement is followed unless its marker is false in every environment.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from model.packages.releases import Requirement

#: Minor versions of Python 3 with which a marker is evaluated.
_PYTHONS = tuple(f"3.{minor}" for minor in range(25))
#: Operators of PEP 508 that Python does not have.
_FOREIGN = re.compile(r"(?<=\s)(~=|===)(?=\s)")
_REPLACEMENTS = {"~=": "@", "===": "=="}

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
MAX_PACKAGES = 1_000
MAX_VERSIONS = 25


@lru_cache(maxsize=131_072)
def could_hold(marker: str | None, extra: str = "") -> bool:
    """Whether ``marker`` is true in some environment of Python 3.

    Only comparisons of the Python version and of the extra are evaluated; all others count as true.
    Markers have no negation. The only possible error is therefore to follow a requirement that is
    never needed.

    :param marker: canonical text, as :func:`model.packages.releases.parse_requirement` returns it
    :param extra: the requested extra, normalised; empty for none
    :returns: ``True`` also for a marker that cannot be parsed

    >>> could_hold('python_version < "3" and os_name == "nt"')
    False
    >>> could_hold('extra == "net" and os_name == "nt"'), could_hold('extra == "net"', "net")
    (False, True)
    """
    if marker is None:
        return True
    try:
        # With two operators replaced, a marker is a Python expression.
        expression = _FOREIGN.sub(lambda match: _REPLACEMENTS[match[0]], marker)
        tree = ast.parse(expression, mode="eval").body
        return any(_holds(tree, {"python": python, "extra": extra}) for python in _PYTHONS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _holds(node: ast.expr, environment: Mapping[str, str]) -> bool:
    if isinstance(node, ast.BoolOp):
        joined: Callable[..., bool] = all if isinstance(node.op, ast.And) else any
        return joined(_holds(value, environment) for value in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compares(node, environment)
    return True


def _compares(node: ast.Compare, environment: Mapping[str, str]) -> bool:
    left, right = node.left, node.comparators[0]
    operator = _OPERATORS.get(type(node.ops[0]))
    if isinstance(left, ast.Constant):
        left, right = right, left
        operator = _MIRRORED.get(operator or "", operator)
    if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant)):
        return True
    if left.id == "extra":
        same = environment["extra"] == canonicalize_name(str(right.value))
        return {"==": same, "!=": not same}.get(operator or "", True)
    if left.id in ("python_version", "python_full_version") and operator:
        return _python_compares(left.id, operator, environment["python"], str(right.value))
    return True


@lru_cache(maxsize=16_384)
def _python_compares(variable: str, operator: str, python: str, value: str) -> bool:
    """Whether the comparison with ``value`` is true for some release of this minor version."""
    releases = [python] if variable == "python_version" else [f"{python}.{n}" for n in range(30)]
    try:
        wanted = SpecifierSet(f"{operator}{value}")
    except InvalidSpecifier:
        return True
    return any(wanted.contains(release, prereleases=True) for release in releases)


@dataclass(frozen=True, slots=True)
class WantedPackage:
    """A package that a user or a requirement requests.

    :param specifier: canonical text, empty for any version
    :param extras: normalised
    """

    name: str
    specifier: str = ""
    extras: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The text of the requirement.

        >>> WantedPackage("torch", ">=2", frozenset({"opt"})).text
        'torch[opt]>=2'
        """
        return f"{self.name}[{','.join(sorted(self.extras))}]{self.specifier}".replace("[]", "")


@dataclass(slots=True)
class FollowedPackage:
    """A package of the closure.

    :param fresh: specifiers that were added after the last layer with this package
    """

    name: str
    specifiers: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    releases: dict[str, tuple[Requirement, ...]] = field(default_factory=dict)


class RequirementClosure:
    """The packages that some roots require, according to the releases known so far.

    An extra is followed when a requirement in the closure requests it. Circular requirements cause
    no endless loop, because a package is returned only once for each specifier.

    :param max_packages: further packages are only listed in :attr:`left_out`
    """

    def __init__(self, max_packages: int) -> None:
        self.followed: dict[str, FollowedPackage] = {}
        self.left_out: set[str] = set()
        self._max_packages = max_packages
        self._waiting: dict[str, list[WantedPackage]] = {}

    def want(self, wanted: Iterable[WantedPackage]) -> None:
        """Add packages; new packages and new specifiers are part of the next layer."""
        pending = list(wanted)
        while pending:
            package = pending.pop()
            followed = self.followed.get(package.name)
            if followed is None:
                self._waiting.setdefault(package.name, []).append(package)
            else:
                pending.extend(self._extend(followed, package))

    def learn(self, name: str, version: str, requirements: tuple[Requirement, ...]) -> None:
        """Add the requirements of a release of a followed package."""
        package = self.followed[name]
        package.releases[version] = requirements
        extras = {"", *package.extras}
        self.want(wanted for extra in sorted(extras) for wanted in _required(requirements, extra))

    def next_layer(self) -> list[FollowedPackage]:
        """Return the packages to read now, by name; empty if the closure is complete.

        A returned package is new or has new specifiers. The new specifiers are in
        :attr:`FollowedPackage.fresh`, which the caller clears.
        """
        room = self._max_packages - len(self.followed)
        names = sorted(self._waiting)
        self.left_out.update(names[room:])
        waiting, self._waiting = self._waiting, {}
        for name in names[:room]:
            self.followed[name] = FollowedPackage(name)
        self.want(it for name in names[:room] for it in waiting[name])
        return [self.followed[name] for name in sorted(self.followed) if self.followed[name].fresh]

    def _extend(self, package: FollowedPackage, wanted: WantedPackage) -> Iterator[WantedPackage]:
        if wanted.specifier not in package.specifiers:
            package.specifiers.add(wanted.specifier)
            package.fresh.add(wanted.specifier)
        for extra in sorted(wanted.extras - package.extras):
            package.extras.add(extra)
            for requirements in package.releases.values():
                yield from _required(requirements, extra)


def _required(requirements: Iterable[Requirement], extra: str) -> Iterator[WantedPackage]:
    """Yield the packages that these requirements request, with one extra or without extras.

    Direct references are left out, because no index serves them.
    """
    for requirement in requirements:
        if requirement.name is None or requirement.url is not None:
            continue
        if could_hold(requirement.marker, extra):
            extras = frozenset(requirement.extras)
            yield WantedPackage(requirement.name, requirement.specifier, extras)


@dataclass(frozen=True, slots=True)
class CrawlBounds:
    """Bounds of a crawl. Releases that a requirement needs are read even beyond these bounds.

    :param max_packages: limit for packages
    :param max_versions: limit for the newest releases of each package
    :param newer_than: releases uploaded earlier are not read; releases without upload time are
    :param prereleases: whether pre-releases are read even if there are stable releases
    """

    max_packages: int = MAX_PACKAGES
    max_versions: int = MAX_VERSIONS
    newer_than: datetime | None = None
    prereleases: bool = False


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """Packages to read with all their requirements, and known packages to refresh.

    :param roots: packages to start with
    :param bounds: bounds for roots and for packages that they require
    :param known: packages that the record has from this index; only their known releases and new
        releases on the index are followed
    :param own_bounds: bounds of single packages, by name
    :param max_age_s: cached pages up to this age are used without a request; by default
        ``INDEX_PAGE_AGE_S``
    :param again: whether releases are read again that were broken, failed or given up
    """

    roots: tuple[WantedPackage, ...]
    bounds: CrawlBounds = field(default_factory=CrawlBounds)
    known: frozenset[str] = frozenset()
    own_bounds: Mapping[str, CrawlBounds] = field(default_factory=dict)
    max_age_s: float | None = None
    again: bool = False

    def bounds_of(self, name: str) -> CrawlBounds | None:
        """Return the bounds of a package; ``None`` to read only new releases."""
        return self.own_bounds.get(name, None if name in self.known else self.bounds)
