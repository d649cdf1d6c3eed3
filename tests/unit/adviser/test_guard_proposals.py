"""What ``thoth guard`` proposes instead of harm: the nearest version, in a lock that is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from adviser.guard import GuardResult, Proposal, guard
from adviser.guard_findings import GuardGroup, findings_of, proposal_text
from adviser.guard_proposals import UpgradeProposals, harmful_packages
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.snapshot import Snapshot
from tests.factories.evidence import GAIN, HERE, Bench, jobs
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

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
    snapshot, harm = snapshot_of(INDEX, INDEX), vulnerable or {}
    packages = {
        name: tuple(
            replace(it, vulnerabilities=(KnownVulnerability(harm[release], "high"),))
            if (release := f"{name}=={it.version}") in harm
            else it
            for it in candidates
        )
        for name, candidates in snapshot.packages.items()
    }
    return replace(snapshot, packages=packages)


def compared(
    snapshot: Snapshot, evidence: Evidence = NOTHING, *requirements: Dependency
) -> tuple[GuardResult, UpgradeProposals]:
    sides = OLD, NEW, snapshot, evidence, ENVIRONMENT, HERE
    search = UpgradeProposals(*sides, requirements=requirements)
    upgrade = guard(*sides)
    return search.with_proposals(upgrade), search


def tool_levels(**levels: float) -> Evidence:
    """Ten jobs of versions of ``tool``; ``v2=-0.3`` is a log speed."""
    bench = Bench()
    for version, level in levels.items():
        bench.measure(bench.stack(f"tool=={version[1:]}", "core==1"), jobs(level, 10))
    return bench.evidence()


def test_the_nearest_version_without_a_vulnerability_keeps_the_rest_of_the_lock() -> None:
    upgrade, search = compared(known({"web==3": "V-1"}))
    assert upgrade.proposals == (Proposal("web", "3", "2.5"),)
    assert proposal_text(upgrade.proposals[0]).startswith("instead: web 2.5 (the nearest")
    assert search.lock_without(["web"], upgrade).versions == {**NEW, "web": "2.5"}


def test_another_package_moves_only_if_no_version_fits_the_new_lock() -> None:
    vulnerable = {f"web=={it}": "V-1" for it in ("3", "2.5", "1")}
    upgrade, _ = compared(known(vulnerable))
    # The old lock has V-1, so nothing is harmful; another vulnerability is.
    assert not upgrade.proposals
    upgrade, _ = compared(known({**vulnerable, "web==1": "V-0"}))
    (proposal,) = upgrade.proposals
    assert (proposal.instead, proposal.others) == ("1", {})


def test_a_version_that_needs_an_older_companion_is_proposed_with_it() -> None:
    snapshot = known({f"web=={it}": "V-1" for it in ("3", "2.5")})
    bound = Dependency("web", ">=2")
    upgrade, search = compared(snapshot, NOTHING, bound)
    (proposal,) = upgrade.proposals
    assert (proposal.instead, proposal.others) == ("2", {"core": "1"})
    assert search.lock_without(["web"], upgrade).versions == {**NEW, "web": "2", "core": "1"}


def test_a_harm_without_any_valid_lock_is_said_with_its_reason() -> None:
    snapshot = known({f"web=={it}": "V-1" for it in ("3", "2.5")})
    upgrade, search = compared(snapshot, NOTHING, Dependency("web", ">=3"))
    (proposal,) = upgrade.proposals
    assert proposal.instead is None
    assert "web" in (proposal.problem or "")
    assert search.lock_without(["web"], upgrade).versions == {}


def test_a_slowdown_is_left_by_the_old_version_and_not_by_an_unmeasured_one() -> None:
    index = {**INDEX, "tool": {"2": {}, "1.5": {}, "1": {}}}
    snapshot = snapshot_of(index, index)
    upgrade, _ = compared(snapshot, tool_levels(v1=0.0, v2=-GAIN))
    assert upgrade.proposals == (Proposal("tool", "2", "1"),)
    measured = tool_levels(v1=0.0, **{"v1.5": 0.001}, v2=-GAIN)
    upgrade, _ = compared(snapshot, measured)
    assert upgrade.proposals == (Proposal("tool", "2", "1.5"),)


def test_of_a_slower_lock_the_package_that_does_it_is_replaced() -> None:
    bench = Bench()
    sides = [[f"{name}=={it}" for name, it in lock.items()] for lock in (OLD, NEW)]
    for releases, level in (*zip(sides, (0.0, -GAIN), strict=True),):
        bench.measure(bench.stack(*releases), jobs(level, 10))
    upgrade, _ = compared(known(), bench.evidence())
    assert [it.package for it in upgrade.slower] == [None]
    assert upgrade.proposals == ()
    bench.measure(bench.stack("web==1", "core==1", "tool==2"), jobs(-GAIN, 10))
    upgrade, _ = compared(known(), bench.evidence())
    assert harmful_packages(upgrade) == ["tool"]
    assert upgrade.proposals == (Proposal("tool", "2", "1"),)


def test_an_upgrade_without_its_harm_keeps_everything_else() -> None:
    snapshot = known({"web==3": "V-1"})
    upgrade, search = compared(snapshot, tool_levels(v1=0.0, v2=-GAIN))
    assert harmful_packages(upgrade) == ["tool", "web"]
    lock = search.lock_without(harmful_packages(upgrade), upgrade)
    assert lock.versions == {"web": "2.5", "core": "2", "tool": "1"}
    result = guard(OLD, lock.versions, snapshot, tool_levels(v1=0.0, v2=-GAIN), ENVIRONMENT, HERE)
    assert not harmful_packages(result)


def test_a_lock_that_was_not_read_is_proposed_without_a_proof() -> None:
    snapshot = known({"web==3": "V-1"})
    core = tuple(it for it in snapshot.packages["core"] if it.version != "2")
    unread = replace(snapshot, packages={**snapshot.packages, "core": core})
    upgrade, _ = compared(unread)
    (proposal,) = upgrade.proposals
    assert (proposal.instead, proposal.unread) == ("2.5", ("core",))
    assert "not proven: the requirements of core are unknown" in proposal_text(proposal)


@pytest.mark.parametrize("every", [False, True])
def test_findings_are_grouped_and_say_how_they_are_known(every: bool) -> None:
    upgrade, _ = compared(known({"web==3": "V-1", "core==1": "V-0"}), tool_levels(v1=0.0, v2=-GAIN))
    groups = {it.group: it for it in findings_of(upgrade, every=every)}
    assert list(groups) == [
        GuardGroup.SLOWER, GuardGroup.VULNERABLE, GuardGroup.FIXED, GuardGroup.UNMEASURED,
    ]  # fmt: skip
    assert groups[GuardGroup.SLOWER].rule == "slower"
    assert groups[GuardGroup.VULNERABLE].line.startswith("web 3 has V-1 (high) [its advisory")
    assert groups[GuardGroup.UNMEASURED].message == "no indicator measures core, web"
    assert groups[GuardGroup.UNMEASURED].known_by is None


def test_of_many_harmful_packages_few_are_tried_in_time_and_the_rest_are_counted() -> None:
    names = [f"p{it:03}" for it in range(400)]
    snapshot = snapshot_of({name: {"2": {}, "1": {}} for name in names}, names)
    packages = {
        name: tuple(
            replace(it, vulnerabilities=(KnownVulnerability("V-1", "high"),) * (it.version == "2"))
            for it in candidates
        )
        for name, candidates in snapshot.packages.items()
    }
    old, new = dict.fromkeys(names, "1"), dict.fromkeys(names, "2")
    sides = old, new, replace(snapshot, packages=packages), NOTHING, ENVIRONMENT, HERE
    upgrade, search = guard(*sides), UpgradeProposals(*sides)
    tried = search.with_proposals(upgrade)
    assert tried.proposals[0] == Proposal("p000", "2", "1")
    assert 0 < len(tried.proposals) <= 10
    assert tried.untried == 400 - len(tried.proposals)
    out_of_time = search.with_proposals(upgrade, 0.0)
    assert (out_of_time.proposals, out_of_time.untried) == ((), 400)
    assert not search.lock_without(names, upgrade, 0.0).versions
