"""Fixes of a lock: the smallest, the same without a slow-down, and what blocks the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from adviser.advise import in_this_process
from adviser.answering.lock_fixes import LockFixes
from adviser.fix import FixResult, FixSearch
from adviser.fix_universe import CountedVulnerabilities, LockToFix
from adviser.reports.fix_proof import check_fix_proof, proof_document
from adviser.resolver.resolver_request import ResolverRequest
from adviser.scoring.vulnerability_policy import AllowList
from adviser.vex import VexProduct, VexStatement, VexStatements, VexStatus
from cli.fix import exit_code, fix_lines
from model.advisories import Severity
from model.json_documents import canonical_json
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.snapshot import Snapshot
from tests.factories.evidence import GAIN, HERE, Bench, jobs
from tests.factories.golden import compare_views
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: ``web`` 3 needs ``core`` 2 and nothing of ``old``; ``tool`` 2 and 3 are major steps.
INDEX: Index = {
    "web": {
        "3": {"requires": ["core>=2"]},
        "2": {"requires": ["core<2", "old"]},
        "1.1": {"requires": ["core<2", "old"]},
        "1": {"requires": ["core<2", "old"]},
    },
    "core": {"2.1": {}, "2": {}, "1.1": {}, "1": {}},
    "old": {"1": {}},
    "tool": {"3": {}, "2": {}, "1": {}},
}
LOCK = {"web": "1", "core": "1", "old": "1", "tool": "1"}


def known(vulnerable: Mapping[str, str], index: Index = INDEX, **uploaded: datetime) -> Snapshot:
    """The index; releases such as ``web==3`` have a vulnerability; times are by ``tool_2``."""
    snapshot = snapshot_of(index, index)
    packages = {
        name: tuple(
            replace(
                it,
                vulnerabilities=tuple(
                    KnownVulnerability(one, "high")
                    for one in vulnerable.get(f"{name}=={it.version}", "").split()
                ),
                uploaded_at=uploaded.get(f"{name}_{it.version}", it.uploaded_at),
            )
            for it in candidates
        )
        for name, candidates in snapshot.packages.items()
    }
    return replace(snapshot, packages=packages)


def fixed(
    snapshot: Snapshot,
    locked: Mapping[str, str] = LOCK,
    evidence: Evidence = NOTHING,
    newest: Mapping[str, str] | None = None,
    **rules: Any,
) -> FixResult:
    counted = rules.pop("counted", CountedVulnerabilities(AllowList((), {})))
    lock = LockToFix(locked, counted, rules.pop("request", ResolverRequest()), **rules)
    search = FixSearch(lock, snapshot, evidence, ENVIRONMENT, HERE, in_this_process)
    result = search.result()
    return result if newest is None else search.with_newest(result, newest)


def changed(result: FixResult, place: int = 0) -> dict[str, str | None]:
    return {it.name: it.new for it in result.fixes[place].changed}


def tool_levels(**levels: float) -> Evidence:
    bench = Bench()
    for version, level in levels.items():
        bench.measure(bench.stack(f"tool=={version[1:]}", "core==1"), jobs(level, 10))
    return bench.evidence()


def test_the_nearest_version_is_taken_and_a_slower_one_has_an_alternative() -> None:
    snapshot = known({"tool==1": "V-1"})
    result = fixed(snapshot, evidence=tool_levels(v1=0.0, v2=-GAIN, v3=0.001))
    assert [it.kind for it in result.fixes] == ["smallest", "not_slower"]
    assert (changed(result), changed(result, 1)) == ({"tool": "2"}, {"tool": "3"})
    assert [it.changed[0].verdict for it in result.fixes] == ["slower", "equivalent"]
    unmeasured = fixed(snapshot, newest={**LOCK, "tool": "3"})
    assert [it.kind for it in unmeasured.fixes] == ["smallest", "newest"]
    (change,) = unmeasured.fixes[0].changed
    assert change.verdict == "not measured"
    assert change.settled_by is None  # no indicator measures it


def test_a_dropped_package_counts_as_changed() -> None:
    """Only ``web`` 3 is free; it drops ``old`` and moves ``core``, so three packages change."""
    result = fixed(known({"web==1": "V-1", "web==1.1": "V-1", "web==2": "V-1"}))
    assert changed(result) == {"web": "3", "core": "2.1", "old": None}
    proof = result.fixes[0].proof
    assert proof is not None
    assert proof.numbers["changed packages"] == proof.at_least["changed packages"] == 3


def test_what_has_another_vulnerability_is_no_fix() -> None:
    result = fixed(known({"tool==1": "V-1", "tool==2": "V-2", "tool==3": "V-2"}))
    (fix,) = result.fixes
    assert not fix.changed
    assert [it.id for it in fix.remaining] == ["V-1"]
    blocker = fix.remaining[0].blocked_by
    assert blocker is not None
    assert "a fix must have tool without V-2" in blocker.reasons
    accepted = CountedVulnerabilities(AllowList(["v-2"], {}))
    assert changed(fixed(known({"tool==1": "V-1", "tool==2": "V-2"}), counted=accepted)) == {
        "tool": "2"
    }


def test_only_chosen_and_severe_vulnerabilities_count() -> None:
    snapshot = known({"tool==1": "V-1", "core==1": "V-3"})
    nothing = AllowList((), {})
    one = fixed(snapshot, counted=CountedVulnerabilities(nothing, AllowList(["V-3"], {})))
    assert changed(one) == {"core": "1.1"}
    assert not fixed(
        snapshot, counted=CountedVulnerabilities(nothing, None, Severity.CRITICAL)
    ).open


def test_what_a_document_closes_is_not_open_in_the_versions_that_it_names() -> None:
    said = VexStatement(
        frozenset({"V-1"}), VexStatus.NOT_AFFECTED, "", "a", products=(VexProduct("tool", "1"),)
    )
    counted = CountedVulnerabilities(AllowList((), {}), vex=VexStatements([said], {}, NOW.date()))
    result = fixed(known({"tool==1": "V-1 V-2", "tool==2": "V-1"}), counted=counted)
    assert changed(result) == {"tool": "3"}
    assert [(it.id, it.vex) for it in result.closed] == [("V-1", said)]
    assert not fixed(known({"tool==1": "V-1"}), counted=counted).open


def test_young_versions_are_chosen_only_to_remove_a_vulnerability() -> None:
    old, new = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    times = {"tool_1": old, "tool_2": new, "tool_3": old, "core_1": old, "web_1": old, "old_1": old}
    result = fixed(known({"tool==1": "V-1"}, **times), young_from=NOW)
    assert (changed(result), result.fixes[0].younger_than_allowed) == ({"tool": "3"}, ())
    result = fixed(known({"tool==1": "V-1", "tool==3": "V-1"}, **times), young_from=NOW)
    assert (changed(result), result.fixes[0].younger_than_allowed) == ({"tool": "2"}, ("tool",))


def test_a_yanked_version_is_kept_and_never_chosen() -> None:
    index = {**INDEX, "tool": {"3": {"yanked": True}, "2": {"yanked": True}, "1": {"yanked": True}}}
    result = fixed(known({"tool==1": "V-1"}, index))
    assert not result.fixes[0].changed
    assert result.fixes[0].remaining


def test_what_the_lock_itself_does_not_meet_does_not_count() -> None:
    locked = {**LOCK, "core": "2"}  # web 1 needs core<2
    result = fixed(known({"tool==1": "V-1"}), locked)
    assert changed(result) == {"tool": "2"}
    assert result.universe.unmet == {"web": (Dependency("core", "<2"),)}


def test_packages_that_no_index_has_are_kept_and_others_are_no_part_of_the_fix() -> None:
    locked = {**LOCK, "tool": "0.9", "web": "1"}
    affecting = {("tool", "0.9"): [KnownVulnerability("V-1")]}
    result = fixed(known({}), locked, vulnerabilities=affecting)
    assert result.universe.unknown == ("tool",)
    assert changed(result) == {"tool": "1"}
    without = {name: it for name, it in LOCK.items() if name != "old"}
    result = fixed(known({"core==1": "V-1"}), without, elsewhere=frozenset({"old"}))
    assert changed(result) == {"core": "1.1"}


def test_the_requirements_of_the_project_count_and_block_in_its_words() -> None:
    snapshot = known({"core==1": "V-1", "core==1.1": "V-1"})
    roots = (Dependency("web", "<3"), Dependency("tool"))
    result = fixed(snapshot, requirements=roots)
    blocker = result.fixes[0].remaining[0].blocked_by
    assert blocker is not None
    assert blocker.proven
    assert blocker.requirers == ("web 2 to 1 (3 versions) requires core<2",)
    assert "the project requires web<3" in blocker.reasons
    assert "a wider requirement of the project than web<3" in blocker.unblocked_by
    free = fixed(snapshot, requirements=(Dependency("web"), Dependency("tool")))
    assert changed(free) == {"web": "3", "core": "2.1", "old": None}


def test_a_proof_is_checked_by_itself_and_a_smaller_answer_is_found() -> None:
    result = fixed(known({"web==1": "V-1", "tool==1": "V-2"}))
    proof = proof_document(result)
    assert proof is not None
    document = orjson.loads(canonical_json(proof))
    checked = check_fix_proof(document)
    assert (checked.problems, len(checked.verified)) == ((), 3)
    wrong = {**document, "numbers": {**document["numbers"], "changed packages": 1}}
    assert check_fix_proof(wrong).problems == ("changed packages: 2 instead of 1",)


def test_fixes_read_well() -> None:
    snapshot = known({"core==1": "V-1", "core==1.1": "V-1", "tool==1": "V-2", "web==3": "V-3"})
    views = {}
    for title, result in {
        "one is blocked": fixed(snapshot, requirements=(Dependency("web"), Dependency("tool"))),
        "slower": fixed(known({"tool==1": "V-2"}), evidence=tool_levels(v1=0.0, v2=-GAIN, v3=0.0)),
        "nothing is open": fixed(known({})),
    }.items():
        fixes = LockFixes(result, LOCK, snapshot, NOTHING, NOW)
        lines = "\n".join(fix_lines(fixes, NOW + timedelta(days=2)))
        views[f"{title}: exit code {exit_code(fixes)}"] = lines
        assert len(fixes.document()["fixes"]) == len(result.fixes)
    compare_views("fix", views)
