"""Dependency Monkey: stacks per second and memory on recorded closures, and jobs to a verdict.

The second table plants known differences among 20 versions of a package, the reference included,
and counts the jobs until all are settled: versions drawn at random, and the strategy
``informative``. A claim is false if the true difference is within δ or has the other sign.
"""

import gzip
import resource
import time
from itertools import islice
from statistics import fmean, median
from typing import Any

import orjson

from adviser.monkey.strategies import GenerationOptions, StackGenerator, Strategy
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_stack
from adviser.resolver.resolver_request import ResolverRequest
from benchmarks.resolver import CLOSURES
from benchmarks.sample_data import REAL_DUMP, SAMPLE_PACKAGES
from tests.factories.planted_versions import PlantedVersions, searched
from tests.factories.universes import dump_index, newest_scores, snapshot_of

#: Stacks per second of processor time.
GOALS = {"a": 1_000, "d": 200}
STACKS = 5_000
CHECKED = 100
REPETITIONS, SEED = 500, 160401
PLANTED = {
    "three gains of 10 %": PlantedVersions((0.1,) * 3 + (0.0,) * 16),
    "gains of 8, 10 and 12 %": PlantedVersions((0.08, 0.1, 0.12) + (0.0,) * 16),
    "three losses of 10 %": PlantedVersions((-0.1,) * 3 + (0.0,) * 16),
    "three gains of 10 %, others 1 %": PlantedVersions((0.1,) * 3 + (0.01, -0.01) * 8),
    "no difference": PlantedVersions((0.0,) * 19),
}


def main() -> None:
    """Measure and print; takes some seconds."""
    if REAL_DUMP.exists():
        index = dump_index(REAL_DUMP)
        for label, goal in GOALS.items():
            _measure(index, CLOSURES[label], goal)
    else:
        print(f"no dump at {REAL_DUMP}: only the samples")
    _measure(_samples(), ("flask",), GOALS["a"])
    search_planted()


def search_planted(repetitions: int = REPETITIONS) -> None:
    """Print jobs and false claims of both strategies on planted truths; takes minutes."""
    print(f"{repetitions} searches a row, jobs vary by 5 %, drift of 2 % a turn, nights of 5 turns")
    for name, truth in PLANTED.items():
        means = []
        for informative in (False, True):
            outcomes = searched(truth, repetitions, SEED, informative=informative)
            jobs = [it.jobs for it in outcomes]
            means.append(fmean(jobs))
            settled = fmean(it.settled == len(truth.planted) for it in outcomes)
            false = fmean(it.false > 0 for it in outcomes)
            stopped = fmean(it.stopped for it in outcomes)
            print(
                f"{name}, {'informative' if informative else 'random'}: all settled in"
                f" {settled:.1%}, false claims in {false:.1%}, {fmean(jobs):.0f} jobs (median"
                f" {median(jobs):.0f}), {fmean(it.all_jobs for it in outcomes):.0f} until the end,"
                f" nothing else worth measuring in {stopped:.0%}",
                flush=True,
            )
        if truth.planted:
            print(f"  jobs of informative: {means[1] / means[0]:.0%} of random (goal at most 50 %)")


def _samples() -> dict[str, dict[str, Any]]:
    index: dict[str, dict[str, Any]] = {}
    with gzip.open(SAMPLE_PACKAGES) as lines:
        for line in lines:
            release = orjson.loads(line)
            index.setdefault(release["name"], {})[release["version"]] = {
                "requires": release["requires_dist"],
                "extras": release["provides_extra"],
                "yanked": release["yanked"],
            }
    return index


def _measure(index: dict[str, Any], roots: tuple[str, ...], goal: int) -> None:
    snapshot = snapshot_of(index, roots)
    universe = universe_of(snapshot, ResolverRequest(), newest_scores(snapshot))
    for strategy in Strategy:
        began = time.process_time()
        generator = StackGenerator(universe, GenerationOptions(strategy, None, seed=1))
        stacks, seen = generator.stacks(), set[tuple[tuple[str, str], ...]]()
        checked = list(islice(stacks, CHECKED))
        before = _peak_mib()
        seen.update(tuple(it.pins.items()) for it in checked)
        count = len(checked)
        for stack in islice(stacks, STACKS - CHECKED):
            seen.add(tuple(stack.pins.items()))
            count += 1
        rate = count / (time.process_time() - began)
        assert len(seen) == count
        assert all(check_stack(generator.universe, it.stack) == [] for it in checked)
        print(
            f"{' + '.join(roots)}, {strategy.value}: {count} distinct stacks, {rate:,.0f}/s"
            f" (goal {goal:,}), {generator.space.states} states,"
            f" peak memory +{_peak_mib() - before:.0f} MiB with the list of stacks"
        )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
