"""Fixes of a lock: the smallest, the same without a slow-down, and what blocks the rest."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from adviser.advise import in_this_process
from adviser.answering.lock_fixes import LockFixes
from adviser.fix import FixResult, FixSearch
from adviser.fix_universe import CountedVulnerabilities, LockToFix
from adviser.reports.checking import check_fix_proof, proof_document
from adviser.resolver.listed_versions import UniverseResolver
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Resolution
from adviser.scoring.criteria import AllowList
from adviser.vex import VexProduct, VexStatement, VexStatements, VexStatus
from cli.fix import exit_code, fix_lines
from model.advisories import Severity
from model.json_documents import canonical_json
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.snapshot import Snapshot
from tests.factories.evidence import GAIN, HERE, at_levels
from tests.factories.golden import compare_views
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of, with_vulnerabilities

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
    snapshot = with_vulnerabilities(snapshot_of(index, index), vulnerable)
    packages = {
        name: tuple(
            replace(it, uploaded_at=uploaded.get(f"{name}_{it.version}", it.uploaded_at))
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
    resolver: UniverseResolver = in_this_process,
    **rules: Any,
) -> FixResult:
    counted = rules.pop("counted", CountedVulnerabilities(AllowList((), {})))
    lock = LockToFix(locked, counted, rules.pop("request", ResolverRequest()), **rules)
    search = FixSearch(lock, snapshot, evidence, ENVIRONMENT, HERE, resolver)
    result = search.result()
    return result if newest is None else search.with_newest(result, newest)


def out_of_time(*arguments: Any, **options: Any) -> Resolution:
    return replace(in_this_process(*arguments, **options), stacks=(), conflict=None)


def tool_levels(**levels: float) -> Evidence:
    return at_levels("tool", "core==1", **levels).evidence()


def test_fix_proof_check_detects_a_smaller_fix() -> None:
    result = fixed(known({"web==1": "V-1", "tool==1": "V-2"}))
    proof = proof_document(result)
    assert proof is not None
    document = orjson.loads(canonical_json(proof))
    checked = check_fix_proof(document)
    assert (checked.problems, len(checked.verified)) == ((), 3)
    wrong = {**document, "numbers": {**document["numbers"], "changed packages": 1}}
    assert check_fix_proof(wrong).problems == ("changed packages: 2 instead of 1",)


NOT_AFFECTED = VexStatement(
    frozenset({"V-1"}), VexStatus.NOT_AFFECTED, "", "a", products=(VexProduct("tool", "1"),)
)
NONE = AllowList((), {})
CLOSED = CountedVulnerabilities(NONE, vex=VexStatements([NOT_AFFECTED], {}, NOW.date()))
LONG_AGO, LATELY = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
#: ``tool`` 2 is younger than allowed.
YOUNG_TOOL = dict.fromkeys(("tool_1", "tool_3", "core_1", "web_1", "old_1"), LONG_AGO) | {
    "tool_2": LATELY
}
YANKED: Index = {**INDEX, "tool": {it: {"yanked": True} for it in "321"}}
CORE_1 = {"core==1": "V-1", "core==1.1": "V-1"}
WITHOUT_OLD = {name: it for name, it in LOCK.items() if name != "old"}
#: A snapshot, and options of the search.
FIXES: dict[str, tuple[Snapshot, dict[str, Any]]] = {
    "the nearest version is slower": (
        known({"tool==1": "V-1"}), {"evidence": tool_levels(v1=0.0, v2=-GAIN, v3=0.001)},
    ),
    "nothing was measured, and there is a newer version": (
        known({"tool==1": "V-1"}), {"newest": {**LOCK, "tool": "3"}},
    ),
    "no smallest fix is found in time, and there is a newer version": (
        known({"tool==1": "V-1"}), {"resolver": out_of_time, "newest": {**LOCK, "tool": "3"}},
    ),
    "a dropped package counts as changed": (
        known({"web==1": "V-1", "web==1.1": "V-1", "web==2": "V-1"}), {},
    ),
    "other versions have another vulnerability": (
        known({"tool==1": "V-1", "tool==2": "V-2", "tool==3": "V-2"}), {},
    ),
    "another version has a vulnerability that is accepted": (
        known({"tool==1": "V-1", "tool==2": "V-2"}),
        {"counted": CountedVulnerabilities(AllowList(["v-2"], {}))},
    ),
    "one vulnerability is chosen": (
        known({"tool==1": "V-1", "core==1": "V-3"}),
        {"counted": CountedVulnerabilities(NONE, AllowList(["V-3"], {}))},
    ),
    "only critical vulnerabilities count": (
        known({"tool==1": "V-1"}),
        {"counted": CountedVulnerabilities(NONE, None, Severity.CRITICAL)},
    ),
    "a document closes one of two vulnerabilities": (
        known({"tool==1": "V-1 V-2", "tool==2": "V-1"}), {"counted": CLOSED},
    ),
    "a document closes the only vulnerability": (known({"tool==1": "V-1"}), {"counted": CLOSED}),
    "the nearest version is too young": (
        known({"tool==1": "V-1"}, **YOUNG_TOOL), {"young_from": NOW},
    ),
    "the only version is too young": (
        known({"tool==1": "V-1", "tool==3": "V-1"}, **YOUNG_TOOL), {"young_from": NOW},
    ),
    "other versions were yanked": (known({"tool==1": "V-1"}, YANKED), {}),
    "the lock itself does not meet a requirement": (
        known({"tool==1": "V-1"}), {"locked": {**LOCK, "core": "2"}},
    ),
    "a version that no index has": (
        known({}),
        {"locked": {**LOCK, "tool": "0.9"},
         "vulnerabilities": {("tool", "0.9"): [KnownVulnerability("V-1")]}},
    ),
    "a version and a package that nothing knows": (
        known({}, {**INDEX, "mine": {}}), {"locked": {**LOCK, "tool": "0.9", "mine": "1"}},
    ),
    "nothing knows a package of the lock": (
        known({}, {**INDEX, "mine": {}}), {"locked": {"tool": "0.9", "mine": "1"}},
    ),
    "no version but the locked one is known": (
        known({}, {**INDEX, "tool": {}}),
        {"vulnerabilities": {("tool", "1"): [KnownVulnerability("V-1")]}},
    ),
    "a package that the project requires was never read": (
        known({"tool==1": "V-1"}, {**INDEX, "gone": {}}),
        {"requirements": (Dependency("gone"), Dependency("tool"))},
    ),
    "a package that is no part of the lock": (
        known({"core==1": "V-1"}), {"locked": WITHOUT_OLD, "elsewhere": frozenset({"old"})},
    ),
    "the requirements of the project block it": (
        known(CORE_1), {"requirements": (Dependency("web", "<3"), Dependency("tool"))},
    ),
    "the requirements of the project do not block it": (
        known(CORE_1), {"requirements": (Dependency("web"), Dependency("tool"))},
    ),
    "a group of the project blocks it": (
        known({"tool==1": "V-1"}),
        {"request": ResolverRequest(constraints=(Dependency("tool", "==1"),)),
         "bounds": {"tool==1": "the group dev"}},
    ),
    "one of two is blocked": (
        known({**CORE_1, "tool==1": "V-2", "web==3": "V-3"}),
        {"requirements": (Dependency("web"), Dependency("tool"))},
    ),
    "nothing is open": (known({}), {}),
    "nothing is open in the selected packages": (known({}), {"not_looked_at": 3}),
    "something is open in the selected packages": (known({"tool==1": "V-1"}), {"not_looked_at": 1}),
}  # fmt: skip


def test_fix_lists_changed_packages_and_remaining_vulnerabilities() -> None:
    views = {}
    for title, (snapshot, options) in FIXES.items():
        others = options.pop("not_looked_at", 0)
        result = fixed(snapshot, **options)
        fixes = LockFixes(result, options.get("locked", LOCK), snapshot, NOTHING, NOW, others)
        lines = "\n".join(fix_lines(fixes, NOW + timedelta(days=2)))
        there = "\n".join(fix_lines(fixes, NOW + timedelta(days=2), " --python 3.12"))
        assert there.count("--python 3.12") == lines.count("`thoth ")
        assert there.replace(" --python 3.12", "") == lines
        views[f"{title}: exit code {exit_code(fixes)}"] = lines
        assert len(fixes.document()["fixes"]) == len(result.fixes)
        for fix in result.fixes:
            if fix.proof is not None:
                assert fix.proof.numbers["changed packages"] == len(fix.changed)
    compare_views("fix", views)
