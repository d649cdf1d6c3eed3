"""Planted speeds of the versions of one package, and the evidence that ten turns give of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adviser.advise import Advice
from adviser.scoring.criteria import RecommendationType
from graph.evidence import Evidence
from tests.factories.evidence import Bench
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index

#: Log speeds of versions, oldest first; the first one is the reference.
Speeds = Sequence[float]


def planted_speeds(count: int) -> Iterator[tuple[str, Speeds]]:
    """Named speeds of ``count`` versions beside the reference."""

    def with_speeds(speeds: dict[int, float]) -> list[float]:
        values = [0.0] * (count + 1)
        for place, ratio in speeds.items():
            values[place] = math.log(ratio)
        return values

    half = range((count + 1) // 2, count + 1)
    yield "all equal", with_speeds({})
    yield "an old one 10 % faster", with_speeds({1: 1.1})
    yield "one in the middle 5 % faster", with_speeds({count // 2: 1.05})
    yield "the newest 10 % slower", with_speeds({count: 0.9})
    yield "two old ones 10 and 9 % faster", with_speeds({1: 1.1, 2: 1.09})
    yield "10 % faster step by step", list(np.linspace(0, math.log(1.1), count + 1))
    yield "10 % slower step by step", list(np.linspace(0, math.log(0.9), count + 1))
    yield "8 % faster from the middle on", with_speeds(dict.fromkeys(half, 1.08))
    yield "8 % slower from the middle on", with_speeds(dict.fromkeys(half, 0.92))
    yield "the reference 10 % slower", with_speeds(dict.fromkeys(range(1, count + 1), 1.1))
    yield "an old one 20, the newest 8 % faster", with_speeds({1: 1.2, count: 1.08})


def measured_speeds(
    draw: np.random.Generator,
    speeds: Speeds,
    *,
    turns: int = 10,
    noise: float = 0.05,
    reference_jobs: int | None = None,
    name: str = "fast",
    companion: str = "rest==1.0",
) -> Evidence:
    """Evidence from turns in which each version ran once, and the reference more often.

    :param noise: standard deviation of jobs, natural log; turns drift by 2 % each
    :param reference_jobs: jobs of the reference in a turn; by default √k
    """
    bench = Bench()
    drift = np.cumsum(draw.normal(0, 0.02, turns))
    most = reference_jobs or math.ceil(math.sqrt(len(speeds) - 1))
    for number, speed in enumerate(speeds):
        jobs = 1 if number else most
        rates = speed + drift[:, None] + draw.normal(0, noise, (turns, jobs))
        blocks = [f"night:{turn}" for turn in range(turns) for _ in range(jobs)]
        stack = bench.stack(f"{name}==1.{number}", companion)
        bench.measure(stack, rates.ravel(), blocks=blocks, run="night")
    return bench.evidence()


def advice_by_speed(
    evidence: Evidence,
    versions: int,
    lock: int | None = 0,
    *,
    kind: RecommendationType = RecommendationType.BEST,
    name: str = "fast",
    index: Index | None = None,
) -> Advice:
    """The advice for a project that requires the package and is locked to one of its versions."""
    released: dict[str, Any] = {"uploaded_at": "2024-01-01T00:00:00+00:00", "requires": ["rest"]}
    known: Index = index or {
        name: {f"1.{number}": released for number in range(versions)}, "rest": {"1.0": {}},
    }  # fmt: skip
    files = {"requirements.in": f"{name}\n"}
    if lock is not None:
        files["requirements.txt"] = f"{name}==1.{lock}\nrest==1.0\n"
    return advice_for(request_for(kind=kind, files=files), known, evidence)


def chosen_place(advice: Advice, name: str = "fast") -> int:
    """The place of the advised version among the planted ones."""
    assert advice.best is not None
    return int(advice.best.versions()[name].partition(".")[2])
