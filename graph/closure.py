"""The closure of a request, layer by layer, each version made a candidate or told why not.

A layer is what the layers before it require and nobody has read. A package that is asked for
an extra after it was read is read again with all its extras, until nothing new is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from common.environments import Environment
from graph.candidates import Candidate, Dependency, Excluded
from graph.compilation import Compiler
from graph.queries.closure import PackageRecord, VersionRecord, Wanted

#: Answers a layer's question; :func:`graph.queries.closure.packages_of` within a transaction.
Read = Callable[[Sequence[Wanted]], Iterable[PackageRecord]]


@dataclass(slots=True)
class Closure:
    """What a walk found.

    :param candidates: of every package that has versions, newest first
    :param revisions: of every package, ``None`` for one without versions
    :param extras: asked of each package by the request or by a candidate
    :param layers: names of the packages that each question met first
    """

    candidates: dict[str, list[Candidate]] = field(default_factory=dict)
    excluded: dict[str, list[Excluded]] = field(default_factory=dict)
    revisions: dict[str, str | None] = field(default_factory=dict)
    extras: dict[str, set[str]] = field(default_factory=dict)
    layers: list[tuple[str, ...]] = field(default_factory=list)

    def ask(self, dependencies: Iterable[Dependency]) -> set[str]:
        """Note what ``dependencies`` ask for; packages that are to be read for it."""
        pending = set()
        for it in dependencies:
            if it.url is not None:
                continue
            asked = self.extras.get(it.name)
            if asked is None:
                self.extras[it.name] = set(it.extras)
            elif asked.issuperset(it.extras):
                continue
            else:
                asked.update(it.extras)
            pending.add(it.name)
        return pending


def walk(read: Read, roots: Iterable[Dependency], environment: Environment) -> Closure:
    """Follow ``roots`` to the end; the order of anything that is read does not matter."""
    closure, compiler = Closure(), Compiler(environment)
    pending = closure.ask(roots)
    while pending:
        names = sorted(pending)
        if first := tuple(name for name in names if name not in closure.revisions):
            closure.layers.append(first)
            closure.revisions.update(dict.fromkeys(first))
        required: set[Dependency] = set()
        # Read whole before anything is asked: an answer must not depend on its order.
        for package in list(read([(name, sorted(closure.extras[name])) for name in names])):
            required |= _add(closure, compiler, package)
        pending = closure.ask(required)
    return closure


def _add(closure: Closure, compiler: Compiler, package: PackageRecord) -> set[Dependency]:
    """Put a package in, or in its place again; what its candidates require."""
    name = package.name
    closure.revisions[name] = package.revision
    if not package.versions:
        return set()
    asked = sorted(closure.extras[name])
    records = (VersionRecord._make(version) for version in package.versions)
    candidates, excluded = compiler.compiled(name, records, asked)
    closure.candidates[name], closure.excluded[name] = candidates, excluded
    return {dependency for candidate in candidates for dependency in candidate.requires}
