"""Versions are chosen by what is likely: planted speeds, and laws that hold for all of them."""

import math
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from adviser.advise import Advice, advise
from adviser.guard import GuardOutcome, guard
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from model.packages.candidates import KnownVulnerability
from tests.effort import examples
from tests.factories.evidence import Bench, jobs, purl
from tests.factories.requests import advice_for, request_for, snapshot_for
from tests.factories.speeds import (
    SpeedDesign,
    advice_by_speed,
    chosen_place,
    measured_speeds,
    planted_speeds,
)
from tests.factories.universes import Index

#: By number of versions: largest mean regret, per cent, and smallest share of the fastest version.
#: Both leave room for three standard errors of the number of answers that `make test` simulates.
BOUNDS: dict[str, tuple[float, float]] = {
    "all equal": (0.1, 0.95),
    "an old one 10 % faster": (3.2, 0.7),
    "the newest 10 % slower": (0.8, 0.9),
    "10 % slower step by step": (2.0, 0.0),
    "8 % slower from the middle on": (0.9, 0.85),
    "an old one 20, the newest 8 % faster": (1.0, 0.9),
}


@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("name", BOUNDS)
def test_advised_version_is_nearly_as_fast_as_the_fastest(name: str, count: int) -> None:
    speeds = dict(planted_speeds(count))[name]
    draw = np.random.default_rng(count)
    chosen = [
        chosen_place(advice_by_speed(measured_speeds(draw, speeds), count + 1))
        for _ in range(max(40, examples(400)))
    ]
    regret, fastest = BOUNDS[name]
    assert 100 * fmean(max(speeds) - speeds[it] for it in chosen) <= regret
    assert fmean(speeds[it] >= max(speeds) - 1e-9 for it in chosen) >= fastest
    if name == "all equal":
        assert fmean(it == count for it in chosen) >= 0.95
    if name.startswith("an old one 10"):
        assert fmean(it not in (1, count) for it in chosen) <= 0.05


def drawn_speeds(seed: int) -> tuple[list[float], Evidence]:
    """Three to eight versions; half of the draws have versions that truly differ."""
    draw = np.random.default_rng(seed)
    spread = 0.06 if seed % 2 else 0.0
    speeds = list(draw.normal(0, spread, draw.integers(3, 9)))
    noise, turns = draw.uniform(0.005, 0.05), int(draw.integers(5, 13))
    return speeds, measured_speeds(draw, speeds, SpeedDesign(noise=noise, turns=turns))


