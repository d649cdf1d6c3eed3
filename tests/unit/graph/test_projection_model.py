"""The projection's definitions: they agree with the docs and the constraints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.reference_tables import ORIGIN, PARAMETER
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.registry import EDGES, NODES, PROJECTED

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "graph-model.md").read_text("utf-8")
CONSTRAINTS = "\n".join(
    file.read_text("utf-8") for file in sorted((ROOT / "migrations" / "cypher").glob("*.cypher"))
)


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_label_is_documented_with_its_properties_in_order(node: NodeKind) -> None:
    section = re.search(rf"^### {node.label}\b.*?(?=^##)", DOCS, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"(?m)^- ([^:\n]+)", section[0])
    named = (it for it in node.properties if not it.startswith(PARAMETER))
    own = tuple(it for it in named if it not in ORIGIN or it == node.key)
    assert tuple(re.findall(r"`(\w+)`", "".join(heads))) == own
    assert f"- `{node.key}`, key: " in section[0]


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.type)
def test_each_edge_is_drawn(edge: EdgeKind) -> None:
    assert f"{edge.start.label} -->|{edge.type}| {edge.end.label}\n" in DOCS


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_key_is_unique_by_a_constraint(node: NodeKind) -> None:
    assert f"FOR (node:{node.label}) REQUIRE node.{node.key} IS UNIQUE;" in CONSTRAINTS


#: Results of other systems come from files that are not kept; an entry names them.
_OF_FILES = {
    "Software", "HardwarePart", "BenchmarkSystem", "Benchmark", "BenchmarkEntry", "BenchmarkResult"
}  # fmt: skip


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_node_names_a_document_unless_it_comes_from_a_file(node: NodeKind) -> None:
    assert ("document_id" in node.properties) == (node.label not in _OF_FILES)


def test_a_rebuild_enqueues_every_kind_that_can_be_projected() -> None:
    # What was corrected comes with the inspections themselves.
    assert [kind for kind, it in PROJECTED.items() if it.key is None] == ["corrected_inspection"]


def test_values_begin_where_they_are_reported_and_make_times() -> None:
    kind = next(node for node in NODES if node.label == "Inspection")
    values = kind.values("row", 4)
    assert values.startswith("{document_id: row[4], name: row[5]")
    assert "created_at: datetime(row[8])" in values
