"""Results of the resolver: stacks, best first, with their proof, or a conflict."""

from dataclasses import dataclass
from enum import StrEnum
from operator import sub

from adviser.resolver.problem import ProblemSizes
from model.packages.identity import Purl


class ResolutionStatus(StrEnum):
    """Outcome of a search. The values are stored; never rename them."""

    #: Proven: no stack scores better.
    OPTIMAL = "optimal"
    #: A limit was reached: the best stack so far, with a bound on how much better one can be.
    FEASIBLE = "feasible"
    #: Proven: no stack meets the request.
    INFEASIBLE = "infeasible"
    #: A limit was reached before any stack was found.
    UNKNOWN = "unknown"


class SearchLimit(StrEnum):
    """The limit that ended a search before its proof."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Choice:
    """A version in a stack.

    :param place: number of newer usable versions of the package
    :param contributions: contribution to the score by criterion, as in the universe
    :param extras: required extras, sorted
    """

    name: str
    version: str
    purl: Purl
    place: int
    contributions: tuple[int, ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def score(self) -> int:
        """Sum of the contributions, at most 0."""
        return sum(self.contributions)


@dataclass(frozen=True, slots=True)
class ResolvedStack:
    """Versions that together meet a request, in name order, without superfluous packages.

    Stacks are ordered by ``levels``, highest first, and then by ``uninvited`` and by
    ``passed_over``, lowest first. Remaining ties are broken package by package in name order:
    absent before present, newer before older. Two different stacks never tie.

    :param passed_over: number of newer usable versions that it passes over
    :param levels: the score by level, each at most 0 (:mod:`adviser.resolver.objective`): what is
        maximised and proven
    :param uninvited: number of versions that only a requirement of another package admits: yanked
        versions and pre-releases
    """

    choices: tuple[Choice, ...]
    passed_over: int
    levels: tuple[int, ...] = ()
    uninvited: int = 0

    @property
    def score(self) -> int:
        """Sum of all contributions, at most 0. Stacks are ordered by ``levels``, not by this."""
        return sum(it.score for it in self.choices)

    def versions(self) -> dict[str, str]:
        """Version by package name."""
        return {it.name: it.version for it in self.choices}


class FactKind(StrEnum):
    """Kinds of facts. The values are stored; never rename them."""

    ASKED = "asked"
    REQUIRES = "requires"
    RULE = "rule"
    PRERELEASE = "prerelease"
    YANKED = "yanked"


@dataclass(frozen=True, slots=True)
class ConflictStep:
    """One fact of a conflict.

    :param name: the package that requires something, or that the rule is about
    :param versions: its versions that require it, newest first; empty for the request itself
    :param required: the required package
    :param specifier: the required specifier, or the text of a rule
    :param extras: the required extras
    :param extra: extra of ``name`` that has this requirement; ``None`` if it always holds
    """

    kind: FactKind
    name: str
    versions: tuple[str, ...]
    required: str | None
    specifier: str
    message: str
    extras: tuple[str, ...] = ()
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class VersionExplanation:
    """Why versions of a package cannot be chosen: neighbouring versions with the same reason.

    :param step: number, from 1, of the step that rules them out; ``None`` if the package index
        or the environment does
    """

    name: str
    versions: tuple[str, ...]
    step: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A minimal set of facts that contradict each other; without any one, the rest do not.

    :param steps: the facts as a chain, starting at the request
    :param accounts: explanations for every version of the packages that the steps name
    :param minimal: ``False`` if time ran out before a minimal set was found
    """

    steps: tuple[ConflictStep, ...]
    accounts: tuple[VersionExplanation, ...]
    minimal: bool = True

    @property
    def names(self) -> frozenset[str]:
        """Names of the packages that the steps are about."""
        return frozenset(name for it in self.steps for name in (it.name, it.required) if name)

    def lines(self) -> list[str]:
        """Text for a person: the numbered chain, then the versions that no step explains."""
        texts = [f"{number}. {step.message}" for number, step in enumerate(self.steps, 1)]
        for account in self.accounts:
            if not self._says(account):
                texts.append(f"   {account.name} {spans(account.versions)}: {account.message}")
        if not self.minimal:
            texts.append(
                "   it is proven that nothing meets the request;"
                " there was no time to find the smallest reason (--time-limit allows more time)"
            )
        return texts

    def _says(self, account: VersionExplanation) -> bool:
        """Whether a step already names these versions as the versions with the requirement."""
        step = None if account.step is None else self.steps[account.step - 1]
        return (
            step is not None
            and step.name == account.name
            and step.required not in (None, account.name)
            and set(account.versions) <= set(step.versions)
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """Result of the resolver.

    :param stacks: best first, all different; empty unless optimal or feasible
    :param objective: score of the first stack by level
    :param bound: upper bound of the score by level, compared level after level; equals
        ``objective`` if optimal
    :param settled: whether the order of ``stacks`` is proven, ties included, so that every run
        gives the same stacks; an optimal result may lack this proof if time ran out. Without a
        stack: whether the conflict is minimal
    :param complete: whether no further stacks exist, if fewer than requested were found
    :param limit: the limit that ended the search early
    :param model: digest of the problem that was solved
    :param solver: name and version of the solver that proved it
    """

    status: ResolutionStatus
    stacks: tuple[ResolvedStack, ...] = ()
    objective: tuple[int, ...] | None = None
    bound: tuple[int, ...] | None = None
    settled: bool = False
    complete: bool = False
    conflict: Conflict | None = None
    limit: SearchLimit | None = None
    sizes: ProblemSizes | None = None
    model: str = ""
    solver: str = ""
    wall_s: float = 0.0

    @property
    def gap(self) -> tuple[int, ...] | None:
        """Differences between bound and objective by level.

        The first difference other than 0 is positive. It limits how much better any other stack can
        be in this level if it is equal in all earlier levels.
        """
        if self.objective is None or self.bound is None:
            return None
        return tuple(map(sub, self.bound, self.objective))


def spans(versions: tuple[str, ...]) -> str:
    """Short text for neighbouring versions, given newest first.

    >>> spans(("3.0", "2.1", "2.0")), spans(("1.0",))
    ('3.0 to 2.0 (3 versions)', '1.0')
    """
    if len(versions) < 3:
        return " and ".join(versions)
    return f"{versions[0]} to {versions[-1]} ({len(versions)} versions)"
