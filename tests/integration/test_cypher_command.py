"""``thoth cypher`` from the outside, on both products."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.graph import cypher
from common.settings import Settings
from graph.engine import graph_database, graph_driver
from tests.services.commands import Ended, run_here
from tests.services.fixtures import empty

SAMPLE = """
CREATE (:Package {name: 'numpy', rate: 1.5, since: date('2020-01-02')})
  -[:HAS_VERSION {order: 1}]->(:PackageVersion {purl: 'p', name: 'numpy', tags: ['a', 'b']})
"""

PATH = "MATCH path = (p:Package)-[e]->(v) RETURN path, p, e, v.tags AS tags, v.missing AS missing"


@pytest.fixture(scope="module")
def asked(graph_settings: Settings) -> Settings:
    """Settings of a graph that the tests only read."""
    with graph_driver(graph_settings) as driver:
        empty(driver, graph_database(graph_settings))
        driver.execute_query(SAMPLE, database_=graph_database(graph_settings))
    return graph_settings


def ask(settings: Settings, *arguments: str, text: str | None = None) -> Ended:
    return run_here(cypher, settings, *arguments, stdin=text)


def test_cypher_table_shows_nodes_edges_and_paths_in_cypher_notation(asked: Settings) -> None:
    result = ask(asked, PATH)
    assert result.exit_code == 0, result.stderr
    node = '(:Package {name: "numpy", rate: 1.5, since: "2020-01-02"})'
    assert f"{node}-[:HAS_VERSION {{order: 1}}]->(:PackageVersion" in result.stdout
    assert '["a", "b"]' in result.stdout


def test_cypher_json_contains_labels_properties_and_types(asked: Settings) -> None:
    [row] = json.loads(ask(asked, PATH, "--format", "json").stdout)["rows"]
    assert row["p"]["labels"] == ["Package"]
    assert row["p"]["properties"] == {"name": "numpy", "rate": 1.5, "since": "2020-01-02"}
    assert row["e"] == {"type": "HAS_VERSION", "properties": {"order": 1}}
    assert [node["labels"] for node in row["path"]["nodes"]] == [["Package"], ["PackageVersion"]]
    assert (row["tags"], row["missing"]) == (["a", "b"], None)


def test_cypher_csv_can_be_read_back(asked: Settings) -> None:
    shown = ask(asked, PATH, "--format", "csv").stdout
    [row] = csv.DictReader(io.StringIO(shown, newline=""))
    assert json.loads(row["e"]) == {"type": "HAS_VERSION", "properties": {"order": 1}}
    assert row["missing"] == ""


def test_cypher_query_is_read_from_file_or_stdin(asked: Settings, tmp_path: Path) -> None:
    file = tmp_path / "question.cypher"
    file.write_text("// why\nRETURN 41 + 1 AS answer;\n", encoding="utf-8")
    from_file = ask(asked, "--file", str(file), "--format", "csv").stdout
    from_stdin = ask(asked, "-", "--format", "csv", text=file.read_text()).stdout
    assert from_file.split() == from_stdin.split() == ["answer", "42"]


def test_cypher_parameters_are_json_or_text(asked: Settings) -> None:
    query = "RETURN $number AS number, $list AS list, $name AS name"
    parameters = ["--param", "number=3", "--param", "list=[1, null]", "--param", "name=a=b"]
    [row] = json.loads(ask(asked, query, *parameters, "--format", "json").stdout)["rows"]
    assert row == {"number": 3, "list": [1, None], "name": "a=b"}


def test_cypher_result_cut_at_the_row_limit_is_reported_on_stderr(asked: Settings) -> None:
    query = "UNWIND range(1, 10) AS n RETURN n"
    cut = ask(asked, query, "--limit", "3", "--format", "csv")
    assert cut.stdout.split() == ["n", "1", "2", "3"]
    assert "only the first 3 rows" in cut.stderr
    table = ask(asked, query, "--limit", "3")
    assert (table.stdout.split()[-1], "only the first 3 rows" in table.stderr) == ("3", True)
    assert not ask(asked, query, "--limit", "10").stderr


def test_cypher_result_cut_at_the_byte_limit_is_reported_on_stderr(asked: Settings) -> None:
    small = replace(asked, query_byte_limit=2000)
    query = "UNWIND range(1, 10) AS n RETURN n, reduce(s = 'ab', y IN range(1, 8) | s + s) AS big"
    cut = ask(small, query, "--format", "json")
    document = json.loads(cut.stdout)
    assert [row["n"] for row in document["rows"]] == [1, 2, 3]
    assert (document["truncated"], document["truncated_by"]) == (True, "bytes")
    assert "only the first 3 rows" in cut.stderr
    assert "QUERY_BYTE_LIMIT" in cut.stderr


def test_cypher_limits_cannot_be_raised_above_the_settings(asked: Settings) -> None:
    tight = replace(asked, query_row_limit=5, query_timeout_s=2.0)
    for option in ("--limit", "--timeout"):
        result = ask(tight, "RETURN 1 AS one", option, "6")
        assert result.exit_code == 2
        assert option in result.stderr
        assert "at most" in result.stderr


def test_cypher_query_that_would_write_is_refused(asked: Settings) -> None:
    result = ask(asked, "CREATE (n:Package)")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")


def test_cypher_query_with_an_unknown_name_runs_with_a_warning(asked: Settings) -> None:
    result = ask(asked, "MATCH (p:Packge) RETURN count(p) AS packages", "--format", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["rows"]) == (0, [{"packages": 0}])
    warning = "the graph has no label Packge (did you mean Package?)"
    assert document["warnings"] == [warning]
    assert result.stderr == f"warning: {warning}\n"
