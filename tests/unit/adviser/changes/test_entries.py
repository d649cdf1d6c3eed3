"""Which changes are announced, confirmed, resized and withdrawn, and that nothing moves."""

from collections.abc import Sequence

import numpy as np
import pytest

from adviser.changes import LOOK_ALPHA, MAX_LOOKS, ChangeUpdate, new_entries
from model.changes import ChangeEvent, ChangeLook, PerformanceChange
from tests.factories.evidence import GAIN, Bench, jobs, series


def releases(gains: Sequence[float], count: int = 8, *, rest: str = "rest==1") -> Bench:
    bench = Bench()
    for number, gain in enumerate(gains, 1):
        bench.measure(bench.stack(f"fast=={number}", rest), jobs(gain, count, seed=number))
    return bench


def first(bench: Bench) -> ChangeUpdate:
    return new_entries(bench.evidence(), [], {})


def test_each_release_is_compared_only_with_the_previous_one() -> None:
    update = first(releases([0.0, GAIN, GAIN, 0.0]))
    assert [(it.from_version, it.to_version, it.verdict) for it in update.entries] == [
        ("1", "2", "faster"), ("3", "4", "slower"),
    ]  # fmt: skip
    assert {it.comparisons for it in update.entries} == {3}
    assert update.entries[0].interval_low_pct > 20
    assert update.entries[0].interval_high_pct < 40


def test_release_is_also_compared_with_the_reference_version() -> None:
    """Neither step is large enough to be settled; their sum is."""
    bench = releases([0.0, 0.018, 0.036])
    assert first(bench).entries == ()
    reference = bench.stack("fast==1", "rest==1")
    (entry,) = new_entries(bench.evidence(), [], {}, {reference}).entries
    assert (entry.from_version, entry.to_version, entry.verdict) == ("1", "3", "faster")
    assert entry.comparisons == 3


def test_releases_are_compared_in_order_of_versions_and_not_of_text() -> None:
    bench = Bench()
    for version, gain in (("9", 0.0), ("10", GAIN)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(gain))
    (entry,) = first(bench).entries
    assert (entry.from_version, entry.to_version) == ("9", "10")


def test_stacks_that_differ_in_two_packages_are_not_compared() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs())
    bench.measure(bench.stack("fast==2", "rest==2"), jobs(GAIN))
    assert first(bench) == ChangeUpdate((), {})


def test_each_hardware_class_has_separate_performance_changes() -> None:
    bench = releases([0.0, GAIN])
    for number, gain in enumerate([0.0, GAIN], 1):
        elsewhere = series(hardware="sha256:" + "b" * 64)
        bench.measure(bench.stack(f"fast=={number}", "rest==1"), jobs(gain), elsewhere)
    entries = first(bench).entries
    assert len({it.change_id for it in entries}) == len(entries) == 2


def test_unchanged_evidence_adds_no_second_change() -> None:
    evidence = releases([0.0, GAIN]).evidence()
    update = new_entries(evidence, [], {})
    assert update.entries
    assert new_entries(evidence, update.entries, update.looks) == ChangeUpdate((), {})


def test_change_identifier_does_not_depend_on_the_measured_effect() -> None:
    some, others = (first(releases([0.0, gain])).entries for gain in (GAIN, 2 * GAIN))
    assert some[0].change_id == others[0].change_id
    assert some[0].effect_pct != others[0].effect_pct


def after(update: ChangeUpdate, bench: Bench) -> list[PerformanceChange]:
    return list(new_entries(bench.evidence(), update.entries, update.looks).entries)


@pytest.mark.parametrize(
    ("later", "events"),
    [
        (GAIN, [ChangeEvent.CONFIRMED]),
        (2 * GAIN, [ChangeEvent.RESIZED]),
        (0.0, [ChangeEvent.WITHDRAWN]),
        (-GAIN, [ChangeEvent.WITHDRAWN]),
    ],
)
def test_later_evidence_adds_a_change_that_refers_to_the_first_change(
    later: float, events: list[ChangeEvent]
) -> None:
    update = first(releases([0.0, GAIN]))
    entries = after(update, releases([0.0, later], 16))
    assert [it.event for it in entries] == events
    (entry,) = entries
    assert entry.refers_to == update.entries[0].change_id != entry.change_id
    assert entry.look == 2


def test_change_is_judged_again_only_after_enough_new_jobs() -> None:
    update = first(releases([0.0, 0.0]))
    assert update.entries == ()
    assert after(update, releases([0.0, GAIN], 15)) == []
    assert [it.event for it in after(update, releases([0.0, GAIN], 16))] == [ChangeEvent.ANNOUNCED]


def test_no_change_is_announced_after_the_last_planned_look() -> None:
    bench = releases([0.0, GAIN], 16)
    (identifier,) = first(bench).looks
    for looks, announced in ((MAX_LOOKS - 1, 1), (MAX_LOOKS, 0)):
        update = new_entries(bench.evidence(), [], {identifier: ChangeLook(looks, 8)})
        assert len(update.entries) == announced
        assert update.looks[identifier] == ChangeLook(looks + 1, 16)


def test_withdrawn_performance_change_stays_withdrawn() -> None:
    update = first(releases([0.0, GAIN]))
    (withdrawn,) = after(update, releases([0.0, 0.0], 16))
    known = [*update.entries, withdrawn]
    looks = {withdrawn.announcement: ChangeLook(2, 16)}
    assert new_entries(releases([0.0, GAIN], 40).evidence(), known, looks).entries == ()


@pytest.mark.slow
def test_repeated_evaluation_rarely_announces_changes_of_identical_releases() -> None:
    draw, histories, false = np.random.default_rng(11), 150, 0
    for _ in range(histories):
        rates = draw.normal(0, 0.03, (4, 160))
        known: list[PerformanceChange] = []
        looks: dict[str, ChangeLook] = {}
        for count in (5, 10, 20, 40, 80, 160):
            bench = Bench()
            for number, row in enumerate(rates, 1):
                bench.measure(bench.stack(f"fast=={number}"), row[:count])
            update = new_entries(bench.evidence(), known, looks)
            known += update.entries
            looks |= update.looks
        assert {it.looks for it in looks.values()} == {MAX_LOOKS + 1}
        false += bool(known)
    # Five looks of a fifth of 5 %; a binomial count of 150 exceeds 14 in 1 of 100 cases at 5 %.
    assert false <= 14, LOOK_ALPHA
