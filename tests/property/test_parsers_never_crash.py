"""Whatever a document holds, parsing gives documents or refusals, and nothing else."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.inspections.parsing import parse_inspections, parse_stored
from ingest.personal_data import scrub
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.json_documents import canonical_json
from model.measurements.inspection import InspectionDocument
from tests.effort import examples
from tests.factories import inspections as own
from tests.factories.changed_documents import json_values, paths_of, replaced
from tests.factories.documents import (
    directory,
    document_2019,
    document_2020_02,
    encoded,
    result_document,
    single,
    specification,
)

values = json_values(
    st.text(max_size=12)
    | st.sampled_from(
        [
            "2024-05-01T10:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "==1.0",
            "1e9",
            "cpu",
        ]
    )
)

DIRECTORY = {"result": result_document(), "specification": specification()}
SINGLES = [document_2019(), document_2020_02(), {"inspection-a": [document_2020_02()]}]


def check(raw: RawDocument) -> None:
    now = datetime.now(UTC)
    for found in parse_inspections(raw, now=now):
        assert isinstance(found, InspectionDocument | RefusedDocument)
        if isinstance(found, InspectionDocument):
            # The record is compared with what its bodies say, so these must say the same again.
            assert parse_stored(found.body, found.schema_version, found.name, now=now) == found


@given(data=st.data(), value=values)
@settings(max_examples=examples(400), deadline=None)
def test_inspection_folder_with_any_field_replaced_is_parsed_or_refused(
    data: st.DataObject, value: Any
) -> None:
    path = data.draw(st.sampled_from(paths_of(DIRECTORY)))
    changed = replaced(DIRECTORY, path, value)
    check(directory(changed["result"], specification=changed["specification"] or False))


OWN = {
    "result": own.job_document(0, own.printed(own.measured(1.0), own.measured(2.0))),
    "specification": own.specification_document({"numpy": "2.1.0"}),
    "status": own.failed_status(),
}


@given(data=st.data(), value=values, jobs=st.integers(0, 2))
@settings(max_examples=examples(400), deadline=None)
def test_thoth_inspection_folder_with_any_field_replaced_is_parsed_or_refused(
    data: st.DataObject, value: Any, jobs: int
) -> None:
    path = data.draw(st.sampled_from(paths_of(OWN)))
    changed = replaced(OWN, path, value)
    parts = {name: encoded(changed[name]) for name in ("specification", "status")}
    files = {f"build/{name}": part for name, part in parts.items()}
    results = {f"results/{n}/result": encoded(changed["result"]) for n in range(jobs)}
    check(RawDocument("x", "inspection-x", files=files | results))


@pytest.mark.parametrize("document", SINGLES, ids=["2019", "2020-02", "dictionary"])
@given(data=st.data(), value=values)
@settings(max_examples=examples(200), deadline=None)
def test_inspection_file_with_any_field_replaced_is_parsed_or_refused(
    document: Any, data: st.DataObject, value: Any
) -> None:
    check(single(replaced(document, data.draw(st.sampled_from(paths_of(document))), value)))


@given(st.binary(max_size=200) | values.map(encoded))
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_are_read_as_an_inspection_or_refused(data: bytes) -> None:
    check(RawDocument("x", data=data))
    check(RawDocument("x", files={"results/0/result": data, "build/specification": data}))


@given(st.integers(1, 2000), st.binary(min_size=1, max_size=3))
@settings(max_examples=examples(200), deadline=None)
def test_inspection_with_bytes_overwritten_is_parsed_or_refused(where: int, noise: bytes) -> None:
    data = encoded(document_2020_02())
    check(RawDocument("x", data=data[:where] + noise + data[where + len(noise) :]))


@given(values)
def test_removing_personal_data_twice_equals_removing_it_once(value: Any) -> None:
    once = scrub(value, canonical_json(value))
    assert scrub(once, canonical_json(once)) == once
