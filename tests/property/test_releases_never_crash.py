"""Whatever a release document holds, parsing gives releases or refusals, and nothing else."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed

from ingest.releases.parsing import release_of
from ingest.releases.pipeline import ParsedRelease, parse_releases
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.errors import InvalidDocument
from model.packages.releases import parse_requirement
from tests.effort import examples
from tests.factories.changed_documents import json_values, paths_of, replaced
from tests.factories.documents import encoded
from tests.factories.releases import (
    failed,
    release_document,
    sdist_of,
    solved,
    solver_document,
    wheel_of,
)

characters = st.characters()  # lone surrogates and NUL among them
texts = st.text(characters, max_size=12) | st.sampled_from(
    [
        "1!2.0+local.1",
        "2004b-final",
        ">=3.6.*",
        "click>=8; extra == 'a'",
        "a @ https://u:p@h/x;y",
        "https://u:p@[::1]:x/simple",
        "https://h:99999/",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-01:00",
        "dynamic_metadata",
        "a" * 3_000,
        "(" * 900,
    ]
)
values = json_values(texts, keys=texts)

RELEASE = release_document(
    requires=["click>=8", 'rich; extra == "x"'],
    provides_extra=["x"],
    problem="no_files",
    problem_message="none",
    yanked_reason="broken",
    metadata_file="flask-3.0.0-py3-none-any.whl",
    files=[
        wheel_of("flask", "3.0.0", attested=True, metadata_sha256="", requires_python=">=3"),
        sdist_of("flask", "3.0.0", yanked="no"),
    ],
)
SOLVER = solver_document(
    [solved("a", "1.0", {"b": ">=1", "c": None}, index="https://index.example/simple")],
    [failed("d", "2.0", "line\nline")],
    [{"requirement": "x y", "details": "…"}],
    [{"package_name": "e", "version_spec": "==9"}],
)


def check(data: bytes) -> None:
    for found in parse_releases(RawDocument("x", "line 7", data=data)):
        assert isinstance(found, ParsedRelease | RefusedDocument)
        if isinstance(found, RefusedDocument):
            assert found.place == "line 7"


@given(data=st.data(), value=values)
@settings(max_examples=examples(600), deadline=None)
def test_release_with_any_field_replaced_is_parsed_or_refused(
    data: st.DataObject, value: Any
) -> None:
    changed = replaced(RELEASE, data.draw(st.sampled_from(paths_of(RELEASE))), value)
    try:
        found = release_of(changed)
    except InvalidDocument:
        return
    # What a parser that is fed by a crawl lets through can be stored, and read again.
    assert release_of(orjson.loads(found.body)) == found
    assert "\0" not in found.body.decode()


@given(data=st.data(), value=values)
@settings(max_examples=examples(400), deadline=None)
def test_changed_solver_result_is_read_or_refused(data: st.DataObject, value: Any) -> None:
    changed = replaced(SOLVER, data.draw(st.sampled_from(paths_of(SOLVER))), value)
    check(encoded(changed))


@given(st.dictionaries(st.sampled_from([*RELEASE, "result", "x"]), values))
@settings(max_examples=examples(300), deadline=None)
def test_any_json_is_read_as_a_release_or_refused(document: dict[str, Any]) -> None:
    check(encoded(document))


@given(st.binary(max_size=200) | values.map(encoded))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes_are_read_as_a_release_or_refused(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("document", [RELEASE, SOLVER], ids=["release", "solver"])
@given(st.integers(0, 1_500), st.binary(min_size=1, max_size=3))
@settings(max_examples=examples(200), deadline=None)
def test_release_with_bytes_overwritten_is_parsed_or_refused(
    document: dict[str, Any], where: int, noise: bytes
) -> None:
    data = encoded(document)
    check(data[:where] + noise + data[where + len(noise) :])


names = st.sampled_from(["a", "Zope.Interface", "x_y", "a-", "", " b "])
extras = st.sampled_from(["", "[Socks]", "[a,b]", "[a;b]", "["])
specifiers = st.sampled_from(
    ["", ">=1", " (>=1,<2)", "==1.*", "===x;y", ">=1.*", "@ https://h/x;y"]
)
markers = st.sampled_from(
    ["", ";", "; ", "; os_name == 'nt'", ';extra=="A.b"', "; 'x' == extra or extra != \"c\"",
     "; oops", " ; python_version in '2.7;3.0'", ";(os_name=='a')", ";; os_name == 'nt'"]
)  # fmt: skip


@given(st.builds("".join, st.tuples(names, extras, specifiers, markers)) | st.text(max_size=30))
@settings(max_examples=examples(1_000), deadline=None)
def test_fast_requirement_parser_agrees_with_packaging(line: str) -> None:
    found = parse_requirement(line)
    try:
        whole = Parsed(line)
    except InvalidRequirement as error:
        wrong = str(error).splitlines()[0]
        whole = None
    if whole is None:
        lenient = f"{line!r} is not valid and is read as "
        assert found.problem == wrong or (found.problem or "").startswith(lenient)
        assert (found.name is None) == (found.problem == wrong)
        return
    assert found.specifier == str(whole.specifier)
    assert found.marker == (None if whole.marker is None else str(whole.marker))
    assert found.url == whole.url
