"""The numbered files of both stores, and the definitions of the projection."""

import re
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from docs.reference_tables import ORIGIN, PARAMETER
from graph import migrate
from graph.migrate import CypherFile, cypher_files, known_revisions, statements_of
from graph.projection.kinds import EdgeKind, NodeKind
from graph.projection.outbox import EDGES, NODES, PROJECTED


def test_migration_file_names_equal_alembic_revisions() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert [script.revision for script in scripts][::-1] == list(known_revisions())


def test_graph_migrations_are_numbered_without_a_gap() -> None:
    versions = [int(file.version) for file in cypher_files()]
    assert versions == list(range(1, len(versions) + 1))


def test_every_graph_migration_statement_is_idempotent() -> None:
    statements = [statement for file in cypher_files() for statement in file.statements]
    repeatable = ("IF NOT EXISTS", "node.unit IS NULL\nSET node.unit =")
    assert all(any(how in statement for how in repeatable) for statement in statements)


def test_comment_does_not_change_the_checksum_of_a_graph_migration() -> None:
    plain = CypherFile("0001", "a", statements_of("CREATE (a:B);"))
    commented = CypherFile("0001", "a", statements_of("// why\nCREATE\n  (a:B);\n"))
    other = CypherFile("0001", "a", statements_of("CREATE (a:C);"))
    assert plain.checksum == commented.checksum
    assert plain.checksum != other.checksum


def test_semicolon_in_a_cypher_string_does_not_end_the_statement() -> None:
    assert statements_of("RETURN 'a;b';\n") == ("RETURN 'a;b'",)


ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "graph-model.md").read_text("utf-8")
CONSTRAINTS = "\n".join(
    file.read_text("utf-8") for file in sorted((ROOT / "migrations" / "cypher").glob("*.cypher"))
)


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_node_label_is_documented_with_its_properties(node: NodeKind) -> None:
    section = re.search(rf"^### {node.label}\b.*?(?=^##)", DOCS, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"(?m)^- ([^:\n]+)", section[0])
    named = (it for it in node.properties if not it.startswith(PARAMETER))
    own = tuple(it for it in named if it not in ORIGIN or it == node.key)
    assert tuple(re.findall(r"`(\w+)`", "".join(heads))) == own
    assert f"- `{node.key}`, key: " in section[0]


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.type)
def test_each_edge_type_is_in_the_documented_diagram(edge: EdgeKind) -> None:
    assert f"{edge.start.label} -->|{edge.type}| {edge.end.label}\n" in DOCS


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_node_key_has_a_uniqueness_constraint(node: NodeKind) -> None:
    assert f"FOR (node:{node.label}) REQUIRE node.{node.key} IS UNIQUE;" in CONSTRAINTS


#: Results of other systems come from files that are not kept; an entry names them.
_OF_FILES = {
    "Software", "HardwarePart", "BenchmarkSystem", "Benchmark", "BenchmarkEntry", "BenchmarkResult"
}  # fmt: skip


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.label)
def test_each_node_has_its_document_identifier_unless_read_from_a_file(node: NodeKind) -> None:
    assert ("document_id" in node.properties) == (node.label not in _OF_FILES)


def test_graph_rebuild_enqueues_all_kinds_but_corrected_inspections() -> None:
    # What was corrected comes with the inspections themselves.
    assert [kind for kind, it in PROJECTED.items() if it.key is None] == ["corrected_inspection"]
