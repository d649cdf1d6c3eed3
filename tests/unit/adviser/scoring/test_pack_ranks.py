"""Whose evidence decides: own jobs, then packs of trusted keys that were measured here."""

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adviser.answering.lock_comparison import guard_document
from adviser.guard import GuardOutcome, GuardResult, guard
from adviser.guard_findings import GuardGroup, findings_of
from adviser.reports.record_links import links_in
from adviser.reports.version_rationale import reason_against
from adviser.scoring.assess import assess
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.performance import Performance, performance_of
from adviser.scoring.stack_pairs import MeasuredStacks
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import Evidence, EvidencePack
from tests.factories.evidence import ELSEWHERE, HERE, NOW, PLACE, Bench, purl, series
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

VERSIONS = [f"fast=={n}" for n in range(1, 6)]
LAB = EvidencePack("sha256:" + "1" * 64, "lab", "sha256:key", sessions=2)
RIVAL = replace(LAB, digest="sha256:" + "2" * 64, name="rival")
UNKNOWN = replace(LAB, problem="nobody signed it")


def site(
    pack: EvidencePack | None = None,
    gain: float = 0.0,
    *,
    sd: float = 0.01,
    sessions: int = 2,
    drift: float = 0.0,
    hardware: str = HERE,
    seed: int = 1,
    versions: Iterable[str] = VERSIONS,
    jobs: int = 7,
) -> Evidence:
    """Jobs in turns of some versions, of which the last has a gain (natural log).

    :param drift: additional gain in the last session
    """
    draw, bench = np.random.default_rng(seed), Bench()
    how = series(hardware=hardware, origin=pack.digest if pack else None)
    for release in versions:
        stack = bench.stack(release, "rest==1")
        level = gain if release == VERSIONS[-1] else 0.0
        for session in range(sessions):
            last = session == sessions - 1 and release == VERSIONS[-1]
            rates = draw.normal(level + drift * last, sd, jobs)
            name = f"{how.origin or 'own'}{session}"
            blocks = [f"{name}:{turn}" for turn in range(jobs)]
            begin = NOW + timedelta(days=session)
            bench.measure(stack, rates, how, run=name, blocks=blocks, begin=begin)
    return bench.evidence(packs=() if pack is None else (pack,))


def judged(own: Evidence, *packs: Evidence) -> Performance:
    evidence = own.with_packs(packs)
    measured = MeasuredStacks(snapshot_of({}, []), evidence)
    base = {"fast": purl(VERSIONS[0]), "rest": purl("rest==1")}
    versions = {"fast": [*map(purl, VERSIONS)], "rest": [purl("rest==1")]}
    return performance_of(evidence, measured, base, versions, PLACE)


def verdicts(found: Performance) -> dict[tuple[str | None, str], Verdict]:
    """By pack and version."""
    return {
        (it.origin and it.origin.name, it.purl or ""): it.verdict
        for it in found.claims
        if it.beside_baseline
    }


NOTHING, LAST = Bench().evidence(), purl(VERSIONS[-1])


def test_trusted_pack_settles_what_own_jobs_leave_open() -> None:
    found = judged(NOTHING, site(LAB, 0.3))
    assert verdicts(found)["lab", LAST] is Verdict.FASTER
    assert not found.shown
    (claim,) = (it for it in found.claims if it.purl == LAST and it.beside_baseline)
    assert claim.scored
    assert claim.batches == 2
    assert "measured by others: pack lab" in ClaimTexts([claim]).justification(claim).message
    # Too few own jobs take nothing away from it.
    few = judged(site(versions=VERSIONS[::4], sessions=1, jobs=3), site(LAB, 0.3))
    assert verdicts(few)["lab", LAST] is Verdict.FASTER


@pytest.mark.parametrize(
    ("pack", "problem"),
    [
        (site(UNKNOWN, 0.3), "nobody signed it"),
        (site(replace(LAB, indicators=("Other",)), 0.3), "the policy does not trust"),
        (site(replace(LAB, hardware=(ELSEWHERE,)), 0.3), "the policy does not trust"),
        (site(LAB, 0.3, hardware=ELSEWHERE), "other hardware"),
    ],
)
def test_untrusted_pack_is_shown_with_the_reason_but_settles_nothing(
    pack: Evidence, problem: str
) -> None:
    found = judged(NOTHING, pack)
    assert not found.claims
    assert found.comparisons == 0
    (claim,) = (it for it in found.shown if it.purl == LAST and it.beside_baseline)
    assert claim.origin is not None
    assert problem in str(claim.origin.problem)
    assert (claim.scored, claim.bound) == (False, 0.0)
    message = ClaimTexts([claim]).justification(claim).message
    assert f"which decides nothing: {claim.origin.problem}" in message


