"""One stack against itself: every claim of a difference between its jobs is false."""

import json
import math
import os
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from statistics import stdev
from typing import Any

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.samples import JobPlace, Sample, job_log_rate
from benchmarks.fresh_stores import THOTH
from model.measurements.job_stability import instability
from pis.amun.pinned_specifications import pinned_specification

REQUIREMENT = "numpy==2.3.5"
JOBS, ASSIGNMENTS, SEED = 20, 1000, 1


def main() -> None:
    """Run the jobs of two arms, assign them at random again and again, count verdicts."""
    print(f"{REQUIREMENT} twice, matmul 512 float32: {JOBS} jobs each, interleaved")
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        arms = _measured(Path(folder))
    differences = [ours - theirs for ours, theirs in zip(*arms, strict=True)]
    spread = math.expm1(stdev([rate for arm in arms for rate in arm]))
    print(f"  spread between jobs {spread:.1%}, of pairs' differences {stdev(differences):.1%}")
    draw = random.Random(SEED)
    _print_claims(
        "the arms of each pair", [_assigned_pairs(arms, draw) for _ in range(ASSIGNMENTS)]
    )
    _print_claims("two arms of unpaired jobs", [_assigned(arms, draw) for _ in range(ASSIGNMENTS)])
    _print_claims(
        "two arms of one night each", [_one_night(arms, draw) for _ in range(ASSIGNMENTS)]
    )


def _print_claims(what: str, verdicts: list[str]) -> None:
    false = sum(verdict in ("faster", "slower") for verdict in verdicts) / len(verdicts)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
    print(f"  {len(verdicts)} random assignments to {what}: {counts}; false claims {false:.1%}")


def _assigned_pairs(arms: list[list[float]], draw: random.Random) -> str:
    """The verdict after a random exchange of the two jobs of each pair."""
    pairs = [draw.sample(pair, 2) for pair in zip(*arms, strict=True)]
    places = tuple(JobPlace("host", str(number)) for number in range(len(pairs)))
    ours, theirs = (Sample("", arm, "key", places) for arm in zip(*pairs, strict=True))
    return compare_candidates(theirs, [ours])[0].verdict.value


def _assigned(arms: list[list[float]], draw: random.Random) -> str:
    jobs = [rate for arm in arms for rate in arm]
    draw.shuffle(jobs)
    half = len(jobs) // 2
    ours, theirs = (Sample("", tuple(arm), "key") for arm in (jobs[:half], jobs[half:]))
    return compare_candidates(theirs, [ours])[0].verdict.value


def _one_night(arms: list[list[float]], draw: random.Random) -> str:
    """As if each arm had run in a night of its own, 3 % apart from others."""
    nights = [draw.gauss(0, 0.03) for _ in arms]
    ours, theirs = (
        Sample(
            "",
            tuple(rate + night for rate in arm),
            "key",
            (JobPlace("host", None, "run"),) * len(arm),
        )
        for arm, night in zip(arms, nights, strict=True)
    )
    return compare_candidates(theirs, [ours])[0].verdict.value


def _measured(folder: Path) -> list[list[float]]:
    """Log rates of two arms, block by block; unstable pairs are left out by the rule."""
    specification = folder / "specification.json"
    specification.write_text(json.dumps(pinned_specification("matmul", [REQUIREMENT])))
    done = subprocess.run(
        [THOTH, "inspect", str(specification), str(specification), "--jobs", str(JOBS),
         "--out", str(folder / "out"), "--json"],
        env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    inspections = json.loads(done.stdout)["inspections"]
    arms = [[_job(Path(it["folder"]), number) for number in range(JOBS)] for it in inspections]
    stable = [pair for pair in zip(*arms, strict=True) if None not in pair]
    print(f"  {JOBS - len(stable)} of {JOBS} pairs left out as unstable")
    if len(stable) < 2:
        raise SystemExit("too few stable pairs: measure on a machine that does nothing else")
    return [list(arm) for arm in zip(*stable, strict=True)]


def _job(folder: Path, number: int) -> float | None:
    result: Any = json.loads((folder / "results" / str(number) / "result").read_bytes())
    repetitions_ms = result["stdout"]["@result"]["repetitions"]
    return None if instability(repetitions_ms) else -job_log_rate(repetitions_ms)
