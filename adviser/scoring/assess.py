"""From a snapshot and the evidence to what the resolver maximises, and to what people are told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from packaging.version import InvalidVersion, Version

from adviser.scoring.assessments import Assessment, Standing
from adviser.scoring.circumstances import Circumstances
from adviser.scoring.contrasts import Stacks
from adviser.scoring.coverage import Coverages
from adviser.scoring.criteria import Criterion, RecommendationType, criteria_of
from adviser.scoring.harms import AllowList, refusal, security_value
from adviser.scoring.notes import notes_of, request_notes
from adviser.scoring.performance import performance_of, performance_order
from adviser.scoring.releases import release_values
from common.packages import Purl
from graph.candidates import Candidate
from graph.evidence import Evidence
from graph.snapshot import Snapshot


def assess(
    snapshot: Snapshot,
    evidence: Evidence,
    kind: RecommendationType,
    baseline: Mapping[str, str] | None,
    asked: Circumstances,
    *,
    allowed: Collection[str] = (),
    choosable: Mapping[str, Collection[Purl]] | None = None,
) -> Assessment:
    """What the evidence says of every candidate of ``snapshot``.

    Nothing looks at a clock or at an order of input, so equal arguments give equal answers.

    :param baseline: version by name of the stack to compare with, the user's own or the
        newest feasible one; ``None`` for the newest version of each package
    :param asked: the hardware class and the Python that the stack is to run on
    :param allowed: identifiers of vulnerabilities that are accepted, in any of their aliases
    :param choosable: by name, the versions that the request can have; only these make others
        lose by performance; all candidates by default
    """
    stacks = Stacks(evidence)
    base, lost = _baseline(snapshot, baseline)
    versions = {name: [it.purl for it in them] for name, them in snapshot.packages.items()}
    measured = performance_of(evidence, stacks, base, versions, asked)
    allow_list = AllowList(allowed, evidence.vulnerabilities)
    criteria = criteria_of(kind)
    harmful = dict(_refused(snapshot, allow_list))
    refused = harmful if kind.refuses_vulnerable else {}
    standings = performance_order(
        measured.differences,
        base,
        versions,
        {
            name: [it for it in them if it not in refused]
            for name, them in (versions if choosable is None else choosable).items()
        },
    )
    coverages = Coverages(snapshot, evidence, stacks, asked)
    covered = coverages.of(frozenset(base.values()))
    return Assessment(
        scores=_scores(snapshot, evidence, kind, criteria, allow_list, harmful, standings),
        criteria=criteria,
        claims=measured.claims,
        comparisons=measured.comparisons,
        standings=standings,
        refused=refused,
        baseline=base,
        coverage=covered,
        justifications=request_notes(covered.missing, covered.unsolvable, lost, measured.claims),
        coverage_of=coverages.of,
        notes=notes_of(
            snapshot, measured.claims, evidence.vulnerabilities, allow_list, evidence.as_of
        ),
    )


def _baseline(
    snapshot: Snapshot, given: Mapping[str, str] | None
) -> tuple[dict[str, Purl], list[str]]:
    """The baseline's candidates by name, and what of it is no candidate.

    What was not given is its newest version that nobody has to ask for by name.
    """
    found: dict[str, Purl] = {}
    lost = []
    for name, candidates in snapshot.packages.items():
        if given is None:
            if (newest := _newest(candidates)) is not None:
                found[name] = newest.purl
        elif name in given:
            same = next((it for it in candidates if _same(it.version, given[name])), None)
            if same is None:
                lost.append(f"{name}=={given[name]}")
            else:
                found[name] = same.purl
    return found, lost


def _newest(candidates: Sequence[Candidate]) -> Candidate | None:
    plain = (it for it in candidates if not it.yanked and not it.prerelease)
    return next(plain, candidates[0] if candidates else None)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return False


def _scores(
    snapshot: Snapshot,
    evidence: Evidence,
    kind: RecommendationType,
    criteria: Sequence[Criterion],
    allow_list: AllowList,
    harmful: Collection[Purl],
    standings: Mapping[Purl, Standing],
) -> dict[Purl, tuple[int, ...]]:
    scores = {}
    for candidates in snapshot.packages.values():
        told = release_values(
            candidates, evidence.as_of, prereleases=kind.admits_prereleases, harmful=harmful
        )
        for it, released in told:
            values = {
                **released,
                "security": security_value(allow_list.held_against(it)),
                "performance": -standings[it.purl].loss if it.purl in standings else 0.0,
            }
            scores[it.purl] = tuple(line.contribution(values[line.name]) for line in criteria)
    return scores


def _refused(snapshot: Snapshot, allow_list: AllowList) -> Iterator[tuple[Purl, str]]:
    for candidates in snapshot.packages.values():
        for it in candidates:
            if it.vulnerabilities and (words := refusal(allow_list.held_against(it))):
                yield it.purl, words
