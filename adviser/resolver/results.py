"""What the resolver answers: stacks in order, with their proof, or a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adviser.resolver.problem import ProblemSizes
from common.packages import Purl


class ResolutionStatus(StrEnum):
    """How an answer is to be taken; the value is stored, never renamed."""

    #: No stack scores better, and that is proven.
    OPTIMAL = "optimal"
    #: The budget is spent: the best stack so far, and how much better one may be at most.
    FEASIBLE = "feasible"
    #: No stack meets the request, and that is proven.
    INFEASIBLE = "infeasible"
    #: The budget is spent before any stack was found.
    UNKNOWN = "unknown"


class SearchLimit(StrEnum):
    """What ended a search before its proof."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Choice:
    """A version in a stack.

    :param place: how many usable versions of the package are newer
    :param contributions: to the score, by each criterion, as the universe has them
    :param extras: asked of it, sorted
    """

    name: str
    version: str
    purl: Purl
    place: int
    contributions: tuple[int, ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def score(self) -> int:
        """What it adds to that of its stack, never above 0."""
        return sum(self.contributions)


@dataclass(frozen=True, slots=True)
class ResolvedStack:
    """Versions that together meet a request, in name order; nothing that nobody requires.

    Stacks have one order, by ``score``, highest first; then by ``passed_over``, lowest first;
    then by the versions in name order: not there before there, newer before older. Two
    different stacks never tie.

    :param passed_over: how many newer usable versions it passes over
    """

    choices: tuple[Choice, ...]
    passed_over: int

    @property
    def score(self) -> int:
        """Of all its versions, never above 0: what is maximised, proven and shown."""
        return sum(it.score for it in self.choices)

    def versions(self) -> dict[str, str]:
        """Version by name."""
        return {it.name: it.version for it in self.choices}


@dataclass(frozen=True, slots=True)
class ConflictStep:
    """One of the facts of a conflict, none of which can be spared.

    :param kind: ``asked``, ``requires``, ``rule``, ``prerelease`` or ``yanked``
    :param name: the package that asks, or that the rule is about
    :param versions: of it that ask so, newest first; empty where the request does
    :param required: the package that is asked for
    :param specifier: what is asked of it; the text of a rule
    :param extras: asked with it
    :param extra: of the package that asks, which brings this; ``None`` if it always asks
    """

    kind: str
    name: str
    versions: tuple[str, ...]
    required: str | None
    specifier: str
    message: str
    extras: tuple[str, ...] = ()
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class VersionExplanation:
    """Why versions of a package are out: those that one reason holds for.

    :param step: number of the step, from 1, that rules them out; ``None`` where the package
        index or the environment does
    """

    name: str
    versions: tuple[str, ...]
    step: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A smallest set of facts that cannot hold together: without any one of them, they can.

    :param steps: from what is asked to where it ends
    :param accounts: of every version of each package that the steps speak of
    :param minimal: ``False`` if the time to find a smallest set was spent
    """

    steps: tuple[ConflictStep, ...]
    accounts: tuple[VersionExplanation, ...]
    minimal: bool = True

    def lines(self) -> list[str]:
        """For a person: the chain, numbered, then why each version is out that no step names."""
        told = [f"{number}. {step.message}" for number, step in enumerate(self.steps, 1)]
        for account in self.accounts:
            if not self._says(account):
                told.append(f"   {account.name} {spans(account.versions)}: {account.message}")
        if not self.minimal:
            told.append("   that nothing meets the request is proven; which of it was not in time")
        return told

    def _says(self, account: VersionExplanation) -> bool:
        """Whether a step names these versions as those that require what cannot be had."""
        step = None if account.step is None else self.steps[account.step - 1]
        return (
            step is not None
            and step.name == account.name
            and step.required not in (None, account.name)
            and set(account.versions) <= set(step.versions)
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolver's answer.

    :param stacks: best first, all different; empty unless optimal or feasible
    :param objective: score of the first stack
    :param bound: no stack has a higher score than this; equal to ``objective`` if optimal
    :param settled: whether the order of ``stacks`` is proven to the last tie, so that every
        run gives the same; an optimal answer may lack that if its time ran out. Without a stack,
        whether its conflict is a smallest one
    :param complete: whether there are no further stacks, where fewer were found than wanted
    :param limit: what ended the search early
    :param model: digest of the problem that was solved
    :param solver: what proved it, with its version
    """

    status: ResolutionStatus
    stacks: tuple[ResolvedStack, ...] = ()
    objective: int | None = None
    bound: int | None = None
    settled: bool = False
    complete: bool = False
    conflict: Conflict | None = None
    limit: SearchLimit | None = None
    sizes: ProblemSizes | None = None
    model: str = ""
    solver: str = ""
    wall_s: float = 0.0

    @property
    def gap(self) -> int | None:
        """How much better a stack may be at most, in units of the score."""
        if self.objective is None or self.bound is None:
            return None
        return self.bound - self.objective


def spans(versions: tuple[str, ...]) -> str:
    """Versions in short; they are neighbours, newest first.

    >>> spans(("3.0", "2.1", "2.0")), spans(("1.0",))
    ('3.0 to 2.0 (3 versions)', '1.0')
    """
    if len(versions) < 3:
        return " and ".join(versions)
    return f"{versions[0]} to {versions[-1]} ({len(versions)} versions)"
