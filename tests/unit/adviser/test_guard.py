"""Two locks compared: harm, no harm, and what is missing to tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adviser.guard import GuardOutcome, GuardResult, guard, versions_without_candidate
from adviser.guard_proposals import harmful_packages
from adviser.resolver.results import VersionChange
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import ADVISORIES, Evidence
from model.packages.candidates import KnownVulnerability
from model.packages.environments import Environment
from model.packages.native_libraries import CONTEXT
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    STEP,
    Bench,
    bundling,
    jobs,
    measured,
    series,
)
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

INDEX: Index = {"fast": {"2": {}, "1": {}}, "rest": {"1": {}}}
ONE, TWO = {"fast": "1", "rest": "1"}, {"fast": "2", "rest": "1"}


def guarded(
    old: dict[str, str],
    new: dict[str, str],
    evidence: Evidence,
    where: Environment = ENVIRONMENT,
    hardware: str = HERE,
) -> GuardResult:
    return guard(old, new, snapshot_of(INDEX, ["fast", "rest"]), evidence, where, hardware)


def kinds(upgrade: GuardResult) -> list[tuple[str, str | None]]:
    return [(it.kind.value, it.package) for it in upgrade.missing]


def test_a_settled_loss_is_harm() -> None:
    upgrade = guarded(TWO, ONE, measured().evidence())
    assert upgrade.outcome is GuardOutcome.HARM
    (claim,) = upgrade.slower
    assert (claim.package, claim.verdict) == ("fast", Verdict.SLOWER)
    assert upgrade.changes == (VersionChange("fast", "1", "2"),)


def test_a_settled_gain_is_no_harm() -> None:
    upgrade = guarded(ONE, TWO, measured().evidence())
    assert [it.verdict for it in upgrade.claims] == [Verdict.FASTER]
    assert upgrade.outcome is GuardOutcome.NO_HARM
    assert (upgrade.missing, upgrade.unmeasured) == ((), ())


def test_what_a_change_forces_belongs_to_it() -> None:
    index: Index = {
        "fast": {it: {"requires": [f"core=={it}"]} for it in "21"},
        "core": {"2": {}, "1": {}},
        "rest": {"1": {}},
    }
    old, new = ({"fast": it, "core": it, "rest": "1"} for it in "12")
    bench = measured(changed={"core==1 fast==1": jobs(), "core==2 fast==2": jobs(GAIN)})
    snapshot = snapshot_of(index, ["fast", "core", "rest"])
    upgrade = guard(old, new, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    (claim,) = upgrade.claims
    assert (claim.package, claim.differs) == ("fast", ("fast", "core"))
    assert (upgrade.unmeasured, upgrade.missing) == ((), ())


def test_a_settled_step_is_told_with_what_the_wheel_bundles_and_an_open_one_is_not() -> None:
    evidence = bundling(measured().evidence())
    upgrade = guarded(ONE, TWO, evidence)
    assert (dict(upgrade.bundled), upgrade.context) == ({"fast": STEP}, [f"{STEP} ({CONTEXT})"])
    assert guarded(ONE, TWO, measured().evidence()).context == []
    few = replace(evidence, readings=evidence.readings[:1])
    assert guarded(ONE, TWO, few).context == []
    assert Evidence.from_json(evidence.to_json()) == evidence


def test_speed_needs_no_metadata() -> None:
    index: Index = {"fast": {it: {"unread": True} for it in "21"}, "rest": {"1": {"unread": True}}}
    snapshot = snapshot_of(index, ["fast", "rest"])
    assert snapshot.packages["fast"] == ()
    slower = guard(TWO, ONE, snapshot, measured().evidence(), ENVIRONMENT, HERE)
    assert [it.verdict for it in slower.slower] == [Verdict.SLOWER]
    assert slower.outcome is GuardOutcome.HARM
    faster = guard(ONE, TWO, snapshot, measured().evidence(), ENVIRONMENT, HERE)
    assert faster.outcome is GuardOutcome.UNKNOWN
    (missing,) = faster.missing
    assert missing.message == "fast 2: its metadata was not read"
    assert missing.remedy == "thoth packages add 'fast==2'"


def test_a_comparison_without_a_verdict_is_missing() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(count=3))
    bench.measure(bench.stack("fast==2", "rest==1"), jobs(-GAIN, count=3))
    upgrade = guarded(ONE, TWO, bench.evidence())
    assert (upgrade.claims, kinds(upgrade)) == ((), [("verdict", "fast")])
    assert upgrade.outcome is GuardOutcome.UNKNOWN
    assert upgrade.missing[0].message.startswith("undetermined whether fast 2 or 1 is faster in")


def test_what_a_command_has_not_settled_is_measured_with_this_command() -> None:
    bench, how = Bench(), series("command", parameters={"command": "python bench.py"})
    for version, gain in (("1", 0.0), ("2", -GAIN)):
        bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(gain, count=3), how)
    (missing,) = guarded(ONE, TWO, bench.evidence()).missing
    assert "with `thoth compare OLD NEW --ingest -- python bench.py` (" in missing.message


def test_settled_harm_outweighs_what_is_missing() -> None:
    bench = measured()
    for version in "12":
        bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(count=3), series("PiConv2D"))
    upgrade = guarded(TWO, ONE, bench.evidence())
    assert kinds(upgrade) == [("verdict", "fast")]
    assert upgrade.outcome is GuardOutcome.HARM


def test_a_package_that_was_never_measured_here_is_named_and_blocks_nothing() -> None:
    for upgrade in (
        guarded(TWO, ONE, NOTHING),
        guarded(TWO, ONE, measured().evidence(), hardware=ELSEWHERE),
    ):
        assert (upgrade.claims, upgrade.missing, upgrade.unmeasured) == ((), (), ("fast",))
        assert upgrade.outcome is GuardOutcome.NO_HARM


def test_a_library_that_indicators_measure_has_to_be_compared_here() -> None:
    snapshot = snapshot_of({"numpy": {"2": {}, "1": {}}}, ["numpy"])
    upgrade = guard({"numpy": "1"}, {"numpy": "2"}, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert (kinds(upgrade), upgrade.unmeasured) == ([("measurement", "numpy")], ())
    assert upgrade.outcome is GuardOutcome.UNKNOWN
    comes = guard({}, {"numpy": "2"}, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert comes.outcome is GuardOutcome.NO_HARM


def test_without_advisories_nobody_knows_of_vulnerabilities() -> None:
    silent = replace(NOTHING, sources={ADVISORIES: None})
    upgrade = guarded(ONE, TWO, silent)
    assert kinds(upgrade) == [("advisories", None)]
    assert guarded(ONE, ONE, silent).outcome is GuardOutcome.NO_HARM


def test_a_new_vulnerability_is_harm_and_one_that_goes_is_not() -> None:
    found = snapshot_of(INDEX, ["fast", "rest"])
    newer, older = found.packages["fast"]
    bad = replace(newer, vulnerabilities=(KnownVulnerability("CVE-1", "high"),))
    snapshot = replace(found, packages={**found.packages, "fast": (bad, older)})
    comes = guard(ONE, TWO, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.id, it.version) for it in comes.introduced] == [("CVE-1", "2")]
    assert comes.outcome is GuardOutcome.HARM
    goes = guard(TWO, ONE, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.id, it.version) for it in goes.removed] == [("CVE-1", "2")]
    assert goes.outcome is GuardOutcome.NO_HARM


def test_vulnerabilities_need_no_metadata_either() -> None:
    snapshot = snapshot_of(INDEX, ["fast", "rest"])
    nine = {"fast": "9", "rest": "1"}
    assert versions_without_candidate(ONE, nine, snapshot) == [("fast", "9")]
    affected = {("fast", "9"): [KnownVulnerability("CVE-1", "high")]}
    comes = guard(ONE, nine, snapshot, NOTHING, ENVIRONMENT, HERE, affected)
    assert [it.id for it in comes.introduced] == ["CVE-1"]
    goes = guard(nine, ONE, snapshot, NOTHING, ENVIRONMENT, HERE, affected)
    assert ([it.id for it in goes.removed], goes.outcome) == (["CVE-1"], GuardOutcome.NO_HARM)


def test_a_new_version_that_is_not_known_is_missing_and_an_old_one_is_not() -> None:
    upgrade = guarded(ONE, {"fast": "9", "rest": "1"}, NOTHING)
    assert kinds(upgrade) == [("metadata", "fast")]
    assert upgrade.outcome is GuardOutcome.UNKNOWN
    assert guarded({"fast": "0.9", "rest": "1"}, ONE, NOTHING).missing == ()


def test_a_new_version_that_cannot_be_installed_here_is_named_with_the_reason() -> None:
    index: Index = {"fast": {"2": {"requires_python": ">=3.13"}, "1": {}}, "rest": {"1": {}}}
    upgrade = guard(ONE, TWO, snapshot_of(index, ["fast", "rest"]), NOTHING, ENVIRONMENT, HERE)
    (missing,) = upgrade.missing
    assert (missing.kind.value, missing.remedy) == ("metadata", None)
    assert ">=3.13" in missing.message


def test_one_version_written_in_two_ways_is_no_change() -> None:
    same = guarded(ONE, {"fast": "1.0", "rest": "1.0.0"}, measured().evidence())
    assert (same.changes, same.claims, same.missing) == ((), (), ())
    upgrade = guarded(
        {"fast": "1.0", "rest": "1"}, {"fast": "2.0", "rest": "1"}, measured().evidence()
    )
    assert [it.verdict for it in upgrade.claims] == [Verdict.FASTER]


def test_a_yanked_version_is_harm() -> None:
    index: Index = {"fast": {"2": {"yanked": True}, "1": {}}, "rest": {"1": {}}}
    snapshot = snapshot_of(index, ["fast", "rest"])
    comes = guard(ONE, TWO, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert [(it.name, it.version) for it in comes.yanked] == [("fast", "2")]
    assert comes.outcome is GuardOutcome.HARM
    goes = guard(TWO, ONE, snapshot, NOTHING, ENVIRONMENT, HERE)
    assert (goes.yanked, goes.outcome) == ((), GuardOutcome.NO_HARM)


def test_locks_that_were_measured_as_they_are_are_compared_though_several_packages_differ() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("numpy", "rest")}
    bench = Bench()
    old, new = bench.stack("numpy==1", "rest==1"), bench.stack("numpy==2", "rest==2")
    bench.measure(old, jobs(count=40))
    bench.measure(new, jobs(-GAIN, count=40))
    snapshot = snapshot_of(index, ["numpy", "rest"])
    one, two = ({"numpy": it, "rest": it} for it in "12")
    upgrade = guard(one, two, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert (upgrade.claims, upgrade.missing, upgrade.unmeasured) == ((), (), ())
    (claim,) = upgrade.stacks
    assert (claim.stack, claim.baseline_stack) == (new, old)
    assert (claim.verdict, claim.differs) == (Verdict.SLOWER, ("numpy", "rest"))
    assert upgrade.outcome is GuardOutcome.HARM
    back = guard(two, one, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert back.outcome is GuardOutcome.NO_HARM
    elsewhere = guard(one, two, snapshot, bench.evidence(), ENVIRONMENT, ELSEWHERE)
    assert (elsewhere.stacks, elsewhere.unmeasured) == ((), ("rest",))
    assert kinds(elsewhere) == [("measurement", "numpy")]


def test_the_package_that_makes_a_whole_lock_slower_is_harm_beside_it() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest")}
    bench = Bench()
    old, new = bench.stack("fast==1", "rest==1"), bench.stack("fast==2", "rest==2")
    between = bench.stack("fast==2", "rest==1")
    for stack, loss in ((old, 0.0), (new, -GAIN), (between, -GAIN)):
        bench.measure(stack, jobs(loss, count=40))
    snapshot = snapshot_of(index, ["fast", "rest"])
    one, two = ({"fast": it, "rest": it} for it in "12")
    upgrade = guard(one, two, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert [it.package for it in upgrade.slower] == [None, "fast"]
    assert harmful_packages(upgrade) == ["fast"]


def test_a_lock_that_is_only_part_of_a_measured_stack_is_not_compared_as_a_whole() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest", "more")}
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1", "more==1"), jobs(count=40))
    bench.measure(bench.stack("fast==2", "rest==2", "more==1"), jobs(-GAIN, count=40))
    snapshot = snapshot_of(index, ["fast", "rest", "more"])
    both = {"fast": "2", "rest": "2"}
    upgrade = guard(ONE, both, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert (upgrade.stacks, upgrade.missing) == ((), ())
    assert upgrade.unmeasured == ("fast", "rest")


def test_stacks_that_few_jobs_compare_as_a_whole_lack_a_verdict() -> None:
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest")}
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(count=2))
    bench.measure(bench.stack("fast==2", "rest==2"), jobs(count=2))
    snapshot = snapshot_of(index, ["fast", "rest"])
    upgrade = guard(ONE, {"fast": "2", "rest": "2"}, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    assert (upgrade.stacks, kinds(upgrade)) == ((), [("verdict", None)])


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


def test_what_was_measured_on_other_hardware_takes_no_part() -> None:
    draw, here, both = np.random.default_rng(5), Bench(), Bench()
    index: Index = {name: {"2": {}, "1": {}} for name in ("fast", "rest")}
    for version, level in (("1", 0.0), ("2", -0.08)):
        rates = draw.normal(level, 0.03, 10)
        for bench in (here, both):
            bench.measure(bench.stack(f"fast=={version}"), rates)
        stack = both.stack(f"rest=={version}")
        both.measure(stack, draw.normal(0, 0.03, 10), series(hardware=ELSEWHERE))
    snapshot = snapshot_of(index, ["fast", "rest"])
    alone, among = (
        guard(ONE, {"fast": "2", "rest": "2"}, snapshot, it.evidence(), ENVIRONMENT, HERE)
        for it in (here, both)
    )
    assert alone.slower
    assert (among.comparisons, among.slower) == (alone.comparisons, alone.slower)
