"""Results of solvers: releases out of trees and errors, and what says nothing."""

from datetime import UTC, datetime
from typing import Any

from ingest.releases.pipeline import ParsedRelease, parse_releases
from ingest.sources.source_items import RawDocument, RefusedDocument
from tests.factories.case_files import described
from tests.factories.documents import encoded
from tests.factories.golden import compare_views
from tests.factories.releases import failed, release_document, solved, solver_document

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def parsed(document: Any, **options: Any) -> tuple[list[ParsedRelease], list[RefusedDocument]]:
    found = list(parse_releases(RawDocument("x", data=encoded(document)), now=NOW, **options))
    releases = [it for it in found if isinstance(it, ParsedRelease)]
    return releases, [it for it in found if isinstance(it, RefusedDocument)]


def test_index_of_a_solver_result_is_named_by_its_configured_url() -> None:
    address = "https://builds.example/cpu/simple"
    document = solver_document([solved("a", "1.0", {}, index=address + "/")])
    (found,), _ = parsed(document)
    assert found.release.index == "builds-example-cpu"
    (found,), _ = parsed(document, addresses={address: "builds"})
    assert found.release.index == "builds"


BROKEN = solved("b", "1.0", {}) | {"dependencies": [{"required_version": ">=1"}]}
ERRORS = [
    failed(
        "pygments", "1.0",
        "Command failed: Traceback:\n  File x\nModuleNotFoundError: No module named 'six'",
    ),
    failed("werkzeug", "0.10.3", "pip: Could not find a version that satisfies it"),
]  # fmt: skip
RESULTS: dict[str, Any] = {
    "a tree": solver_document(
        [solved("Flask", "1.0.2", {"click": ">=5.1", "Jinja2": None}), solved("six", "1.0", {})]
    ),
    "errors": solver_document(errors=ERRORS),
    "a release that was installed and failed later": solver_document(
        [solved("a", "1.0", {"b": None}), solved("A", "1.0", {"c": None})],
        [failed("a", "1.0", "no")],
    ),
    "what the solver did not understand": solver_document(
        [solved("a", "1.0", {})],
        unparsed=[{"requirement": "ipython doctest plugin==0.1", "details": "…"}],
        unresolved=[{"package_name": "protobuf", "version_spec": "==39.1.0"}],
    ),
    "broken entries": solver_document([BROKEN, solved("", "1.0", {}), solved("c", "1.0", {})]),
    "a result without a time": {
        key: it for key, it in solver_document([solved("a", "1.0", {})]).items() if key == "result"
    },
    "a result that failed": {"result": {"error": True}},
    "no result": {"name": "x"},
    "a list": [release_document()],
    "a number": 7,
}


def test_solver_document_gives_releases_and_requirements() -> None:
    raws = {title: RawDocument("x", data=encoded(it)) for title, it in RESULTS.items()}
    raws["an inspection"] = RawDocument("x", "inspection-x", files={"results/0/result": b"{}"})
    views = {}
    for title, raw in raws.items():
        lines = []
        for found in parse_releases(raw, now=NOW):
            if isinstance(found, RefusedDocument):
                lines.append(f"refused: {found.error}")
            else:
                facts = (it for it in described(found.release) if "document_id" not in it)
                lines.append(f"{found.as_of}: {'; '.join(facts)}")
        views[title] = "\n".join(lines)
    compare_views("solver_results", views)
