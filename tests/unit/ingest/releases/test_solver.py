"""Results of solvers: releases out of trees and errors, and what says nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ingest.releases.pipeline import ParsedRelease, parse_releases
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.packages.releases import ReleaseProblem, ReleaseState
from model.reasons import Reason
from tests.factories.documents import encoded
from tests.factories.releases import failed, release_document, solved, solver_document

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def parsed(document: Any, **options: Any) -> tuple[list[ParsedRelease], list[RefusedDocument]]:
    found = list(parse_releases(RawDocument("x", data=encoded(document)), now=NOW, **options))
    releases = [it for it in found if isinstance(it, ParsedRelease)]
    return releases, [it for it in found if isinstance(it, RefusedDocument)]


def test_a_tree_gives_releases_with_their_requirements() -> None:
    tree = [solved("Flask", "1.0.2", {"click": ">=5.1", "Jinja2": None}), solved("six", "1.0", {})]
    (flask, six), refusals = parsed(solver_document(tree))
    assert refusals == []
    assert flask.release.purl == "pkg:pypi/flask@1.0.2"
    assert [it.raw for it in flask.release.requirements] == ["click>=5.1", "Jinja2"]
    assert flask.as_of == datetime(2019, 3, 4, 14, 38, 5, 816406, UTC)
    assert (six.release.state, six.release.requirements) == (ReleaseState.SOLVED, ())
    assert not six.release.files_complete


def test_errors_are_unsolvable_with_their_reason() -> None:
    traceback = "Command failed: Traceback:\n  File x\nModuleNotFoundError: No module named 'six'"
    errors = [
        failed("pygments", "1.0", traceback),
        failed("werkzeug", "0.10.3", "pip: Could not find a version that satisfies it"),
    ]
    (built, absent), _ = parsed(solver_document(errors=errors))
    assert (built.release.state, built.release.problem) == (
        ReleaseState.UNSOLVABLE,
        ReleaseProblem.NOT_RECORDED,
    )
    assert built.release.problem_message == (
        "Command failed: Traceback: … ModuleNotFoundError: No module named 'six'"
    )
    assert absent.release.problem is ReleaseProblem.NO_FILES


def test_what_was_installed_counts_more_than_what_failed_later() -> None:
    document = solver_document(
        [solved("a", "1.0", {"b": None}), solved("A", "1.0", {"c": None})],
        [failed("a", "1.0", "no")],
    )
    (found,), refusals = parsed(document)
    assert [it.raw for it in found.release.requirements] == ["b"]
    assert refusals == []


def test_what_the_solver_did_not_understand_is_refused_by_place() -> None:
    document = solver_document(
        [solved("a", "1.0", {})],
        unparsed=[{"requirement": "ipython doctest plugin==0.1", "details": "…"}],
        unresolved=[{"package_name": "protobuf", "version_spec": "==39.1.0"}],
    )
    releases, refusals = parsed(document)
    assert len(releases) == 1
    assert [(it.error.reason, it.error.field) for it in refusals] == [
        (Reason.INVALID_REQUIREMENT, "$.result.unparsed[0]"),
        (Reason.UNRESOLVED, "$.result.unresolved[0]"),
    ]


def test_a_broken_entry_does_not_keep_the_others_out() -> None:
    broken = solved("b", "1.0", {}) | {"dependencies": [{"required_version": ">=1"}]}
    nameless = solved("", "1.0", {})
    releases, refusals = parsed(solver_document([broken, nameless, solved("c", "1.0", {})]))
    assert [it.release.name for it in releases] == ["c"]
    assert [(it.error.reason, it.error.field) for it in refusals] == [
        (Reason.MISSING_FIELD, "$.result.tree[0].dependencies[0].package_name"),
        (Reason.MISSING_FIELD, "$.result.tree[1]"),
    ]


def test_an_index_known_by_its_address_gets_its_name() -> None:
    address = "https://builds.example/cpu/simple"
    document = solver_document([solved("a", "1.0", {}, index=address + "/")])
    (found,), _ = parsed(document)
    assert found.release.index == "builds-example-cpu"
    (found,), _ = parsed(document, addresses={address: "builds"})
    assert found.release.index == "builds"


def test_what_is_neither_is_refused() -> None:
    for document in ({"result": {"error": True}}, {"name": "x"}, [release_document()], 7):
        releases, (refusal,) = parsed(document)
        assert releases == []
        assert refusal.error.reason in (Reason.UNKNOWN_SCHEMA, Reason.WRONG_TYPE)
    (found,) = parse_releases(RawDocument("x", "inspection-x", files={"results/0/result": b"{}"}))
    assert isinstance(found, RefusedDocument)
    assert "thoth ingest inspections" in found.error.message


def test_a_result_without_a_time_leaves_that_to_the_reader() -> None:
    document = solver_document([solved("a", "1.0", {})])
    del document["metadata"]
    (found,), _ = parsed(document)
    assert found.as_of is None
