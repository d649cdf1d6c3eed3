"""Planted speeds of the versions of one package, and the evidence that ten turns give of them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adviser.advise import Advice
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from tests.factories.evidence import NOW, Bench, series
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


@dataclass(frozen=True)
class SpeedDesign:
    """How the jobs of versions vary.

    :param noise: standard deviation of jobs, natural log; turns drift by 2 % each
    :param heavy: whether jobs have heavy tails (Student's t, three degrees of freedom)
    :param wild: factor by which the jobs of the second version vary more
    :param lost: turns in which the last version has no job
    :param nights: number of nights that the turns are divided among
    :param night: standard deviation between nights of a version, natural log
    :param hosts: number of hosts, each with all turns
    :param indicators: number of indicators that show the same speeds
    """

    name: str = "plain"
    turns: int = 10
    noise: float = 0.05
    reference_jobs: int | None = None
    heavy: bool = False
    wild: float = 1.0
    lost: int = 0
    nights: int = 1
    night: float = 0.0
    hosts: int = 1
    indicators: int = 1


PLAIN = SpeedDesign()


def measured_speeds(
    draw: np.random.Generator,
    speeds: Speeds,
    design: SpeedDesign = PLAIN,
    *,
    name: str = "fast",
    companion: str = "rest==1.0",
) -> Evidence:
    """Evidence from turns in which each version ran once, and the reference more often."""
    bench = Bench()
    most = design.reference_jobs or math.ceil(math.sqrt(len(speeds) - 1))
    for indicator in range(design.indicators):
        how = series(f"Frames{indicator}")
        for host in range(design.hosts):
            drift = np.cumsum(draw.normal(0, 0.02, design.turns))
            for number, speed in enumerate(speeds):
                stack = bench.stack(f"{name}==1.{number}", companion)
                kept = design.turns - design.lost * (number == len(speeds) - 1)
                rates = speed + drift[:, None] + _noise(draw, design, number, 1 if number else most)
                own = draw.normal(0, design.night, design.nights)
                for night, turns in enumerate(np.array_split(np.arange(kept), design.nights)):
                    jobs = rates[turns] + own[night]
                    blocks = [f"{host} {night}:{it}" for it in turns for _ in range(jobs.shape[1])]
                    bench.measure(
                        stack, jobs.ravel(), how, host=f"h{host}", blocks=blocks,
                        run=f"{host} {night}", begin=NOW + timedelta(days=night),
                    )  # fmt: skip
    return bench.evidence()


def _noise(
    draw: np.random.Generator, design: SpeedDesign, number: int, jobs: int
) -> NDArray[np.float64]:
    sd = design.noise * (design.wild if number == 2 else 1.0)
    shape = design.turns, jobs
    if design.heavy:
        return draw.standard_t(3, shape) * (sd / math.sqrt(3))
    return draw.normal(0, sd, shape)


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
