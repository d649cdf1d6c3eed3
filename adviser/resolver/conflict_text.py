"""Texts of a conflict: the chain of facts, and why each version cannot be chosen."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from adviser.resolver.admission import NOT_ON
from adviser.resolver.results import Conflict, ConflictStep, FactKind, VersionExplanation, spans
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import RefusedVersion, RequestRule, Universe
from model.packages.candidates import Candidate, Dependency, newest_first


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a conflict: a requirement, a rule of the request, or a property of a version.

    :param source: the requiring package, or the reason of a rule; empty for the request
    :param name: the package that it is about
    :param text: specifier of a requirement, text of a rule, or a version
    """

    kind: FactKind
    source: str
    name: str
    text: str
    extras: tuple[str, ...] = ()
    extra: str | None = None
    url: str | None = None

    @property
    def asks(self) -> bool:
        """Whether the fact is a requirement on a package."""
        return self.kind in (FactKind.ASKED, FactKind.REQUIRES)

    @property
    def wanted(self) -> str:
        """``name[extra]>=1``."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras}" + (f" @ {self.url}" if self.url else self.text)


#: For versions that no single fact rules out: in a minimal conflict, and in any other.
_FITS = "fits, but every choice of the other packages conflicts with it"
_UNKNOWN = "there was no time to find out why it cannot be chosen"


def described_conflict(universe: Universe, facts: Sequence[Fact], minimal: bool) -> Conflict:
    """Describe contradicting facts as a chain that starts at the request."""
    ordered = _chain(facts)
    names = dict.fromkeys(fact.name for fact in ordered)
    left = _FITS if minimal else _UNKNOWN
    accounts = [it for name in names for it in _accounts(universe, name, ordered, left)]
    return Conflict(tuple(_step(universe, it) for it in ordered), tuple(accounts), minimal)


def conflict_of_roots(universe: Universe) -> Conflict:
    """The requirements of the request, if time or memory did not suffice to find the conflict."""
    return described_conflict(universe, facts_of_roots(universe), minimal=False)


def facts_of_roots(universe: Universe) -> list[Fact]:
    """The requirements of the request as facts, in canonical order."""
    roots = sorted(universe.roots, key=lambda it: it.order)
    return [Fact(FactKind.ASKED, "", it.name, universe.specifier_of(it), it.extras) for it in roots]


def _chain(facts: Sequence[Fact]) -> list[Fact]:
    """Order facts breadth first from the request; rules follow where their package appears."""
    left, ordered = list(facts), list[Fact]()
    pending: deque[str] = deque([""])
    met = {""}
    while pending:
        source = pending.popleft()
        for fact in [it for it in left if _belongs(it, source)]:
            left.remove(fact)
            ordered.append(fact)
            if fact.name not in met:
                met.add(fact.name)
                pending.append(fact.name)
    return ordered + left


def _belongs(fact: Fact, source: str) -> bool:
    return fact.source == source if fact.asks else fact.name == source


def _step(universe: Universe, fact: Fact) -> ConflictStep:
    versions = _askers(universe, fact) if fact.kind is FactKind.REQUIRES else ()
    return ConflictStep(
        fact.kind,
        fact.source if fact.kind is FactKind.REQUIRES else fact.name,
        versions,
        fact.name if fact.asks else None,
        fact.text,
        _message(universe, fact, versions),
        fact.extras,
        fact.extra,
    )


def _message(universe: Universe, fact: Fact, versions: tuple[str, ...]) -> str:
    match fact.kind:
        case FactKind.ASKED:
            over = " (overridden)" if fact.name in universe.overrides else ""
            return f"you ask for {fact.wanted}{over}" + _unknown(universe, fact)
        case FactKind.REQUIRES:
            by = f"[{fact.extra}]" if fact.extra else ""
            reasons = _reasons(universe, fact)
            verb = "need" if reasons else "require"
            what = f"{fact.source}{by} {spans(versions)} {verb}{'s' * (len(versions) == 1)}"
            what += f" {fact.wanted}"
            if reasons:
                what += f" ({spans(tuple(reasons))}: {next(iter(reasons.values()))})"
            return what + _unknown(universe, fact)
        case FactKind.PRERELEASE:
            return f"{fact.name} {fact.text} is a pre-release, and nothing asks for one"
        case FactKind.YANKED:
            return f"{fact.name} {fact.text} is yanked, and nothing pins it exactly"
        case FactKind.RULE if fact.text.startswith(NOT_ON):
            return f"{fact.text.removeprefix(NOT_ON)} is not used for {fact.name}"
        case FactKind.RULE:
            return _RULES[RequestRule(fact.source)].format(name=fact.name, text=fact.text)


_RULES = {
    RequestRule.CONSTRAINT: "a constraint of the request says {text}",
    RequestRule.EXCLUSION: "the request excludes {text}",
    RequestRule.PUBLISHED: "the request accepts only versions of {name} that were {text}",
    RequestRule.OTHER_INDEX: "{name} comes {text}",
    RequestRule.POLICY: "a rule of the request refuses versions of {name}",
    RequestRule.ONLY_WHEELS: "the request accepts only versions of {name} {text}",
}


def _unknown(universe: Universe, fact: Fact) -> str:
    name = fact.name
    if universe.packages.get(name) or universe.refused.get(name) or name in universe.unlisted:
        return ""
    absence = universe.absent.get(name)
    return f"; no version of {name} is known" if absence is None else f", and {absence}"


def _requirements(universe: Universe, name: str) -> Iterator[tuple[Candidate, Dependency]]:
    for candidate in _candidates(universe, name):
        for it in candidate.requires:
            yield candidate, it


def _candidates(universe: Universe, name: str) -> list[Candidate]:
    refused = (it.candidate for it in universe.refused.get(name, ()) if it.candidate)
    return newest_first([*universe.packages.get(name, ()), *refused])


def _askers(universe: Universe, fact: Fact) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            candidate.version
            for candidate, it in _requirements(universe, fact.source)
            if _states(universe, it, fact)
        )
    )


def _reasons(universe: Universe, fact: Fact) -> dict[str, str]:
    """Reasons by version for requirements that the version does not declare in this form."""
    return {
        candidate.version: it.reason
        for candidate, it in _requirements(universe, fact.source)
        if it.reason and _states(universe, it, fact)
    }


def _states(universe: Universe, dependency: Dependency, fact: Fact) -> bool:
    required = (
        dependency.name,
        universe.specifier_of(dependency),
        dependency.extras,
        dependency.extra,
        dependency.url,
    )
    return required == (fact.name, fact.text, fact.extras, fact.extra, fact.url)


def _accounts(
    universe: Universe, name: str, facts: Sequence[Fact], left: str
) -> Iterator[VersionExplanation]:
    """Why each version of a package cannot be chosen; neighbours with the same reason are grouped.

    :param left: text for versions that no fact rules out
    """
    versions = _all_versions(universe, name)
    reasons = [(version, *_why(universe, version, facts, left)) for version in versions]
    for (step, why), group in groupby(reasons, key=lambda it: it[1:]):
        alike = [it[0] for it in group]
        message = why
        if step is not None:
            when = _when(alike) if _is_about_time(facts[step - 1]) else ""
            message = f"{why}{when} (step {step})"
        yield VersionExplanation(name, tuple(it.version for it in alike), step, message)


def _is_about_time(fact: Fact) -> bool:
    return fact.kind is FactKind.RULE and fact.source == RequestRule.PUBLISHED


def _when(versions: Iterable[Candidate | RefusedVersion]) -> str:
    """`` but on 2026-01-21``, or a range of dates; empty if unknown."""
    known = (it.candidate if isinstance(it, RefusedVersion) else it for it in versions)
    days = sorted({f"{it.uploaded_at:%Y-%m-%d}" for it in known if it and it.uploaded_at})
    if len(days) < 2:
        return "".join(f" but on {it}" for it in days)
    return f" but from {days[0]} to {days[-1]}"


def _all_versions(universe: Universe, name: str) -> list[Candidate | RefusedVersion]:
    """Usable and refused versions, newest first, then versions that the snapshot excludes."""
    usable: list[Candidate | RefusedVersion] = [*universe.packages.get(name, ())]
    order = {it.purl: at for at, it in enumerate(_candidates(universe, name))}
    ruled: list[Candidate | RefusedVersion] = []
    rest: list[Candidate | RefusedVersion] = []
    for it in universe.refused.get(name, ()):
        (ruled if it.candidate else rest).append(it)

    def place(version: Candidate | RefusedVersion) -> int:
        candidate = version.candidate if isinstance(version, RefusedVersion) else version
        return order[candidate.purl] if candidate else len(order)

    return [*sorted([*usable, *ruled], key=place), *rest]


def _why(
    universe: Universe, version: Candidate | RefusedVersion, facts: Sequence[Fact], left: str
) -> tuple[int | None, str]:
    candidate = version.candidate if isinstance(version, RefusedVersion) else version
    if candidate is None:
        return None, version.message if isinstance(version, RefusedVersion) else ""
    for number, fact in enumerate(facts, 1):
        if why := _ruled_out(universe, version, candidate, fact):
            return number, why
    return None, left


def _ruled_out(
    universe: Universe, version: Candidate | RefusedVersion, candidate: Candidate, fact: Fact
) -> str | None:
    requires = fact.kind is FactKind.REQUIRES and fact.source == candidate.name
    if requires and any(_states(universe, needed, fact) for needed in candidate.requires):
        verb = "needs" if candidate.version in _reasons(universe, fact) else "requires"
        return f"{verb} {fact.wanted}"
    return _barred(version, candidate, fact) if fact.name == candidate.name else None


def _barred(version: Candidate | RefusedVersion, candidate: Candidate, fact: Fact) -> str | None:
    """Why a fact about a package rules out a version; ``None`` if it does not."""
    if fact.kind is FactKind.RULE:
        rule = (fact.source, fact.text)
        if not isinstance(version, RefusedVersion) or (version.reason, version.rule) != rule:
            return None
        dated = _is_about_time(fact) and candidate.uploaded_at is not None
        return f"not {fact.text}" if dated else version.message
    if fact.kind in (FactKind.PRERELEASE, FactKind.YANKED):
        return (
            f"{fact.kind.value}, and nothing asks for it"
            if candidate.version == fact.text
            else None
        )
    if fact.url is None and not admits(fact.text, candidate.version):
        return f"outside {fact.name}{fact.text}"
    return None
