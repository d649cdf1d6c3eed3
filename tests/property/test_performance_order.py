"""Versions in the order of what is settled between them, and in no other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from adviser.advise import Advice
from adviser.reports.version_rationale import VersionRationales
from adviser.scoring.criteria import RecommendationType
from graph.evidence import Evidence
from tests.factories.evidence import Bench, purl
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index


def index_of(versions: list[str]) -> Index:
    """All of one age, so that nothing but newness and performance tells them apart."""
    return {"fast": {it: {"uploaded_at": "2024-01-01T00:00:00+00:00"} for it in versions}}


def advice_on(
    versions: list[str],
    evidence: Evidence,
    lock: str | None = None,
    requirement: str = "fast",
    **options: Any,
) -> Advice:
    files = {"requirements.in": f"{requirement}\n"}
    if lock is not None:
        files["requirements.txt"] = f"fast=={lock}\n"
    request = request_for(kind=RecommendationType.PERFORMANCE, files=files, **options)
    return advice_for(request, index_of(versions), evidence)


def chosen(advice: Advice) -> str:
    assert advice.best is not None
    return advice.best.versions()["fast"]


def drawn(seed: int, spread: float) -> tuple[list[str], Evidence]:
    """Three to eight versions, oldest first, of which most are measured.

    :param spread: standard deviation of their true speeds, natural log
    """
    draw = np.random.default_rng(seed)
    versions = [f"1.{n}" for n in range(draw.integers(3, 9))]
    noise, jobs = draw.uniform(0.005, 0.05), int(draw.integers(5, 13))
    bench = Bench()
    for version in versions:
        speed = draw.normal(0, spread)
        rates = draw.normal(speed, noise, jobs)
        if draw.random() < 0.8:
            bench.measure(bench.stack(f"fast=={version}"), rates)
    return versions, bench.evidence()


def reasons_against(advice: Advice, version: str) -> list[str]:
    """Why claims, read one by one, put a version behind some other one that can be chosen."""
    baseline = advice.assessment.baseline["fast"]
    ours = purl(f"fast=={version}")
    faster = {
        (it.purl, it.baseline_purl) if it.bound > 0 else (it.baseline_purl, it.purl)
        for it in advice.assessment.claims
        if it.bound
    }
    measured = {
        one for it in advice.assessment.claims if it.tested for one in (it.purl, it.baseline_purl)
    }
    reasons = [f"slower than {one}" for one, other in faster if other == ours]
    if ours not in measured:
        reasons += [f"not measured, as {one}" for one, other in faster if other == baseline]
    return reasons


@pytest.mark.parametrize("spread", [0.0, 0.03, 0.1])
def test_an_older_version_is_advised_only_where_each_newer_one_is_settled_to_be_behind(
    spread: float,
) -> None:
    older = 0
    for seed in range(60):
        versions, evidence = drawn(seed, spread)
        for lock in (None, versions[0], versions[-1]):
            advice = advice_on(versions, evidence, lock)
            place = versions.index(chosen(advice))
            older += place < len(versions) - 1
            for newer in versions[place + 1 :]:
                assert reasons_against(advice, newer), (seed, lock, newer)
            ahead = [
                it for it in versions if purl(f"fast=={it}") not in advice.assessment.standings
            ]
            assert chosen(advice) == max(ahead, key=versions.index)
    assert older >= (30 if spread else 0), "so that something is tested"


def test_what_settles_nothing_is_advised_alike_with_every_lock() -> None:
    """Identical versions whose observed differences are as large as their noise allows."""
    settled = set()
    for seed in range(25):
        versions, evidence = drawn(1000 + seed, 0.0)
        for lock in (None, *versions):
            advice = advice_on(versions, evidence, lock)
            if advice.assessment.standings:
                settled.add(seed)
            else:
                assert chosen(advice) == versions[-1], (seed, lock)
    # Two of a hundred answers may be wrong: three or more of twenty-five in 1 % of all cases.
    assert len(settled) <= 2


VERSIONS = ["2.0.2", "2.3.5", "2.4.6"]


def three_versions(newest: float) -> Evidence:
    """2.3.5 is 25 % faster than 2.0.2; the newest one varies by six times as much."""
    bench = Bench()
    for version, level, noise in zip(
        VERSIONS, (0.0, math.log(1.25), newest), (1, 1, 6), strict=True
    ):
        steps = 0.01 * noise * np.linspace(-1, 1, 8)
        bench.measure(bench.stack(f"fast=={version}"), level + steps)
    return bench.evidence()


@pytest.mark.parametrize("lock", [None, *VERSIONS])
@pytest.mark.parametrize("newest", [0.19, 0.22, 0.25])
def test_a_newer_version_that_is_not_settled_apart_from_the_fastest_is_advised(
    lock: str | None, newest: float
) -> None:
    advice = advice_on(VERSIONS, three_versions(newest), lock)
    assert chosen(advice) == "2.4.6"
    claims = {(it.purl, it.baseline_purl): it for it in advice.assessment.claims}
    if lock == "2.0.2":
        assert claims[purl("fast==2.3.5"), purl("fast==2.0.2")].bound > 0
    assert claims.get((purl("fast==2.4.6"), purl("fast==2.3.5"))) is None or lock == "2.3.5"
    assert purl("fast==2.0.2") in advice.assessment.standings
    assert purl("fast==2.3.5") not in advice.assessment.standings


@pytest.mark.parametrize("lock", [None, *VERSIONS])
def test_a_newer_version_that_is_settled_slower_than_the_fastest_is_not_advised(
    lock: str | None,
) -> None:
    advice = advice_on(VERSIONS, three_versions(0.0), lock)
    assert chosen(advice) == "2.3.5"
    assert advice.best is not None
    rationales = VersionRationales(advice.universe, advice.best, advice.assessment)
    message = rationales.rationale(advice.best.choices[0]).message
    assert message.startswith("2.3.5 is 2")
    assert message.endswith("% faster than 2.4.6 in PiMatmul")
    assert "worse" not in message


@pytest.mark.parametrize("lock", [None, "1.2", "1.3"])
def test_a_version_that_a_constraint_excludes_makes_no_other_version_lose(
    lock: str | None,
) -> None:
    bench = Bench()
    for version, level in (("1.1", 0.5), ("1.2", 0.0), ("1.3", 0.0)):
        bench.measure(bench.stack(f"fast=={version}"), level + 0.01 * np.linspace(-1, 1, 8))
    versions = ["1.1", "1.2", "1.3"]
    free = advice_on(versions, bench.evidence(), lock)
    assert chosen(free) == "1.1"
    assert set(free.assessment.standings) == {purl("fast==1.2"), purl("fast==1.3")}
    bound = advice_on(versions, bench.evidence(), lock, "fast>=1.2")
    assert chosen(bound) == "1.3"
    assert bound.assessment.standings == {}
