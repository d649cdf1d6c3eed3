"""Two locks compared: what is settled, and what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adviser.explain import Change
from adviser.guard import Guarded, guard
from adviser.scoring.judging import Verdict
from common.environments import Environment
from graph.candidates import KnownVulnerability
from graph.evidence import Evidence
from tests.factories.asked import NOTHING
from tests.factories.evidence import ELSEWHERE, GAIN, HERE, Bench, jobs, measured
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

INDEX: Index = {"fast": {"2": {}, "1": {}}, "rest": {"1": {}}}
ONE, TWO = {"fast": "1", "rest": "1"}, {"fast": "2", "rest": "1"}


def guarded(
    old: dict[str, str],
    new: dict[str, str],
    evidence: Evidence,
    where: Environment = ENVIRONMENT,
    hardware: str = HERE,
) -> Guarded:
    return guard(old, new, snapshot_of(INDEX, ["fast", "rest"]), evidence, where, hardware)


def test_a_settled_loss_speaks_against_an_upgrade() -> None:
    told = guarded(TWO, ONE, measured().evidence())
    assert told.harmful
    (claim,) = told.slower
    assert (claim.package, claim.verdict) == ("fast", Verdict.SLOWER)
    assert told.changes == (Change("fast", "1", "2"),)


def test_a_settled_gain_does_not() -> None:
    told = guarded(ONE, TWO, measured().evidence())
    assert [it.verdict for it in told.claims] == [Verdict.FASTER]
    assert not told.harmful


def test_what_is_not_settled_is_only_named() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(count=3))
    bench.measure(bench.stack("fast==2", "rest==1"), jobs(-GAIN, count=3))
    told = guarded(ONE, TWO, bench.evidence())
    assert (told.claims, told.unsettled, told.harmful) == ((), ("fast",), False)


def test_other_hardware_settles_nothing_here() -> None:
    told = guarded(TWO, ONE, measured().evidence(), hardware=ELSEWHERE)
    assert (told.claims, told.harmful) == ((), False)


def test_a_vulnerability_that_comes_speaks_against_one_that_goes_does_not() -> None:
    found = snapshot_of(INDEX, ["fast", "rest"])
    newer, older = found.packages["fast"]
    bad = replace(newer, vulnerabilities=(KnownVulnerability("CVE-1", "high"),))
    snapshot = replace(found, packages={**found.packages, "fast": (bad, older)})
    comes = guard(ONE, TWO, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.id, it.version) for it in comes.introduced] == [("CVE-1", "2")]
    assert comes.harmful
    goes = guard(TWO, ONE, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [it.id for it in goes.removed] == ["CVE-1"]
    assert not goes.harmful


def test_a_new_version_that_nobody_knows_is_named() -> None:
    told = guarded(ONE, {"fast": "9", "rest": "1"}, NOTHING)
    assert told.unknown == {"fast": "9: nothing is known of this version"}
    assert told.unknown_before == {}


def test_an_old_version_that_nobody_knows_is_named() -> None:
    told = guarded({"fast": "0.9", "rest": "1"}, ONE, NOTHING)
    assert told.unknown_before == {"fast": "0.9: nothing is known of this version"}
    assert not told.harmful


def test_one_version_written_in_two_ways_is_no_change() -> None:
    told = guarded(ONE, {"fast": "1.0", "rest": "1.0.0"}, measured().evidence())
    assert (told.changes, told.claims, told.unknown) == ((), (), {})
    upgrade = guarded(
        {"fast": "1.0", "rest": "1"}, {"fast": "2.0", "rest": "1"}, measured().evidence()
    )
    assert [it.verdict for it in upgrade.claims] == [Verdict.FASTER]


def test_a_version_that_was_taken_back_speaks_against_an_upgrade() -> None:
    index: Index = {"fast": {"2": {"yanked": True}, "1": {}}, "rest": {"1": {}}}
    snapshot = snapshot_of(index, ["fast", "rest"])
    comes = guard(ONE, TWO, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.name, it.version) for it in comes.yanked] == [("fast", "2")]
    assert comes.harmful
    goes = guard(TWO, ONE, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert (goes.yanked, goes.harmful) == ((), False)


def test_locks_that_were_measured_as_they_are_are_compared_though_several_packages_differ() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest")}
    bench = Bench()
    old, new = bench.stack("fast==1", "rest==1"), bench.stack("fast==2", "rest==2")
    bench.measure(old, jobs(count=40))
    bench.measure(new, jobs(-GAIN, count=40))
    snapshot = snapshot_of(index, ["fast", "rest"])
    both = {"fast": "2", "rest": "2"}
    told = guard(ONE, both, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert told.claims == ()
    (claim,) = told.stacks
    assert (claim.stack, claim.baseline_stack) == (new, old)
    assert (claim.verdict, claim.differs) == (Verdict.SLOWER, ("fast", "rest"))
    assert told.harmful
    assert not guard(both, ONE, snapshot, bench.evidence(), ENVIRONMENT, HERE).harmful
    elsewhere = guard(ONE, both, snapshot, bench.evidence(), ENVIRONMENT, ELSEWHERE)
    assert (elsewhere.stacks, elsewhere.open_stacks, elsewhere.harmful) == ((), (), False)


def test_a_lock_that_is_only_part_of_a_measured_stack_is_not_compared_as_a_whole() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest", "more")}
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1", "more==1"), jobs(count=40))
    bench.measure(bench.stack("fast==2", "rest==2", "more==1"), jobs(-GAIN, count=40))
    snapshot = snapshot_of(index, ["fast", "rest", "more"])
    both = {"fast": "2", "rest": "2"}
    told = guard(ONE, both, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert (told.stacks, told.open_stacks, told.harmful) == ((), (), False)


def test_stacks_that_few_jobs_compare_as_a_whole_are_named() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest")}
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(count=2))
    bench.measure(bench.stack("fast==2", "rest==2"), jobs(count=2))
    snapshot = snapshot_of(index, ["fast", "rest"])
    told = guard(ONE, {"fast": "2", "rest": "2"}, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert (told.stacks, told.open_stacks) == ((), ("PiMatmul",))


def test_versions_that_nobody_asked_about_take_no_part() -> None:
    bench = Bench()
    draw = np.random.default_rng(5)
    names = [f"1.{n}" for n in range(60)]
    for name in names:
        level = -0.08 if name == "1.1" else 0.0
        bench.measure(bench.stack(f"fast=={name}"), draw.normal(level, 0.03, 10))
    old, new = {"fast": "1.0"}, {"fast": "1.1"}
    found = [
        guard(old, new, snapshot_of({"fast": {it: {} for it in index}}, ["fast"]),
              bench.evidence(), ENVIRONMENT, HERE)
        for index in (names, names[:2])
    ]  # fmt: skip
    (among_many,), (alone,) = (it.slower for it in found)
    assert among_many.p_value == alone.p_value