def test_pack_on_another_hardware_class_has_a_wider_interval() -> None:
    (here,), (there,) = (
        [it for it in (*found.claims, *found.shown) if it.purl == LAST and it.beside_baseline]
        for found in (judged(NOTHING, site(LAB, 0.3, hardware=it)) for it in (HERE, ELSEWHERE))
    )
    assert there.interval_low_pct < here.interval_low_pct - 10
    assert there.observed_pct == here.observed_pct


@pytest.mark.parametrize(
    ("pack", "evidence"),
    [
        (LAB, {"sessions": 1, "jobs": 14}),
        (replace(LAB, min_sessions=3), {}),
        (replace(LAB, min_jobs=15), {}),
    ],
)
def test_pack_with_too_few_sessions_or_jobs_settles_nothing(
    pack: EvidencePack, evidence: dict[str, int]
) -> None:
    found = judged(NOTHING, site(pack, 0.3, **evidence))
    assert set(verdicts(found).values()) == {Verdict.UNDETERMINED}
    assert found.comparisons == 0


def test_pack_of_two_documents_from_one_session_settles_nothing() -> None:
    twice = site(LAB, 0.3)
    same = tuple(replace(it, session="boot and day") for it in twice.readings)
    assert judged(NOTHING, replace(twice, readings=same)).comparisons == 0


def test_own_jobs_overrule_packs_and_state_which_they_confirm() -> None:
    pack = site(LAB, 0.3)
    for gain, names in ((0.3, ("confirms", "overrules")), (-0.3, ("overrules", "confirms"))):
        found = judged(site(gain=gain, seed=2), pack)
        (own,) = (it for it in found.claims if it.purl == LAST and it.beside_baseline)
        assert own.origin is None
        assert [getattr(own, it) for it in names] == [("lab",), ()]
        assert f"{names[0]} pack lab" in ClaimTexts([own]).justification(own).message
        (passed,) = (it for it in found.shown if it.purl == LAST and it.beside_baseline)
        assert passed.origin is not None
        assert passed.origin.problem == "own jobs decide"


def test_packs_that_disagree_settle_nothing() -> None:
    found = judged(NOTHING, site(LAB, 0.3), site(RIVAL, -0.3))
    assert LAST not in {it.purl for it in found.claims if it.beside_baseline}
    assert {it.origin.problem for it in found.shown if it.origin} == {"packs disagree"}


DISHONEST = {
    "an invented gain": {"gain": math.log(1.3)},
    "an invented loss": {"gain": math.log(0.7)},
    "a session that drifts": {"drift": 0.1},
    "too little variance": {"gain": 0.03, "sd": 1e-6},
}


@pytest.mark.parametrize("kind", DISHONEST)
@pytest.mark.parametrize("seed", range(3))
def test_forged_pack_does_not_change_verdicts_of_own_measurements(kind: str, seed: int) -> None:
    own = site(gain=math.log(1.1), sd=0.03, seed=seed)
    alone = judged(own)
    shown = judged(own, site(UNKNOWN, **DISHONEST[kind]))
    assert (shown.claims, shown.shares) == (alone.claims, alone.shares)
    trusted = judged(own, site(LAB, **DISHONEST[kind]))
    ours = {key: it for key, it in verdicts(trusted).items() if key[0] is None}
    # The pack takes a fifth of α, whatever it contains.
    assert all(it in (verdicts(alone)[key], Verdict.UNDETERMINED) for key, it in ours.items())
    bounds = zip(
        [it for it in trusted.claims if it.origin is None and it.beside_baseline],
        [it for it in alone.claims if it.beside_baseline],
        strict=True,
    )
    assert all(ours.p_value <= 1.25 * it.p_value + 1e-12 for ours, it in bounds)
    honest = judged(own, site(RIVAL, seed=9))
    beside = judged(own, site(RIVAL, seed=9), site(LAB, **DISHONEST[kind]))
    rival = {key: it for key, it in verdicts(honest).items() if key[0] == "rival"}
    assert all(
        verdicts(beside).get(key, Verdict.UNDETERMINED) in (it, Verdict.UNDETERMINED)
        for key, it in rival.items()
    )


