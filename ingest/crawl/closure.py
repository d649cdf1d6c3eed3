"""What a crawl has to look at next: names, extras and specifiers, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from common.releases import Requirement
from ingest.crawl.markers import could_hold


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package that something asks for.

    :param specifier: canonical text, empty for any version
    :param extras: normalised
    """

    name: str
    specifier: str = ""
    extras: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """As a person writes it.

        >>> Wanted("torch", ">=2", frozenset({"opt"})).text
        'torch[opt]>=2'
        """
        return f"{self.name}[{','.join(sorted(self.extras))}]{self.specifier}".replace("[]", "")


@dataclass(slots=True)
class Followed:
    """A package of the closure.

    :param fresh: specifiers met since it was handed out last
    """

    name: str
    depth: int
    specifiers: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    releases: dict[str, tuple[Requirement, ...]] = field(default_factory=dict)


class Closure:
    """The packages that some roots need, as far as their releases are known.

    Extras are followed when somebody in the closure asks for them, however late; circular
    ones end, as nothing is handed out twice for the same reason.

    :param max_packages: names beyond are only remembered, in :attr:`left_out`
    """

    def __init__(self, max_packages: int) -> None:
        self.followed: dict[str, Followed] = {}
        self.left_out: set[str] = set()
        self._max_packages = max_packages
        self._waiting: dict[str, list[Wanted]] = {}
        self._depth = 0

    def want(self, wanted: Iterable[Wanted]) -> None:
        """Ask for packages; what this brings about is handed out with the next layer."""
        pending = list(wanted)
        while pending:
            asked = pending.pop()
            known = self.followed.get(asked.name)
            if known is None:
                self._waiting.setdefault(asked.name, []).append(asked)
            else:
                pending.extend(self._ask(known, asked))

    def learn(self, name: str, version: str, requirements: tuple[Requirement, ...]) -> None:
        """Take in what a release of a followed package requires."""
        package = self.followed[name]
        package.releases[version] = requirements
        extras = {"", *package.extras}
        self.want(wanted for extra in sorted(extras) for wanted in _asks(requirements, extra))

    def next_layer(self) -> list[Followed]:
        """The packages to look at now, in name order; empty when the closure is whole.

        They are new, or were looked at before and have specifiers in :attr:`Followed.fresh`,
        which the caller clears.
        """
        room = self._max_packages - len(self.followed)
        names = sorted(self._waiting)
        self.left_out.update(names[room:])
        waiting, self._waiting = self._waiting, {}
        for name in names[:room]:
            self.followed[name] = Followed(name, self._depth)
        self._depth += 1
        self.want(it for name in names[:room] for it in waiting[name])
        return [self.followed[name] for name in sorted(self.followed) if self.followed[name].fresh]

    def _ask(self, package: Followed, asked: Wanted) -> Iterator[Wanted]:
        if asked.specifier not in package.specifiers:
            package.specifiers.add(asked.specifier)
            package.fresh.add(asked.specifier)
        for extra in sorted(asked.extras - package.extras):
            package.extras.add(extra)
            for requirements in package.releases.values():
                yield from _asks(requirements, extra)


def _asks(requirements: Iterable[Requirement], extra: str) -> Iterator[Wanted]:
    """What these lines ask for, with one extra or with none.

    A direct reference leads to no index.
    """
    for line in requirements:
        if line.name is None or line.url is not None:
            continue
        if could_hold(line.marker, extra):
            yield Wanted(line.name, line.specifier, frozenset(line.extras))
