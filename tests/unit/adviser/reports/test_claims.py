"""Claims in reports: what decides is there, and what nobody knows is null."""

from __future__ import annotations

import json
import math

import jsonschema

from adviser.reports.serialization import claim_document
from adviser.scoring.assessment_types import Claim
from tests.factories.evidence import Bench, claims_about, jobs
from tests.factories.reports import SCHEMA, kept, report_of


def test_a_loss_that_decides_has_its_measurements() -> None:
    report = report_of(kept())
    jsonschema.validate(report, json.loads(SCHEMA.read_text(encoding="utf-8")))
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


def test_where_the_error_is_unknown_neither_end_nor_what_would_last_is_reported() -> None:
    found = claim_document(one_job_each())
    unknown = ("interval_low_pct", "interval_high_pct", "effect_pct")
    assert [found[it] for it in unknown] == [None, None, None]
    assert math.isclose(found["observed_pct"], 100 * math.expm1(0.1))
    _is_of_the_schema(found)


def test_jobs_on_different_hosts_show_nothing_at_all() -> None:
    found = claim_document(one_job_each("h2"))
    assert [value for key, value in found.items() if key.endswith("_pct")].count(None) == 4
    _is_of_the_schema(found)


def test_a_claim_with_a_known_error_is_reported_in_full() -> None:
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
    jsonschema.validate(json.loads(json.dumps(found, default=str, allow_nan=False)), shape)
    assert found.keys() <= shape["properties"].keys()
