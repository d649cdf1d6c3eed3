"""What ``thoth guard`` proposes instead of harm: the nearest version, in a lock that is valid."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from adviser.guard import GuardResult, Proposal, guard
from adviser.guard_findings import GuardGroup, findings_of, proposal_text
from adviser.guard_proposals import UpgradeProposals, harmful_packages
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.snapshot import Snapshot
from tests.factories.evidence import GAIN, HERE, Bench, at_levels, jobs
from tests.factories.golden import compare_views
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of, with_vulnerabilities

#: ``web`` 3 needs ``core`` 2; ``core`` 2.1 needs a package that neither lock has.
INDEX: Index = {
    "web": {
        "4": {"requires": ["core>=3"]},
        "3": {"requires": ["core>=2"]},
        "2.5": {"requires": ["core>=2"]},
        "2": {"requires": ["core<2"]},
        "1": {"requires": ["core"]},
    },
    "core": {"2.1": {"requires": ["new"]}, "2": {}, "1": {}},
    "tool": {"2": {}, "1": {}},
}
OLD = {"web": "1", "core": "1", "tool": "1"}
NEW = {"web": "3", "core": "2", "tool": "2"}


def known(vulnerable: Mapping[str, str] | None = None) -> Snapshot:
    """The index; some releases, such as ``web==3``, have a vulnerability."""
    return with_vulnerabilities(snapshot_of(INDEX, INDEX), vulnerable or {})


def compared(
    snapshot: Snapshot, evidence: Evidence = NOTHING, *requirements: Dependency
) -> tuple[GuardResult, UpgradeProposals]:
    sides = OLD, NEW, snapshot, evidence, ENVIRONMENT, HERE
    search = UpgradeProposals(*sides, requirements=requirements)
    upgrade = guard(*sides)
    return search.with_proposals(upgrade), search


def tool_levels(**levels: float) -> Evidence:
    return at_levels("tool", "core==1", **levels).evidence()


@pytest.mark.parametrize("every", [False, True])
def test_guard_findings_are_grouped_and_name_their_source(every: bool) -> None:
    upgrade, _ = compared(known({"web==3": "V-1", "core==1": "V-0"}), tool_levels(v1=0.0, v2=-GAIN))
    groups = {it.group: it for it in findings_of(upgrade, every=every)}
    assert list(groups) == [
        GuardGroup.SLOWER, GuardGroup.VULNERABLE, GuardGroup.FIXED, GuardGroup.UNMEASURED,
    ]  # fmt: skip
    assert groups[GuardGroup.SLOWER].rule == "slower"
    assert groups[GuardGroup.VULNERABLE].line == "web 3 has V-1 (high)"
    assert groups[GuardGroup.VULNERABLE].known_by == "its advisory is known"
    assert groups[GuardGroup.UNMEASURED].message == "no indicator measures core, web"
    assert groups[GuardGroup.UNMEASURED].known_by is None


def test_guard_proposes_versions_for_few_harmful_packages_and_counts_the_rest() -> None:
    names = [f"p{it:03}" for it in range(400)]
    snapshot = snapshot_of({name: {"2": {}, "1": {}} for name in names}, names)
    snapshot = with_vulnerabilities(snapshot, {f"{name}==2": "V-1" for name in names})
    old, new = dict.fromkeys(names, "1"), dict.fromkeys(names, "2")
    sides = old, new, snapshot, NOTHING, ENVIRONMENT, HERE
    upgrade, search = guard(*sides), UpgradeProposals(*sides)
    tried = search.with_proposals(upgrade)
    assert tried.proposals[0] == Proposal("p000", "2", "1")
    assert 0 < len(tried.proposals) <= 10
    assert tried.untried == 400 - len(tried.proposals)
    out_of_time = search.with_proposals(upgrade, 0.0)
    assert (out_of_time.proposals, out_of_time.untried) == ((), 400)
    assert not search.lock_without(names, upgrade, 0.0).versions


def test_guard_never_proposes_a_vulnerable_version_whose_metadata_was_not_read() -> None:
    old, new = {"web": "2.5"}, {"web": "3"}
    vulnerabilities = {("web", "3"): [KnownVulnerability("V-1")]}
    sides = old, new, snapshot_of({}, ["web"]), NOTHING, ENVIRONMENT, HERE, vulnerabilities
    upgrade = guard(*sides)
    (proposal,) = UpgradeProposals(*sides).with_proposals(upgrade).proposals
    assert (proposal.instead, proposal.unread) == ("2.5", ("web",))


BENCH = Bench()
for _lock, _level in ((OLD, 0.0), (NEW, -GAIN)):
    BENCH.measure(BENCH.stack(*(f"{name}=={it}" for name, it in _lock.items())), jobs(_level, 10))
WHOLE = BENCH.evidence()
BENCH.measure(BENCH.stack("web==1", "core==1", "tool==2"), jobs(-GAIN, 10))

RECENT = {f"web=={it}": "V-1" for it in ("3", "2.5")}
SLOWER = tool_levels(v1=0.0, v2=-GAIN)
BETWEEN = {**INDEX, "tool": {"2": {}, "1.5": {}, "1": {}}}
UNREAD = known({"web==3": "V-1"})
UNREAD = replace(UNREAD, packages={
    **UNREAD.packages,
    "core": tuple(it for it in UNREAD.packages["core"] if it.version != "2"),
})  # fmt: skip
#: A snapshot, evidence and the requirements of the project.
UPGRADES: dict[str, tuple[Snapshot, Evidence, *tuple[Dependency, ...]]] = {
    "the nearest version without a vulnerability": (known({"web==3": "V-1"}), NOTHING),
    "the old lock has the vulnerability": (known({**RECENT, "web==1": "V-1"}), NOTHING),
    "the old lock has another vulnerability": (known({**RECENT, "web==1": "V-0"}), NOTHING),
    "a version that needs an older companion": (known(RECENT), NOTHING, Dependency("web", ">=2")),
    "no valid lock": (known(RECENT), NOTHING, Dependency("web", ">=3")),
    "a slow-down, and a version between that was not measured": (
        snapshot_of(BETWEEN, BETWEEN),
        SLOWER,
    ),
    "a slow-down, and a version between that is as fast": (
        snapshot_of(BETWEEN, BETWEEN),
        tool_levels(v1=0.0, **{"v1.5": 0.001}, v2=-GAIN),
    ),
    "a slower lock": (known(), WHOLE),
    "a slower lock, and the package that makes it slower": (known(), BENCH.evidence()),
    "a slow-down and a vulnerability": (known({"web==3": "V-1"}), SLOWER),
    "requirements that were not read": (UNREAD, NOTHING),
}


def test_guard_proposes_locks_that_do_no_harm() -> None:
    views = {}
    for title, (snapshot, evidence, *requirements) in UPGRADES.items():
        upgrade, search = compared(snapshot, evidence, *requirements)
        harmful = harmful_packages(upgrade)
        lock = search.lock_without(harmful, upgrade).versions
        if lock:
            again = guard(OLD, lock, snapshot, evidence, ENVIRONMENT, HERE)
            assert not harmful_packages(again), title
        proposals = [f"{it.package} {it.version}: {proposal_text(it)}" for it in upgrade.proposals]
        pins = ", ".join(f"{name} {it}" for name, it in lock.items())
        views[title] = "\n".join([f"harmful: {', '.join(harmful)}", *proposals, f"lock: {pins}"])
    compare_views("guard_proposals", views)
