"""What is read from the text and the plan of a query."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graph.analyst_queries import (
    PlanStep,
    called_procedures,
    name_warnings,
    refuse_hostile_text,
    steps_of,
    tells_kind,
)
from model.errors import QueryRefused
from tests.factories.golden import compare_views

COOKBOOK = (Path(__file__).parents[3] / "docs" / "cookbook.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```cypher\n(.+?)\n```", COOKBOOK, re.DOTALL)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("CALL db.labels()", ["db.labels"]),
        ("call\n`db` . labels YIELD label RETURN label", ["db.labels"]),
        ("CALL (*) { MATCH (n) RETURN n } RETURN n", []),
        ("CALL { MATCH (n) RETURN n } RETURN n", []),
        ("RETURN 'CALL a.b' AS x // CALL c.d\n/* CALL e.f */", []),
        ("RETURN 'it\\'s' AS x CALL a.b()", ["a.b"]),
        ("CALL/**/a.b()", ["a.b"]),
        ("WITH 1 AS `'` CALL a.b() YIELD x AS `'` RETURN x", ["a.b"]),
        ("RETURN 1 AS `CALL a.b`", []),
    ],
)
def test_called_cypher_procedures_are_found_by_name(query: str, names: list[str]) -> None:
    assert called_procedures(query) == names


@pytest.mark.parametrize(
    "query",
    [
        *QUERIES,
        "MATCH (v:PackageVersion) RETURN v.uploaded_at.year, '(p:Packge)' // (:Packge)",
        "UNWIND [{a: 1, Packge: {c: 2}}] AS row RETURN row.c, $p.q",
        "MATCH (s:Stack) WITH {size: s.digest} AS s RETURN s.size",
        "MATCH (s:Stack) RETURN [s IN [{a: 1}] | s.a]",
        "MATCH (n:!Stack) RETURN n.name",
        "MATCH (n) RETURN n.anything",
        "MATCH (c:ProjectionCheckpoint) RETURN c.batch",
        "RETURN 1.5 AS number",
    ],
)
def test_query_with_known_names_has_no_warning(query: str) -> None:
    assert name_warnings(query) == ()


def test_query_has_at_most_ten_warnings() -> None:
    assert len(name_warnings("".join(f"(:Packge{number})" for number in range(50)))) == 10


@pytest.mark.parametrize(
    "query",
    [
        "RETURN " + "[" * 51 + "]" * 51,
        "RETURN '(' + " + "{a: " * 51 + "1" + "}" * 51,
        "RETURN ']' /* ] */ // ]\n" + "([{" * 17 + "1",
        "RETURN " + "1 + " * 5_000 + "1",
    ],
)
def test_expensive_query_text_is_refused(query: str) -> None:
    with pytest.raises(QueryRefused):
        refuse_hostile_text(query)


def test_adjacent_or_quoted_brackets_in_a_query_do_not_count_as_nested() -> None:
    refuse_hostile_text("RETURN " + "[" * 50 + "]" * 50 + " + [1]" * 100)
    refuse_hostile_text("RETURN '" + "(" * 100 + "' AS `" + "{" * 100 + "`")


#: Queries with names that the graph does not have.
MISSPELLED = {
    "labels, relationship types and properties": (
        "MATCH (p:Packge)-[:HAS_VERSON*1..2]->(v:PackageVersion {nam: $name}) RETURN p.nme, v"
    ),
    "upper and lower case": "MATCH (n:package)-[:requires|AFFECTS]->() RETURN n",
    "properties of nodes and relationships": (
        "MATCH (v:Vulnerability {name: $id})\n<-[e:AFFECTS]-() WHERE e.since > 1 RETURN v.scor"
    ),
    "a name in backticks": "MATCH (n:Stack|`Hard ware`) RETURN n",
    "one of two labels": "MATCH (n:Stack|Package) RETURN n.digest, n.version",
}


def test_unknown_labels_and_properties_in_a_query_cause_warnings() -> None:
    views = {title: "\n".join(name_warnings(query)) for title, query in MISSPELLED.items()}
    compare_views("query_warnings", views)


ARCADEDB = """\
OpenCypher Native Execution Plan
=================================

Using Per-Branch Planning (UNION)

Execution Plan:
+ UNION (2 queries)
  Branch 1:
  Execution Plan:
  + MATCH NODE (n)
  Branch 2:
  Execution Plan:
  + CALL dbms.components() YIELD 1 fields
  + LOAD CSV FROM $address AS line
  + DETACH DELETE (1 items)
"""


def summary(operator: str, details: dict[str, str], *children: Any) -> Any:
    plan = {"operatorType": operator, "args": details, "children": list(children)}
    return SimpleNamespace(plan=plan)


def test_neo4j_plan_gives_operators_and_procedures() -> None:
    call = summary("ProcedureCall@neo4j", {"Details": "db.labels() :: (label :: STRING)"}).plan
    explained = summary("ProduceResults@neo4j", {"Details": "label"}, call)
    assert steps_of(explained, "") == [
        PlanStep("ProduceResults"),
        PlanStep("ProcedureCall", "db.labels"),
    ]
    assert tells_kind(explained)


def test_arcadedb_plan_text_gives_operators_and_subquery_calls() -> None:
    explained = summary("ArcadeDB.OpenCypher.Plan", {"string-representation": ARCADEDB})
    steps = steps_of(explained, "CALL () { CALL algo.wcc() YIELD node RETURN node } RETURN node")
    assert PlanStep("ProcedureCall", "dbms.components") in steps
    assert PlanStep("LoadCSV") in steps
    assert PlanStep("DETACH DELETE") in steps
    assert steps[-1] == PlanStep("ProcedureCall", "algo.wcc")
    assert not tells_kind(explained)


def test_cypher_command_without_a_plan_has_no_plan_steps() -> None:
    explained: Any = SimpleNamespace(plan=None)
    assert steps_of(explained, "SHOW USERS") == []
