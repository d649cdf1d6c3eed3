"""Two locks compared: harm, no harm, and what is missing to tell."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np

from adviser.answering.lock_comparison import LockKnowledge
from adviser.guard import GuardResult, Vulnerabilities, guard, versions_without_candidate
from adviser.guard_findings import GuardGroup, findings_of
from adviser.guard_proposals import harmful_packages
from cli.guard import guard_lines
from model.measurements.evidence import ADVISORIES, Evidence, RecordedHardware
from model.packages.candidates import KnownVulnerability
from model.packages.environments import environment
from model.packages.snapshot import Snapshot, with_revision
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    NOW,
    Bench,
    bundling,
    jobs,
    measured,
    series,
)
from tests.factories.golden import compare_views
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of, with_vulnerabilities

INDEX: Index = {"fast": {"2": {}, "1": {}}, "rest": {"1": {}}}
#: ``fast`` 1, 2 and 9 beside ``rest`` 1; 9 is on no index.
ONE, TWO, NINE = ({"fast": it, "rest": "1"} for it in "129")
FASTER, SILENT = measured().evidence(), replace(NOTHING, sources={ADVISORIES: None})
#: Too few jobs for a verdict.
FEW = {"fast==1 rest==1": jobs(count=3), "fast==2 rest==1": jobs(-GAIN, count=3)}
COMMAND = series("command", parameters={"command": "python bench.py"})
AFFECTED = {("fast", "9"): [KnownVulnerability("CVE-1", "high")]}

#: The newer version of one forces that of the other.
FORCED: Index = {
    "fast": {it: {"requires": [f"core=={it}"]} for it in "21"},
    "core": {"2": {}, "1": {}},
    "rest": {"1": {}},
}
FORCED_1, FORCED_2 = ({"fast": it, "core": it, "rest": "1"} for it in "12")
FORCED_FASTER = measured(changed={"core==1 fast==1": jobs(), "core==2 fast==2": jobs(GAIN)})
UNREAD: Index = {"fast": {it: {"unread": True} for it in "21"}, "rest": {"1": {"unread": True}}}
LATER_PYTHON: Index = {**INDEX, "fast": {"2": {"requires_python": ">=3.13"}, "1": {}}}
YANKED: Index = {**INDEX, "fast": {"2": {"yanked": True}, "1": {}}}

#: Locks that differ in two packages, of which indicators measure one.
TWO_PACKAGES: Index = {name: {"2": {}, "1": {}} for name in ("fast", "numpy", "rest", "more")}
NUMPY_1, NUMPY_2 = ({"numpy": it, "rest": it} for it in "12")
FAST_2 = {"fast": "2", "rest": "2"}
AS_A_WHOLE = measured(
    changed={"numpy==1 rest==1": jobs(count=40), "numpy==2 rest==2": jobs(-GAIN, count=40)}
).evidence()
FAST_AS_A_WHOLE = {
    "fast==1 rest==1": jobs(count=40),
    "fast==2 rest==2": jobs(-GAIN, count=40),
    "fast==2 rest==1": jobs(-GAIN, count=40),
}
AS_A_PART = {
    "fast==1 rest==1 more==1": jobs(count=40),
    "fast==2 rest==2 more==1": jobs(-GAIN, count=40),
}
FEW_AS_A_WHOLE = {"fast==1 rest==1": jobs(count=2), "fast==2 rest==2": jobs(count=2)}


def guarded(
    old: Mapping[str, str],
    new: Mapping[str, str],
    evidence: Evidence = NOTHING,
    index: Index = INDEX,
    *,
    hardware: str | None = HERE,
    vulnerable: Mapping[str, str] | None = None,
    affected: Vulnerabilities | None = None,
) -> GuardResult:
    snapshot = with_vulnerabilities(snapshot_of(index, index), vulnerable or {})
    return guard(old, new, snapshot, evidence, ENVIRONMENT, hardware, affected)


def with_open_verdict() -> Evidence:
    """A settled difference, and one in another indicator that is not settled."""
    bench = measured()
    for version in "12":
        bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(count=3), series("PiConv2D"))
    return bench.evidence()


def from_before_the_machine_changed() -> Evidence:
    """Two versions in turns, then a step in the speed of another stack."""
    bench, begin = Bench(), NOW - timedelta(days=30)
    for version in "12":
        turns = [f"turn {it}" for it in range(8)]
        bench.measure(bench.stack(f"numpy=={version}"), jobs(), begin=begin, blocks=turns)
    levels = [*jobs(count=10), *jobs(-0.5, count=10)]
    bench.measure(bench.stack("fast==1"), levels, begin=begin)
    return bench.evidence()


BUNDLING = bundling(FASTER)
COMPARED = {
    "a settled loss": guarded(TWO, ONE, FASTER),
    "a settled gain": guarded(ONE, TWO, FASTER),
    "what a change forces belongs to it": guarded(
        FORCED_1, FORCED_2, FORCED_FASTER.evidence(), FORCED
    ),
    "a settled step, and what the wheel bundles": guarded(ONE, TWO, BUNDLING),
    "an open step, and what the wheel bundles": guarded(
        ONE, TWO, replace(BUNDLING, readings=BUNDLING.readings[:1])
    ),
    "a loss, and metadata that was not read": guarded(TWO, ONE, FASTER, UNREAD),
    "a gain, and metadata that was not read": guarded(ONE, TWO, FASTER, UNREAD),
    "too few jobs": guarded(ONE, TWO, measured(changed=FEW).evidence()),
    "too few jobs of a command": guarded(ONE, TWO, measured(COMMAND, changed=FEW).evidence()),
    "settled harm outweighs an open verdict": guarded(TWO, ONE, with_open_verdict()),
    "nothing was measured": guarded(TWO, ONE),
    "nothing was measured on this hardware": guarded(TWO, ONE, FASTER, hardware=ELSEWHERE),
    "a library that indicators measure": guarded({"numpy": "1"}, {"numpy": "2"}, NOTHING,
                                                 TWO_PACKAGES),
    "a library that indicators measure, without hardware": guarded(
        {"numpy": "1"}, {"numpy": "2"}, NOTHING, TWO_PACKAGES, hardware=None
    ),
    "a library that was measured before the machine changed": guarded(
        {"numpy": "1"}, {"numpy": "2"}, from_before_the_machine_changed(), TWO_PACKAGES
    ),
    "a library that is new": guarded({}, {"numpy": "2"}, NOTHING, TWO_PACKAGES),
    "no advisories": guarded(ONE, TWO, SILENT),
    "no advisories, and no change": guarded(ONE, ONE, SILENT),
    "a new vulnerability": guarded(ONE, TWO, vulnerable={"fast==2": "CVE-1"}),
    "a vulnerability that goes": guarded(TWO, ONE, vulnerable={"fast==2": "CVE-1"}),
    "a new vulnerability of an unknown version": guarded(ONE, NINE, affected=AFFECTED),
    "a vulnerability of an unknown version that goes": guarded(NINE, ONE, affected=AFFECTED),
    "an unknown new version": guarded(ONE, NINE),
    "an unknown old version": guarded(NINE, ONE),
    "a new version that cannot be installed": guarded(ONE, TWO, NOTHING, LATER_PYTHON),
    "one version in two spellings": guarded(ONE, {"fast": "1.0", "rest": "1.0.0"}, FASTER),
    "two versions in other spellings": guarded(
        {"fast": "1.0", "rest": "1"}, {"fast": "2.0", "rest": "1"}, FASTER
    ),
    "a yanked new version": guarded(ONE, TWO, NOTHING, YANKED),
    "a yanked old version": guarded(TWO, ONE, NOTHING, YANKED),
    "locks that were measured as a whole": guarded(NUMPY_1, NUMPY_2, AS_A_WHOLE, TWO_PACKAGES),
    "the same the other way": guarded(NUMPY_2, NUMPY_1, AS_A_WHOLE, TWO_PACKAGES),
    "locks that were measured as a whole elsewhere": guarded(
        NUMPY_1, NUMPY_2, AS_A_WHOLE, TWO_PACKAGES, hardware=ELSEWHERE
    ),
    "the package that makes a whole lock slower": guarded(
        ONE, FAST_2, measured(changed=FAST_AS_A_WHOLE).evidence(), TWO_PACKAGES
    ),
    "locks that are part of measured stacks": guarded(
        ONE, FAST_2, measured(changed=AS_A_PART).evidence(), TWO_PACKAGES
    ),
    "too few jobs of whole locks": guarded(
        ONE, FAST_2, measured(changed=FEW_AS_A_WHOLE).evidence(), TWO_PACKAGES
    ),
}  # fmt: skip


def view(upgrade: GuardResult) -> Iterator[str]:
    yield f"outcome: {upgrade.outcome}"
    for it in (*upgrade.claims, *upgrade.stacks):
        yield f"claim: {it.package}, {it.verdict}, {', '.join(it.differs)} differ"
    for it in upgrade.missing:
        yield f"missing: {it.kind} of {it.package}: {it.remedy}"
    yield f"unmeasured: {', '.join(upgrade.unmeasured)}"
    yield f"harmful: {', '.join(harmful_packages(upgrade))}"
    yield from guard_lines(upgrade, verbose=True)


def test_guard_result_lists_harmful_and_unknown_changes() -> None:
    texts = {title: "\n".join(view(it)) for title, it in COMPARED.items()}
    # On another Python, commands that measure name this one.
    compare_views("guard", {it: text.replace(ENVIRONMENT.option, "") for it, text in texts.items()})


def test_vulnerabilities_are_looked_up_for_versions_without_a_candidate() -> None:
    snapshot = snapshot_of(INDEX, INDEX)
    assert versions_without_candidate(ONE, NINE, snapshot) == [("fast", "9")]


def test_bundled_libraries_in_evidence_are_read_back_from_json() -> None:
    assert Evidence.from_json(BUNDLING.to_json()) == BUNDLING


def test_unrelated_versions_do_not_change_the_p_value_of_guard() -> None:
    bench = Bench()
    draw = np.random.default_rng(5)
    names = [f"1.{n}" for n in range(60)]
    for name in names:
        level = -0.08 if name == "1.1" else 0.0
        bench.measure(bench.stack(f"fast=={name}"), draw.normal(level, 0.03, 10))
    old, new = {"fast": "1.0"}, {"fast": "1.1"}
    (among_many,), (alone,) = (
        guarded(old, new, bench.evidence(), {"fast": {it: {} for it in index}}).slower
        for index in (names, names[:2])
    )
    assert among_many.p_value == alone.p_value


def test_measurements_on_other_hardware_do_not_change_the_guard_result() -> None:
    draw, here, both = np.random.default_rng(5), Bench(), Bench()
    for version, level in (("1", 0.0), ("2", -0.08)):
        rates = draw.normal(level, 0.03, 10)
        for bench in (here, both):
            bench.measure(bench.stack(f"fast=={version}"), rates)
        stack = both.stack(f"rest=={version}")
        both.measure(stack, draw.normal(0, 0.03, 10), series(hardware=ELSEWHERE))
    alone, among = (guarded(ONE, FAST_2, it.evidence(), TWO_PACKAGES) for it in (here, both))
    assert alone.slower
    assert (among.comparisons, among.slower) == (alone.comparisons, alone.slower)


def test_undetermined_results_of_others_are_left_out_for_packages_compared_here() -> None:
    upgrade = guarded(ONE, TWO, with_open_verdict())
    (open_,) = upgrade.undetermined
    both = replace(upgrade, shown=(open_, replace(open_, package="rest")))
    for every, expected in ((False, ["rest"]), (True, ["fast", "rest"])):
        listed = [it for it in findings_of(both, every=every) if it.group is GuardGroup.SHOWN]
        assert [it.package for it in listed] == expected


def test_guard_ignores_unknown_fields_of_a_newer_service() -> None:
    where = environment("3.11", "linux_x86_64")
    snapshot = with_revision(Snapshot("", where, (), {}, {}, (), {}, (), {}))
    vulnerabilities = {("numpy", "1.0"): (KnownVulnerability("CVE-1", "high", 7.5),)}
    hardware = (RecordedHardware(HERE, "a machine", {"cpus": 2}),)
    knowledge = LockKnowledge(snapshot, Evidence(NOW), vulnerabilities, hardware)
    document = json.loads(knowledge.to_json())
    document["hardware"][0]["vendor"] = "new"
    document["vulnerabilities"][0][2][0].append("new")
    document["vulnerabilities"][0].append("new")
    document["new"] = 1
    assert LockKnowledge.from_json(json.dumps(document).encode()) == knowledge
