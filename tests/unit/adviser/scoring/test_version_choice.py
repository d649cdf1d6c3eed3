"""Which changes force others, which measurements decide, and which contexts count."""

import math
from collections.abc import Mapping, Sequence

import pytest

from adviser.scoring.stack_pairs import MeasuredStacks, context_distance, pairs_of_versions
from adviser.scoring.version_choice import VersionChoices
from tests.factories.evidence import ELSEWHERE, PLACE, Bench, jobs, purl, series
from tests.factories.universes import Index, snapshot_of

#: ``a`` 2 adds ``new``, drops ``old`` with its ``child``, and needs ``side`` 2; ``held`` 1 allows
#: only ``a`` 1.
INDEX: Index = {
    "a": {"2": {"requires": ["new", "side>=2"]}, "1": {"requires": ["old", "side"]}},
    "old": {"1": {"requires": ["child"]}},
    "child": {"1": {}},
    "new": {"1": {}},
    "side": {"2": {}, "1": {}},
    "held": {"2": {}, "1": {"requires": ["a<2"]}},
    "free": {"2": {}, "1": {}},
    "twin": {"2": {"requires": ["pair==2"]}, "1": {"requires": ["pair==1"]}},
    "pair": {"2": {"requires": ["twin==2"]}, "1": {"requires": ["twin==1"]}},
}
BEFORE = ["a==1", "old==1", "child==1", "side==1"]
AFTER = ["a==2", "new==1", "side==2"]


def explained_by(before: Sequence[str], after: Sequence[str], *roots: str) -> set[str]:
    """The packages whose change explains all differences between two stacks."""
    bench = Bench()
    old, new = bench.stack(*before), bench.stack(*after)
    for stack in (old, new):
        bench.measure(stack, jobs())
    measured = MeasuredStacks(snapshot_of(INDEX, roots or list(INDEX)), bench.evidence())
    return set(measured.forced.packages(old, new))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BEFORE, AFTER, {"a"}),
        ([*BEFORE, "held==1"], [*AFTER, "held==2"], {"a"}),
        ([*BEFORE, "free==1"], [*AFTER, "free==2"], set()),
        ([*BEFORE, "free==1"], AFTER, set()),
        (BEFORE, [*AFTER, "free==1"], set()),
        (BEFORE, [*AFTER, "old==1", "child==1"], {"a"}),
        (BEFORE, [*AFTER, "child==1"], {"a"}),
        (["free==1"], ["free==2"], {"free"}),
        (["a==1", "side==1"], ["a==1", "side==2", "new==1"], set()),
    ],
)
def test_version_changes_implied_by_requirements_are_attributed_to_the_cause(
    before: Sequence[str], after: Sequence[str], expected: set[str]
) -> None:
    assert explained_by(before, after) == expected


@pytest.mark.parametrize(
    ("roots", "expected"),
    [(["twin"], {"twin"}), (["pair"], {"pair"}), (["twin", "pair"], {"pair"})],
)
def test_mutually_required_changes_are_attributed_to_the_requested_package(
    roots: Sequence[str], expected: set[str]
) -> None:
    assert explained_by(["twin==1", "pair==1"], ["twin==2", "pair==2"], *roots) == expected


def choices(bench: Bench, **contexts: Sequence[str]) -> Mapping[str, str]:
    """The preferred version of ``free`` beside each named stack; bundled is ``PiMatmul``."""
    measured = MeasuredStacks(snapshot_of(INDEX, list(INDEX)), bench.evidence())
    chooser = VersionChoices(measured, PLACE, {"PiMatmul"})
    versions = measured.versions["free"]
    preferred = {}
    for name, stack in contexts.items():
        choice = chooser.of_package(versions, frozenset(versions), [*map(purl, stack)] or None)
        preferred[name] = str(choice.preferred).rpartition("@")[2]
    return preferred


def test_indicators_of_the_project_outweigh_bundled_ones() -> None:
    bench = Bench()
    for version, gain in (("1", 0.3), ("2", 0.0)):
        bench.measure(bench.stack(f"free=={version}"), jobs(gain), series("PiMatmul"))
    assert choices(bench, any=[]) == {"any": "1"}
    for version, gain in (("1", 0.0), ("2", 0.1)):
        bench.measure(bench.stack(f"free=={version}"), jobs(gain), series("Frames"))
    assert choices(bench, any=[]) == {"any": "2"}


def test_measurements_on_this_hardware_outweigh_those_on_other_hardware() -> None:
    bench = Bench()
    for hardware, sign in ((ELSEWHERE, 1), (None, -1)):
        where = series(hardware=hardware) if hardware else series()
        for version, gain in (("1", 0.5 * sign), ("2", 0.0)):
            bench.measure(bench.stack(f"free=={version}"), jobs(gain), where)
    assert choices(bench, any=[]) == {"any": "2"}


def test_measurements_in_the_most_similar_stack_decide_if_stacks_agree() -> None:
    """Both contexts are noisy, so that their disagreement is within chance."""
    bench = Bench()
    for side, gain in (("1", 0.1), ("2", 0.03)):
        for version, level in (("1", gain), ("2", 0.0)):
            rates = [level + 0.06 * (-1) ** number for number in range(8)]
            bench.measure(bench.stack(f"free=={version}", f"side=={side}"), rates)
    preferred = choices(bench, one=["free==2", "side==1"], two=["free==2", "side==2"])
    assert preferred["two"] == "2"


def test_similarity_of_stacks_counts_the_other_packages_that_differ() -> None:
    bench = Bench()
    pair = bench.stack("free==1", "side==1"), bench.stack("free==2", "side==1")
    for stack in pair:
        bench.measure(stack, jobs())
    measured = MeasuredStacks(snapshot_of(INDEX, list(INDEX)), bench.evidence())
    for context, distance in (
        (["free==2", "side==1"], 0), (["free==2", "side==2"], 1), (["side==2", "new==1"], 2)
    ):  # fmt: skip
        assert context_distance(measured.index, pair, [*map(purl, context)]) == distance


def test_stacks_with_implied_changes_are_compared_only_without_a_plain_pair() -> None:
    bench = Bench()
    stacks = [bench.stack(*BEFORE), bench.stack(*AFTER)]
    plain = [bench.stack("a==1", "new==1"), bench.stack("a==2", "new==1")]
    for stack in stacks:
        bench.measure(stack, jobs(math.log(1.1)))
    for measured_plain in (False, True):
        for stack in plain if measured_plain else ():
            bench.measure(stack, jobs())
        measured = MeasuredStacks(snapshot_of(INDEX, list(INDEX)), bench.evidence())
        (history,) = measured.histories.values()
        pairs = pairs_of_versions(history, measured.forced, purl("a==1"), purl("a==2"))
        assert pairs == ([(plain[0], plain[1])] if measured_plain else [(stacks[0], stacks[1])])
