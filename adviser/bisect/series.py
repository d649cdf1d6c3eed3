"""Series of stacks, the path from one lock to another, and searches as sentences and as JSON.

A path goes one package at a time where that is possible. The step in the rate along it names the
package that caused it. The answer belongs to the path: if packages interact, another order may
attribute the effect to another package.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adviser.bisect.posterior import SEEN_CHANCE, STEP_SIZES
from adviser.bisect.search import NONE_CHANCE, SearchState, StepSearch
from adviser.scoring.claim_texts import comparison_effect_text
from model.json_documents import finite_or_none

#: Sizes of the groups that are tried if no package can move alone.
_GROUPS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class PathStep:
    """One stack of a path.

    :param moved: packages that differ from the stack before; empty for the first stack
    :param pins: version of each package
    """

    moved: tuple[str, ...]
    pins: Mapping[str, str]


def path_between(
    old: Mapping[str, str], new: Mapping[str, str], is_valid: Callable[[Mapping[str, str]], bool]
) -> list[PathStep]:
    """Return stacks from ``old`` to ``new``, both included, that each differ in few packages.

    New packages come first and dropped packages last, since other packages may require them.

    :param old: version of each package
    :param is_valid: whether a stack can be installed

    >>> path = path_between({"a": "1", "b": "1"}, {"a": "2", "b": "1", "c": "1"}, lambda pins: True)
    >>> [step.moved for step in path]
    [(), ('c',), ('a',)]
    """
    remaining = sorted(
        (name for name in old.keys() | new.keys() if old.get(name) != new.get(name)),
        key=lambda name: (name in old, name not in new, name),
    )
    steps = [PathStep((), dict(old))]
    while remaining:
        step = next(_valid_moves(steps[-1].pins, new, remaining, is_valid))
        steps.append(step)
        remaining = [name for name in remaining if name not in step.moved]
    return steps


def _valid_moves(
    pins: Mapping[str, str],
    new: Mapping[str, str],
    remaining: Sequence[str],
    is_valid: Callable[[Mapping[str, str]], bool],
) -> Iterator[PathStep]:
    """Yield valid next stacks, those with few moved packages first; the last is ``new`` itself."""
    for size in _GROUPS:
        for moved in itertools.combinations(remaining, size):
            if size < len(remaining):
                moved_pins = _moved(pins, new, moved)
                if is_valid(moved_pins):
                    yield PathStep(moved, moved_pins)
    yield PathStep(tuple(remaining), _moved(pins, new, remaining))


def _moved(pins: Mapping[str, str], new: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    kept = {name: version for name, version in pins.items() if name not in names}
    return kept | {name: new[name] for name in names if name in new}


_SEEN = f"{100 * SEEN_CHANCE:.0f} %"
#: What a person can do, by the reason why a search was stopped.
_REMEDIES = {
    "jobs": "Run the command again with a higher --max-jobs to continue",
    "time": "Run the command again to continue",
    "busy": "Run the command again to continue when the machine is free; --wait S waits longer,"
    " --share-machine measures all the same, less precisely",
    "unstable": "Run the command again to continue when the machine is quiet",
    "noise": "Allow more jobs with --max-jobs; or free the machine, or make jobs longer, such as"
    " with -p min_time=2, and search in another folder (--out)",
}


@dataclass(frozen=True, slots=True)
class StackSeries:
    """The stacks that a search measures, in order.

    :param labels: name of each stack for people
    :param specification_of: returns the specification of a stack, or ``None`` and the reason
    :param package: the only package whose releases differ; ``None`` between two locks
    :param moves: between two locks, the change from the previous stack, such as ``numpy 2.0 → 2.1``
    """

    name: str
    labels: Sequence[str]
    specification_of: Callable[[int], tuple[dict[str, Any] | None, str]]
    package: str | None = None
    moves: Sequence[str] = ()

    def step_label(self, before: int, after: int) -> str:
        """The difference of two stacks, for people."""
        if self.moves:
            return ", ".join(self.moves[before + 1 : after + 1])
        return f"{self.labels[before]} → {self.labels[after]}"


def search_sentence(series: StackSeries, search: StepSearch) -> str:
    """The answer of a search, or its state so far, in one sentence."""
    labels = series.labels
    step = "" if search.pair is None else series.step_label(*search.pair)
    if search.state is SearchState.RUNNING:
        return _state_so_far(series, search, step)
    if search.state is SearchState.NONE:
        smallest = 100 * STEP_SIZES[0]
        first, *_, last = (it for n, it in enumerate(labels) if n not in search.unavailable)
        answer = f"no lasting step of {smallest:.0f} % or more from {first} to {last}"
        if not search.dips:
            return answer
        dip = min(search.dips, key=lambda it: it.width * it.size)  # narrow, and not large
        unit = "releases" if series.package else "stacks"
        return (
            f"{answer}; a dip of at least {100 * dip.size:g} % that is {dip.width} or more {unit}"
            f" wide would have been seen with {_SEEN} chance"
        )
    if search.state is SearchState.STEP and search.comparison is not None:
        size, interval = comparison_effect_text(search.comparison)
        return f"{step}: {size} ({interval})"
    if search.stopped is None:
        return f"{step}: probable, but fresh jobs did not confirm the step"
    settled = search.posterior is not None and search.posterior.none >= NONE_CHANCE
    so_far = "no lasting step so far" if settled else "no answer so far"
    if step:
        so_far = f"most probable so far: {step}"
    remedy = _REMEDIES[search.stopped.reason.value]
    return f"{search.stopped.message}; {so_far}. {remedy}"


def _state_so_far(series: StackSeries, search: StepSearch, step: str) -> str:
    posterior = search.posterior
    if search.pair is not None:
        return f"confirming {step} with fresh jobs"
    if posterior is None:
        return "nothing usable was measured yet"
    effect = 100 * math.expm1(float(posterior.effect[posterior.best]))
    return (
        f"no step {100 * posterior.none:.0f} %; most probable"
        f" {series.step_label(*posterior.pair())} {100 * posterior.best_chance:.0f} %"
        f" ({effect:+.0f} %)"
    )


def search_document(series: StackSeries, search: StepSearch) -> dict[str, Any]:
    """A search as JSON values; numbers that are not known are null."""
    labels, comparison, rest = series.labels, search.comparison, search.remainder
    posterior = search.posterior
    return {
        "series": series.name,
        "package": series.package,
        "stacks": list(labels),
        "state": search.state.value,
        "sentence": search_sentence(series, search),
        "stopped": None
        if search.stopped is None
        else {"reason": search.stopped.reason.value, "message": search.stopped.message},
        "step": series.step_label(*search.pair) if search.pair else None,
        "before": labels[search.pair[0]] if search.pair else None,
        "after": labels[search.pair[1]] if search.pair else None,
        "confirmation": None
        if comparison is None
        else {
            "verdict": str(comparison.verdict),
            "difference_pct": finite_or_none(comparison.difference_pct),
            "interval_low_pct": finite_or_none(comparison.interval_low_pct),
            "interval_high_pct": finite_or_none(comparison.interval_high_pct),
        },
        "jobs": search.jobs,
        "search_jobs": search.search_jobs,
        "confirming_jobs": search.confirming_jobs,
        "unusable_jobs": search.unusable_jobs,
        "skipped": [
            {"stack": labels[place], "reason": reason}
            for place, reason in search.unavailable.items()
        ],
        "remainder": None
        if rest is None
        else {
            "noticed": not search.flat_remainder,
            "chance": rest.chance,
            "first": labels[rest.first],
            "last": labels[rest.last],
            "difference_pct": 100 * math.expm1(rest.effect),
        },
        "dips": None
        if search.state is not SearchState.NONE
        else {
            "chance": SEEN_CHANCE,
            "visible": [
                {"difference_pct": round(100 * it.size, 6), "width": it.width} for it in search.dips
            ],
        },
        "posterior": None
        if posterior is None
        else {
            "none": posterior.none,
            "noise_pct": 100 * posterior.noise,
            "steps": [
                {
                    "after": labels[place],
                    "chance": float(chance),
                    "difference_pct": 100 * math.expm1(float(effect)),
                }
                for place, chance, effect in zip(
                    posterior.releases[1:], posterior.steps[1:], posterior.effect[1:], strict=True
                )
            ],
        },
    }
