"""The effect of one candidate, out of the functions that take many."""

from collections.abc import Sequence

from adviser.scoring.effects import Effect, effects_of, intervals, moments, per_cent, welch_effects
from adviser.scoring.turn_noise import Batches, turn_effects
from adviser.scoring.variances import NO_PRIOR


def welch_effect(candidate: Sequence[float], baseline: Sequence[float]) -> Effect:
    """:func:`welch_effects` of one pair of arms of log rates."""
    return welch_effects(moments([candidate]), moments([baseline])).single(0)


def paired_effect(candidate: Sequence[float], baseline: Sequence[float]) -> Effect:
    """:func:`turn_effects` of the pairs of one candidate, each in a batch of its own."""
    differences = [ours - theirs for ours, theirs in zip(candidate, baseline, strict=True)]
    batches = Batches.of([differences], [[1] * len(differences)])
    return turn_effects(batches, [NO_PRIOR], [None]).effects.single(0)


def interval_per_cent(effect: Effect, confidence: float = 0.95) -> tuple[float, float]:
    """:func:`intervals` of one effect, in per cent of the baseline's rate."""
    low, high = intervals(effects_of([effect]), confidence)
    return float(per_cent(low)[0]), float(per_cent(high)[0])
