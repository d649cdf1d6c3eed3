"""The report: its shape, its claims, its pipeline, and that equal requests give equal bytes."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adviser.advice_request import StackRequest
from adviser.advise import advise, in_this_process
from adviser.reports.checking import check_offline
from adviser.reports.documents import (
    ReleaseKnowledge,
    pipeline_of,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.serialization import (
    claim_document,
    dataclass_from_json,
    dataclass_to_json,
    digest_of_code,
    plain,
)
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution, ResolutionStatus, SearchLimit
from adviser.resolver.universe import Universe
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.assessment_types import Claim, Premises
from adviser.scoring.criteria import RecommendationType
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot
from tests.factories.case_files import described
from tests.factories.errors import raised
from tests.factories.evidence import Bench, claims_about, jobs
from tests.factories.golden import compare_views
from tests.factories.reports import METADATA, SCHEMA, kept, problems, report_of
from tests.factories.requests import (
    INDEX,
    NOTHING,
    advice_for,
    known_for,
    request_for,
    snapshot_for,
)
from tests.services.json_schemas import check_schema, validate


@pytest.mark.parametrize("manifest", ["web\ntool\n", "web>=3\ntool\n", "nowhere\n"])
@pytest.mark.parametrize("count", [1, 3])
def test_every_report_matches_the_published_schema(manifest: str, count: int) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    check_schema(schema)
    report = report_of(advice_for(request_for(manifest, count=count)))
    validate(report, schema)


def test_report_describes_a_stack_a_conflict_and_missing_hashes() -> None:
    """The first one is whole; of the others, the file has what is not in the first."""
    results = {
        "a stack": report_of(advice_for()),
        "a conflict": report_of(advice_for(request_for("web>=3\ntool\n"))),
        "no hashes": report_of(advice_for(), ReleaseKnowledge()),
    }
    views: dict[str, str] = {}
    whole: list[str] = []
    for title, report in results.items():
        lines = [
            re.sub(r"\b[0-9a-f]{32,64}\b", "DIGEST", it)
            for it in described(report["result"], "result")
        ]
        views[title] = "\n".join(it for it in lines if it not in whole)
        whole = whole or lines
    compare_views("results", views)


def stays(lock: str, **options: Any) -> list[list[str]]:
    """Of each stack, what it says of staying."""
    request = request_for(
        files={"requirements.in": "web\ntool\n", "requirements.txt": lock}, **options
    )
    return [
        [it["message"] for it in product["justification"] if it["code"] == "stay"]
        for product in report_of(advice_for(request))["result"]["report"]["products"]
    ]


def test_keeping_the_lock_is_advised_only_if_it_equals_the_best_stack() -> None:
    best, second = "core==1.1\ntool==1.0\nweb==2.0\n", "core==1.0\ntool==1.0\nweb==2.0\n"
    (first,), *others = stays(best, count=3)
    assert "no stack that meets the request is better" in first
    assert others == [[], []]
    assert stays(second, count=3) == [[], [], []]


def test_lock_with_an_additional_package_differs_from_the_advised_stack() -> None:
    assert stays("core==1.1\ntool==1.0\nweb==2.0\nold==1.0\n") == [[]]


def test_report_claims_optimality_only_with_a_proof() -> None:
    lock = "core==1.1\ntool==1.0\nweb==2.0\n"
    advice = advice_for(
        request_for(files={"requirements.in": "web\ntool\n", "requirements.txt": lock})
    )
    unproven = replace(
        advice.resolution, status=ResolutionStatus.FEASIBLE, bound=(1,), limit=SearchLimit.TIME
    )
    (product,) = report_of(replace(advice, resolution=unproven))["result"]["report"]["products"]
    assert "found no better one" in product["justification"][0]["message"]


def test_further_stack_that_cannot_be_locked_is_still_reported() -> None:
    advice = advice_for(request_for(count=2))
    best = {it.purl for it in advice.best.choices}
    known = ReleaseKnowledge(
        {purl: files for purl, files in known_for(advice).files.items() if purl in best}
    )
    result = report_of(advice, known)["result"]
    assert (result["error"], result["error_msg"]) == (False, None)
    (note,) = [it for it in result["report"]["stack_info"] if it["code"] == "no_lock"]
    assert note["type"] == "WARNING"
    assert note["message"].startswith("stack 2: ")
    first, second = (
        [it["format"] for it in one["artifacts"]] for one in result["report"]["products"]
    )
    assert "pipfile-lock" in first
    assert "pipfile-lock" not in second


def test_report_says_whether_the_baseline_search_was_settled() -> None:
    advice = advice_for()
    assert report_of(advice)["result"]["report"]["baseline"]["settled"] is True
    unsettled = report_of(replace(advice, premises=replace(advice.premises, settled=False)))
    assert unsettled["result"]["report"]["baseline"]["settled"] is False


def test_advice_remembers_an_unsettled_baseline_search() -> None:
    def hurried(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
        found = in_this_process(universe, budget, count=count)
        is_baseline = universe.newness == {0}
        return replace(found, settled=not is_baseline)

    request = request_for(kind=RecommendationType.PERFORMANCE)
    for evidence, settled in ((measured(6), False), (NOTHING, True)):
        advice = advise(request, snapshot_for(request), evidence, resolver=hurried)
        assert advice.premises.settled is settled


def test_replay_of_a_stored_request_gives_an_equal_report() -> None:
    request = request_for(
        "web\ntool\n", count=2, labels={"team": "blue"}, prereleases=frozenset({"web", "core"})
    )
    first = advice_for(request)
    report = report_bytes(report_document(result_document(first, known_for(first)), METADATA))
    with ResolverWorker() as worker:
        again = advise(
            dataclass_from_json(dataclass_to_json(request), StackRequest),
            Snapshot.from_json(first.snapshot.to_json()),
            Evidence.from_json(first.evidence.to_json()),
            resolver=worker.resolve,
            threads=2,
        )
    known = dataclass_from_json(dataclass_to_json(known_for(first)), ReleaseKnowledge)
    assert report_bytes(report_document(result_document(again, known), METADATA)) == report
    for value in (request, known, {"least": float("-inf")}):
        assert dataclass_to_json(value) == canonical_json(plain(value))


def test_stored_request_with_an_unknown_field_is_refused() -> None:
    with raised(InvalidDocument, reason=Reason.UNREADABLE):
        dataclass_from_json(b'{"project": {}, "more": 1}', StackRequest)


def test_document_that_is_no_advice_report_is_refused() -> None:
    advice = advice_for()
    with raised(InvalidDocument, reason=Reason.UNKNOWN_SCHEMA, field="schema_version"):
        problems({"schema_version": "report-0"}, advice)
    with raised(InvalidDocument, reason=Reason.UNREADABLE):
        problems({"schema_version": "report-2", "result": {}}, advice)


def test_baseline_reason_names_the_lock_file() -> None:
    lock = "core==1.0\ntool==1.0\nweb==1.0\n"
    request = request_for(files={"requirements.in": "web\ntool\n", "requirements.txt": lock})
    advice = advise(request, snapshot_for(request, INDEX), NOTHING)
    assert advice.baseline == {"core": "1.0", "tool": "1.0", "web": "1.0"}
    assert advice.baseline_reason == "the versions in requirements.txt"
    assert (
        replace(advice, premises=Premises(None)).baseline_reason
        == "the versions in requirements.txt"
    )


def measured(newest_jobs: int, noise: float = 0.05) -> Evidence:
    """``core`` 1.0 next to 1.1, which is 4 % faster."""
    bench = Bench()
    for version, rates in (("1.0", [0.0] * 6), ("1.1", [0.04] * newest_jobs)):
        stack = bench.stack(f"core=={version}", "tool==1.0", "web==2.0")
        bench.measure(stack, [rate + noise * (-1) ** n for n, rate in enumerate(rates)])
    return bench.evidence()


def test_report_suggests_jobs_for_an_undetermined_comparison() -> None:
    advice = advice_for(evidence=measured(6))
    report = report_of(advice)
    validate(report, json.loads(SCHEMA.read_text(encoding="utf-8")))
    inner = report["result"]["report"]
    (it,) = inner["next_jobs"]
    assert {it["purl"], it["baseline_purl"]} == {"pkg:pypi/core@1.0", "pkg:pypi/core@1.1"}
    assert it["jobs"] == it["baseline_jobs"] > 0
    assert 0 < it["chance"] < 1
    (note,) = [one for one in inner["stack_info"] if one["code"] == "next_jobs"]
    assert f"{it['jobs']} more jobs each, about 7.4 hours" in note["message"]
    assert problems(report, advice) == []


def test_inapplicable_requirement_is_an_isolated_node_of_the_dependency_graph() -> None:
    report = report_of(advice_for(request_for("web\nwinonly; sys_platform == 'win32'\n")))
    (product,) = report["result"]["report"]["products"]
    assert product["dependency_graph"] == {"nodes": ["core", "web", "winonly"], "edges": [[1, 0]]}
    assert "winonly" not in product["project"]["requirements_locked"]["default"]
    assert check_offline(report).problems == ()


def test_report_justifies_an_avoided_slowdown_with_measurements() -> None:
    report = report_of(kept())
    validate(report, json.loads(SCHEMA.read_text(encoding="utf-8")))
    (product,) = report["result"]["report"]["products"]
    (package,) = product["packages"]
    assert (package["version"], package["why"]["code"]) == ("2", "scores_better")
    (claim,) = package["why"]["claims"]
    assert (claim["purl"], claim["verdict"]) == ("pkg:pypi/fast@3", "slower")
    assert (claim["jobs"], claim["baseline_jobs"], len(claim["evidence"])) == (20, 20, 40)
    assert claim["interval_high_pct"] < 0
    (note,) = [it for it in product["justification"] if it["code"] == "scores_better"]
    assert note["evidence"] == claim["evidence"]
    assert "20 jobs of each" in note["message"]


def one_job_each(host: str = "h1") -> Claim:
    bench = Bench()
    bench.measure(bench.stack("fast==1"), [0.0])
    bench.measure(bench.stack("fast==2"), [0.1], host=host)
    (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
    return claim


def test_claim_without_an_error_estimate_reports_only_the_observed_difference() -> None:
    found = claim_document(one_job_each())
    unknown = ("interval_low_pct", "interval_high_pct", "effect_pct")
    assert [found[it] for it in unknown] == [None, None, None]
    assert math.isclose(found["observed_pct"], 100 * math.expm1(0.1))
    _is_of_the_schema(found)


def test_claim_without_a_common_host_reports_no_numbers() -> None:
    found = claim_document(one_job_each("h2"))
    assert [value for key, value in found.items() if key.endswith("_pct")].count(None) == 4
    _is_of_the_schema(found)


def test_claim_with_an_error_estimate_reports_interval_and_effect() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1"), jobs())
    bench.measure(bench.stack("fast==2"), jobs(0.1))
    (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
    found = claim_document(claim)
    assert found["interval_low_pct"] < found["observed_pct"] < found["interval_high_pct"]
    assert found["effect_pct"] == claim.effect_pct
    _is_of_the_schema(found)


def _is_of_the_schema(found: dict[str, object]) -> None:
    shape = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]["claim"]
    validate(json.loads(json.dumps(found, default=str, allow_nan=False)), shape)
    assert found.keys() <= shape["properties"].keys()


KINDS = {"boots", "pseudonyms", "sieves", "steps", "strides", "wraps"}


def test_debug_report_lists_all_pipeline_units_and_criteria() -> None:
    advice = advice_for(request_for(debug=True))
    found = pipeline_of(advice)
    assert found.keys() == KINDS
    assert [it["name"] for it in found["steps"]] == [it.name for it in advice.assessment.criteria]
    (search,) = found["strides"]
    assert search["configuration"]["count"] == 1
    assert all(it["unit_run"] is True for units in found.values() for it in units)
    refused = sum(map(len, advice.universe.refused.values()))
    assert sum(it["configuration"]["versions"] for it in found["sieves"]) == refused


def test_pipeline_is_reported_only_for_debug_requests() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for debug in (False, True):
        advice = advice_for(request_for(debug=debug))
        result = result_document(advice, known_for(advice))
        report = json.loads(report_bytes(report_document(result, METADATA)))
        validate(report, schema)
        pipeline = report["result"]["report"]["pipeline"]
        assert (pipeline is not None) is debug


def test_code_digest_changes_with_each_changed_added_or_renamed_module(tmp_path: Path) -> None:
    package = tmp_path / "adviser"
    package.mkdir()
    digests = [digest_of_code(tmp_path)]
    (package / "notes.py").write_text("ONE = 1\n")
    digests.append(digest_of_code(tmp_path))
    (package / "notes.py").write_text("ONE = 2\n")
    digests.append(digest_of_code(tmp_path))
    (package / "notes.py").rename(package / "remarks.py")
    digests.append(digest_of_code(tmp_path))
    (package / "data.json").write_text("{}")
    assert len(set(digests)) == 4
    assert digest_of_code(tmp_path) == digests[-1]
