"""Plans as both products show them, kept as they were seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from graph.analyst_queries import PlanStep, steps_of, tells_kind

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


def test_a_tree_gives_its_operators_and_procedures() -> None:
    call = summary("ProcedureCall@neo4j", {"Details": "db.labels() :: (label :: STRING)"}).plan
    explained = summary("ProduceResults@neo4j", {"Details": "label"}, call)
    assert steps_of(explained, "") == [
        PlanStep("ProduceResults"),
        PlanStep("ProcedureCall", "db.labels"),
    ]
    assert tells_kind(explained)


def test_a_text_gives_its_lines_and_what_subqueries_call() -> None:
    explained = summary("ArcadeDB.OpenCypher.Plan", {"string-representation": ARCADEDB})
    steps = steps_of(explained, "CALL () { CALL algo.wcc() YIELD node RETURN node } RETURN node")
    assert PlanStep("ProcedureCall", "dbms.components") in steps
    assert PlanStep("LoadCSV") in steps
    assert PlanStep("DETACH DELETE") in steps
    assert steps[-1] == PlanStep("ProcedureCall", "algo.wcc")
    assert not tells_kind(explained)


def test_a_command_without_a_plan_has_no_steps() -> None:
    explained: Any = SimpleNamespace(plan=None)
    assert steps_of(explained, "SHOW USERS") == []