def chosen(*evidence: Evidence) -> str | None:
    """The preferred version of ``fast``, the newest of which is 5."""
    index = {"fast": {str(n): {"requires": ["rest"]} for n in range(1, 6)}, "rest": {"1": {}}}
    own, *packs = evidence
    snapshot = snapshot_of(index, ["fast"])
    assessment = assess(snapshot, own.with_packs(packs), RecommendationType.BEST, None, PLACE)
    choice = assessment.choices.get("fast")
    return choice and choice.preferred


def test_version_choice_follows_only_trusted_packs_that_agree() -> None:
    slow = math.log(0.7)
    assert chosen(NOTHING, site(LAB, slow)) == purl("fast==4")
    assert chosen(NOTHING, site(UNKNOWN, slow)) is None
    assert chosen(NOTHING, site(LAB, slow), site(RIVAL, -slow)) is None
    # Own jobs know that all are equal.
    equal = site(sd=0.001, seed=3)
    assert chosen(equal, site(LAB, slow)) == chosen(equal) == purl("fast==5")


def test_claims_from_packs_are_not_stored_in_the_record() -> None:
    result = {"report": {"products": [], "stack_info": []}}
    # The record does not have their stacks.
    assert links_in(result, judged(NOTHING, site(LAB, 0.3)).claims).claims == ()
    assert links_in(result, judged(site(gain=0.3), site(LAB, 0.3)).claims).claims


def test_guard_reports_a_slowdown_from_a_trusted_pack_only() -> None:
    index: Index = {"fast": {str(n): {} for n in range(1, 6)}, "rest": {"1": {}}}
    snapshot = snapshot_of(index, ["fast", "rest"])

    def guarded(own: Evidence, *packs: Evidence) -> GuardResult:
        old, new = ({"fast": it, "rest": "1"} for it in "15")
        return guard(old, new, snapshot, own.with_packs(packs), ENVIRONMENT, HERE)

    slow = math.log(0.7)
    trusted = guarded(NOTHING, site(LAB, slow))
    assert trusted.outcome is GuardOutcome.HARM
    (finding,) = (it for it in findings_of(trusted) if it.group is GuardGroup.SLOWER)
    assert finding.known_by == "measured by others"
    assert "pack lab" in finding.line
    for pack in (site(UNKNOWN, slow), site(LAB, slow, hardware=ELSEWHERE)):
        shown = guarded(NOTHING, pack)
        assert (shown.outcome, shown.comparisons) == (guarded(NOTHING).outcome, 0)
        (finding,) = (it for it in findings_of(shown) if it.group is GuardGroup.SHOWN)
        assert not finding.settled_difference
        (claim,) = guard_document(shown)["shown"]
        assert claim["origin"]["name"] == "lab"
    # Own jobs of the whole lock or of the package decide, whatever the pack says.
    own = guarded(site(gain=0.0, sd=0.001), site(LAB, slow))
    assert (own.outcome, own.slower, own.undetermined) == (GuardOutcome.NO_HARM, (), ())
    assert [it.overrules for it in own.claims] == [("lab",)]
    assert "origin" not in guard_document(own)["claims"][0]
    # Own jobs that settle nothing leave it to the pack, and nothing is missing.
    few = guarded(site(versions=VERSIONS[::4], sessions=1, jobs=5, sd=0.2), site(LAB, -slow))
    assert (few.outcome, few.missing) == (GuardOutcome.NO_HARM, ())


def test_reason_of_a_choice_names_the_pack_that_decided() -> None:
    index = {"fast": {it: {"requires": ["rest"]} for it in "15"}, "rest": {"1": {}}}
    evidence = NOTHING.with_packs([site(LAB, math.log(0.7))])
    assessment = assess(
        snapshot_of(index, ["fast"]), evidence, RecommendationType.BEST, {"fast": "1"}, PLACE
    )
    assert "measured by others: pack lab" in reason_against(assessment, LAST)
    assert not assessment.choices["fast"].own