@pytest.mark.parametrize("kind", [RecommendationType.BEST, RecommendationType.LATEST])
def test_guard_never_reports_harm_in_the_advised_stack(kind: RecommendationType) -> None:
    for seed in range(max(20, examples(200))):
        speeds, evidence = drawn_speeds(seed)
        for lock in (0, len(speeds) // 2, len(speeds) - 1):
            advice = advice_by_speed(evidence, len(speeds), lock, kind=kind)
            assert guarded(advice) is not GuardOutcome.HARM, (seed, lock)


def guarded(advice: Advice) -> GuardOutcome:
    locked, request = advice.request.locked, advice.request
    assert locked is not None
    return guard(
        locked, advice.best.versions(), advice.snapshot, advice.evidence, request.environment,
        request.hardware,
    ).outcome  # fmt: skip


def test_existing_lock_changes_the_advice_only_to_avoid_harm() -> None:
    for seed in range(max(20, examples(200))):
        speeds, evidence = drawn_speeds(seed)
        without = chosen_place(advice_by_speed(evidence, len(speeds), None))
        for lock in range(len(speeds)):
            advice = advice_by_speed(evidence, len(speeds), lock)
            if not advice.premises.slower:
                assert chosen_place(advice) == without, (seed, lock)


def test_package_names_and_job_order_do_not_change_the_chosen_version() -> None:
    for seed in range(max(10, examples(80))):
        speeds, _ = drawn_speeds(seed)
        chosen = set()
        for name in ("fast", "aaa", "zzz"):
            evidence = measured_speeds(np.random.default_rng(seed), speeds, name=name)
            for readings in (evidence.readings, evidence.readings[::-1]):
                shuffled = replace(evidence, readings=readings)
                advice = advice_by_speed(shuffled, len(speeds), name=name)
                chosen.add(chosen_place(advice, name))
        assert len(chosen) == 1, seed


def frames(*more: str) -> Bench:
    """Two measured versions of ``frames``, the newer one three times slower."""
    bench = Bench()
    bench.measure(bench.stack("frames==2.2.3", "zone==1", *more), jobs(math.log(3.0)))
    bench.measure(bench.stack("frames==3.1.1", *more, *(["zone==1"] if more else [])), jobs())
    return bench


#: ``frames`` 3 no longer requires ``zone``; 3.2 was never measured.
FRAMES: Index = {
    "frames": {"3.2.0": {}, "3.1.1": {}, "3.0.6": {}, "2.2.3": {"requires": ["zone"]}},
    "zone": {"1": {}},
    "kept": {"1": {"requires": ["zone"]}},
}


@pytest.mark.parametrize("requirements", ["frames\n", "frames\nkept\n"])
@pytest.mark.parametrize("locked", [True, False])
def test_measured_version_is_kept_although_newer_versions_are_unmeasured(
    requirements: str, locked: bool
) -> None:
    keeps = "kept" in requirements
    files = {"requirements.in": requirements}
    if locked:
        kept = "kept==1\n" if keeps else ""
        files["requirements.txt"] = f"frames==2.2.3\nzone==1\n{kept}"
    request = request_for(kind=RecommendationType.BEST, files=files)
    evidence = frames("kept==1").evidence() if keeps else frames().evidence()
    advice = advice_for(request, FRAMES, evidence)
    assert advice.best.versions()["frames"] == "2.2.3"
    assert set(advice.assessment.unmeasured["frames"]) == {
        purl("frames==3.2.0"), purl("frames==3.0.6")
    }  # fmt: skip
    # The reason can be explained, whatever the baseline is.
    assert advice.assessment.claims_of({purl("frames==2.2.3")})


def test_version_change_and_the_changes_it_requires_are_scored_as_one() -> None:
    request = request_for(files={"requirements.in": "frames\n"})
    (claim,) = advice_for(request, FRAMES, frames().evidence()).assessment.claims
    assert (claim.package, claim.differs, claim.scored) == ("frames", ("frames", "zone"), True)


def contexts(companion: str = "ctx") -> Bench:
    """``fast`` 2 is 10 % faster beside one version of its companion and slower beside the other."""
    bench = Bench()
    for context, gain in (("1", 0.1), ("2", -0.1)):
        for version, level in (("1", 0.0), ("2", gain)):
            stack = bench.stack(f"fast=={version}", f"{companion}=={context}")
            bench.measure(stack, jobs(level - 0.05 * (context == "2"), 12))
    return bench


@pytest.mark.parametrize("companion", ["ctx", "aaa", "zzz"])
@pytest.mark.parametrize("order", ["fast\n{}\n", "{}\nfast\n"])
@pytest.mark.parametrize("locked", [True, False])
def test_disagreeing_measurements_in_different_stacks_are_named(
    companion: str, order: str, locked: bool
) -> None:
    index: Index = {"fast": {"2": {}, "1": {}}, companion: {"2": {}, "1": {}}}
    files = {"requirements.in": order.format(companion)}
    if locked:
        files["requirements.txt"] = f"fast==1\n{companion}==1\n"
    request = request_for(kind=RecommendationType.BEST, files=files)
    advice = advice_for(request, index, contexts(companion).evidence())
    assert advice.assessment.choices["fast"].interacting == (purl("fast==2"),)
    assert advice.best.versions() == {"fast": "2", companion: "1"}
    assert not locked or guarded(advice) is not GuardOutcome.HARM


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("safe", ["0", "2"])
def test_faster_version_does_not_outweigh_a_vulnerability(locked: bool, safe: str) -> None:
    """``helper`` 1 is vulnerable, and what the fast version requires."""
    index: Index = {
        "fast": {"2": {"requires": ["helper==1"]}, "1": {"requires": [f"helper=={safe}"]}},
        "helper": {safe: {}, "1": {}},
    }
    bench = Bench()
    for version, helper, level in (("1", safe, 0.0), ("2", "1", 0.1)):
        bench.measure(bench.stack(f"fast=={version}", f"helper=={helper}"), jobs(level, 12))
    files = {"requirements.in": "fast\n"}
    if locked:
        files["requirements.txt"] = f"fast==1\nhelper=={safe}\n"
    for allowed, version in ((frozenset[str](), "1"), (frozenset({"CVE-2026-1"}), "2")):
        options: dict[str, Any] = {"allowed_vulnerabilities": allowed}
        request = request_for(kind=RecommendationType.BEST, files=files, **options)
        advice = advice_with_harm(request, index, bench.evidence())
        assert advice.best.versions()["fast"] == version


def advice_with_harm(request: Any, index: Index, evidence: Evidence) -> Advice:
    """Advice where ``helper`` 1 has a critical vulnerability."""
    snapshot = snapshot_for(request, index)
    harm = KnownVulnerability("CVE-2026-1", "critical", 9.8)
    helpers = tuple(
        replace(it, vulnerabilities=(harm,)) if it.version == "1" else it
        for it in snapshot.packages["helper"]
    )
    packages = {**snapshot.packages, "helper": helpers}
    return advise(request, replace(snapshot, packages=packages), evidence)


def test_best_type_advises_the_latest_versions_without_measurements() -> None:
    for index in ("web\ntool\n", "web\n", "core\nweb\n"):
        best, latest = (
            advice_for(request_for(index, kind=kind))
            for kind in (RecommendationType.BEST, RecommendationType.LATEST)
        )
        assert best.best.versions() == latest.best.versions()
