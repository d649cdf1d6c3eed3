"""Series of releases with known rates, and a measurer that draws jobs from them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchState, StackUnavailable, StepSearch

Draw = Callable[[np.random.Generator, float], float]


def normal_noise(draw: np.random.Generator, sd: float) -> float:
    """Normal noise."""
    return float(draw.normal(0, sd))


def heavy_noise(draw: np.random.Generator, sd: float) -> float:
    """Student's t with three degrees of freedom, scaled to the standard deviation ``sd``."""
    return float(draw.standard_t(3) * sd / math.sqrt(3))


def step_levels(count: int, steps: Mapping[int, float]) -> tuple[float, ...]:
    """Log rates of ``count`` releases; each step multiplies the rate from its release on.

    :param steps: by release, such as ``{10: 0.05}`` for 5 % faster from release 10
    """
    levels = np.zeros(count)
    for release, share in steps.items():
        levels[release:] += math.log1p(share)
    return tuple(levels.tolist())


def dip_steps(first: int, width: int, size: float) -> dict[int, float]:
    """The two steps of a dip, for :func:`step_levels`."""
    return {first: size, first + width: 1 / (1 + size) - 1}


def dip_outcome(
    search: StepSearch, width: int, size: float
) -> Literal["seen", "not stated", "wrong"]:
    """How the answer of a search treats a planted dip."""
    if search.state is not SearchState.NONE:
        return "seen"
    stated = any(dip.width <= width and dip.size <= abs(size) for dip in search.dips)
    return "wrong" if stated else "not stated"


@dataclass
class PlantedMeasurer:
    """Measures a planted series.

    :param levels: true log rates
    :param drift: standard deviation of the machine's change from block to block
    :param missing: releases that cannot be installed
    :ivar calls: all measured blocks, as releases
    """

    levels: Sequence[float]
    seed: int
    sd: float = 0.02
    noise: Draw = normal_noise
    drift: float = 0.0
    missing: frozenset[int] = frozenset()
    calls: list[tuple[int, ...]] = field(default_factory=list)
    _machine: float = 0.0

    def __post_init__(self) -> None:
        self._draw = np.random.default_rng(self.seed)

    def measure(self, stacks: Sequence[int], blocks: int) -> Sequence[MeasuredRate]:
        """Draw one job of each stack per block."""
        for stack in stacks:
            if stack in self.missing:
                raise StackUnavailable(stack, "no wheel")
        jobs = []
        for _ in range(blocks):
            self.calls.append(tuple(stacks))
            self._machine += float(self._draw.normal(0, self.drift)) if self.drift else 0.0
            jobs += [
                MeasuredRate(
                    stack,
                    str(len(self.calls)),
                    self.levels[stack] + self._machine + self.noise(self._draw, self.sd),
                )
                for stack in stacks
            ]
        return jobs
