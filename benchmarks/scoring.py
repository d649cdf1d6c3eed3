"""Scoring: what advice claims of identical stacks, what it finds, and how fast it is."""

from __future__ import annotations

import math
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from adviser.scoring.assess import assess
from adviser.scoring.assessments import Assessment
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.effects import Arms
from adviser.scoring.judging import Verdict, judge_pairs
from common.packages import package_version
from graph.evidence import Evidence
from graph.snapshot import Snapshot
from tests.factories.evidence import PLACE, Bench, series, simulated
from tests.factories.universes import snapshot_of, synthetic_index

REQUESTS, CANDIDATES, NOISE, SEED = 1000, 20, 0.03, 2026
PAIRS, ARMS = 1_000_000, 20_000
#: How much nights differ, and jobs of one night.
NIGHT, WITHIN = 0.03, 0.01

_NIGHTLY: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("10 jobs each in turns", 10, {"in_turns": True}),
    ("10 inspections of 3 jobs each", 3, {"runs": 10}),
)


def main() -> None:
    """The A/A gate, what is found, and the times."""
    print(f"{REQUESTS} requests, {CANDIDATES} candidates beside the baseline, {NOISE:.0%} noise")
    for jobs in (5, 10, 20):
        _gate(f"identical stacks, {jobs} jobs an arm", jobs, 0.0)
    print("  nights that differ by 3 %, jobs of one night by 1 %:")
    for stacks in (1, 2, 6, 21):
        _gate(f"one inspection of each of {stacks}", 10, 0.0, stacks, night=NIGHT)
    for what, jobs, how in _NIGHTLY:
        for gain in (0.0, 0.10):
            told = f"one of 21 truly {gain:.0%} faster" if gain else "21 identical stacks"
            _gate(f"{told}, {what}", jobs, gain, night=NIGHT, **how)
    print("  jobs that have nothing in common:")
    for gain, jobs in ((0.05, 10), (0.10, 5), (0.10, 10), (0.10, 20)):
        _gate(f"one truly {gain:.0%} faster, {jobs} jobs an arm", jobs, gain)
    _million()
    _large()


def _gate(what: str, jobs: int, gain: float, stacks: int = CANDIDATES + 1, **how: Any) -> None:
    draw = np.random.default_rng(SEED)
    claims, found, published, took = 0, 0, [], []
    first = package_version("fast", f"1.{stacks - 1}").purl
    noise = WITHIN if how else NOISE
    for _ in range(REQUESTS):
        gains = [math.log1p(gain)] if gain else []
        index, evidence = simulated(draw, stacks, jobs, noise, gains, **how)
        answer, seconds = _assessed(snapshot_of(index, ["fast"]), evidence)
        took.append(seconds)
        settled = [it for it in answer.claims if it.verdict in (Verdict.FASTER, Verdict.SLOWER)]
        claims += any(not gain or it.purl != first for it in settled)
        won = [it for it in settled if it.purl == first and it.verdict is Verdict.FASTER]
        found += bool(won)
        published += [it.effect_pct for it in won]
    told = f"  {what}: false claims in {claims / REQUESTS:.1%}"
    if gain:
        mean = f", {np.mean(published):.1f} % published on average" if published else ""
        told += f", the gain found in {found / REQUESTS:.1%}{mean}"
    print(f"{told}; {median(took) * 1e3:.1f} ms a request")


def _assessed(snapshot: Snapshot, evidence: Evidence) -> tuple[Assessment, float]:
    began = perf_counter()
    kind = RecommendationType.PERFORMANCE
    answer = assess(snapshot, evidence, kind, None, PLACE)
    return answer, perf_counter() - began


def _million() -> None:
    draw = np.random.default_rng(SEED)
    arms = Arms(draw.normal(0, NOISE, 10 * ARMS), np.full(ARMS, 10))
    ours, theirs = draw.integers(0, ARMS, (2, PAIRS))
    began = perf_counter()
    _, judged = judge_pairs(arms, ours, theirs, math.log1p(0.02))
    took = perf_counter() - began
    false = int((judged.verdicts > 1).sum())
    print(f"{PAIRS:,} pairs of {ARMS:,} identical arms: {took:.2f} s, {false} claims")


def _large() -> None:
    """A closure of 80 packages of 30 versions; hundreds of stacks, 10 jobs at each of 6 sizes."""
    index, roots = synthetic_index(80, 30)
    snapshot = snapshot_of(index, roots)
    draw, bench = np.random.default_rng(SEED), Bench()
    newest = {name: them[0].version for name, them in snapshot.packages.items()}
    sizes = [series(parameters={"size": size}) for size in (64, 128, 256, 512, 1024, 2048)]
    changes = [(name, it.version) for name, them in snapshot.packages.items() for it in them[:9]]
    for name, version in changes[:500]:
        stack = bench.stack(*(f"{key}=={it}" for key, it in {**newest, name: version}.items()))
        for size in sizes:
            bench.measure(stack, draw.normal(0, NOISE, 10), size)
    evidence = bench.evidence()
    times = [_assessed(snapshot, evidence)[1] for _ in range(5)]
    answer, _ = _assessed(snapshot, evidence)
    print(
        f"{snapshot.candidate_count:,} candidates, {len(evidence.stacks)} stacks,"
        f" {len(evidence.readings):,} readings: {len(answer.claims):,} claims in"
        f" {median(times) * 1e3:.0f} ms; {len(evidence.to_json()) / 1e6:.1f} MB as JSON"
    )
    idle = [_assessed(snapshot, Bench().evidence())[1] for _ in range(5)]
    print(f"  the same without any evidence: {median(idle) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
