"""Scoring: how fast evidence becomes an assessment. ``false_claims`` judges claims."""

import math
from statistics import median
from time import perf_counter

import numpy as np

from adviser.scoring.assess import assess
from adviser.scoring.assessment_types import Assessment
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.effects import Arms, welch_effects
from adviser.scoring.verdicts import judge
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot
from tests.factories.evidence import PLACE, Bench, series, simulated
from tests.factories.universes import snapshot_of, synthetic_index

NOISE, SEED = 0.03, 2026
EFFECTS = 1_000_000


def main() -> None:
    """The times of a small request, of a large one, and of judging alone."""
    _small()
    _million()
    _large()


def _small() -> None:
    draw, took = np.random.default_rng(SEED), []
    for _ in range(20):
        index, evidence = simulated(draw, 21, 10, NOISE, night=NOISE, in_turns=True)
        took.append(_assessed(snapshot_of(index, ["fast"]), evidence)[1])
    print(f"21 versions of a package, 10 jobs each in turns: {median(took) * 1e3:.0f} ms a request")


def _assessed(snapshot: Snapshot, evidence: Evidence) -> tuple[Assessment, float]:
    began = perf_counter()
    kind = RecommendationType.PERFORMANCE
    answer = assess(snapshot, evidence, kind, None, PLACE)
    return answer, perf_counter() - began


def _million() -> None:
    """Pairs of identical arms of 10 jobs."""
    draw = np.random.default_rng(SEED)
    arms = Arms(draw.normal(0, NOISE, 200_000), np.full(20_000, 10)).moments()
    pairs = draw.integers(0, 20_000, (2, EFFECTS))
    began = perf_counter()
    effects = welch_effects(arms.taken(pairs[0]), arms.taken(pairs[1]))
    judged = judge(effects, np.ones(EFFECTS, dtype=np.bool_), math.log1p(0.02))
    took = perf_counter() - began
    print(f"{EFFECTS:,} pairs of arms compared as one family: {took:.2f} s,"
          f" {int((judged.verdicts > 1).sum())} claims")  # fmt: skip


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
