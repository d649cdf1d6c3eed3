"""What a search was made of, for requests that are debugged."""

from __future__ import annotations

import json

import jsonschema

from adviser.reports.documents import pipeline_of, report_bytes, report_document, result_document
from tests.factories.reports import METADATA, SCHEMA
from tests.factories.requests import advice_for, known_for, request_for

KINDS = {"boots", "pseudonyms", "sieves", "steps", "strides", "wraps"}


def test_a_report_has_all_parts_and_names_the_criteria() -> None:
    advice = advice_for(request_for(debug=True))
    found = pipeline_of(advice)
    assert found.keys() == KINDS
    assert [it["name"] for it in found["steps"]] == [it.name for it in advice.assessment.criteria]
    (search,) = found["strides"]
    assert search["configuration"]["count"] == 1
    assert all(it["unit_run"] is True for units in found.values() for it in units)
    refused = sum(map(len, advice.universe.refused.values()))
    assert sum(it["configuration"]["versions"] for it in found["sieves"]) == refused


def test_only_a_debugged_request_is_reported() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for debug in (False, True):
        advice = advice_for(request_for(debug=debug))
        result = result_document(advice, known_for(advice))
        report = json.loads(report_bytes(report_document(result, METADATA)))
        jsonschema.validate(report, schema)
        pipeline = report["result"]["report"]["pipeline"]
        assert (pipeline is not None) is debug
