"""Differences between Neo4j and ArcadeDB in analysts' queries; all other code treats them alike.

Neo4j refuses writes in read access mode, ends transactions at their timeout, and returns a plan as
a tree of operators. ArcadeDB checks only the rights of the user, ends a query only on request, and
returns a plan as text that omits subqueries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError

PROCEDURE, LOAD = "ProcedureCall", "LoadCSV"

_TEXT = "string-representation"
_LINE = re.compile(r"^\s*\+ (?P<step>[A-Z][A-Z ]*[A-Z])(?: (?P<name>[\w.`]+)\()?")

#: Matches quoted names, comments and strings, and then a call of a dotted name.
_QUOTED = re.compile(
    r"`[^`]*`|//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL
)
_CALL = re.compile(r"\bCALL\s+(`?\w+`?(?:\s*\.\s*`?\w+`?)+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a query plan; ``name`` is set for a procedure call."""

    kind: str
    name: str = ""


def is_arcadedb(driver: neo4j.Driver) -> bool:
    """Whether the server reports itself as ArcadeDB."""
    return "ArcadeDB" in driver.get_server_info().agent


def steps_of(summary: neo4j.ResultSummary, query: str) -> list[PlanStep]:
    """The steps of a query plan; empty for commands without a plan.

    :param summary: result of ``EXPLAIN`` with the query
    """
    plan = summary.plan or {}
    if not _is_text(plan):
        return list(_operators(plan)) if plan else []
    return [
        *_lines(plan["args"][_TEXT]),
        *(PlanStep(PROCEDURE, name) for name in called_procedures(query)),
    ]


def tells_kind(summary: neo4j.ResultSummary) -> bool:
    """Whether ``query_type`` of the plan is reliable; ArcadeDB reports ``w`` for every plan."""
    return not _is_text(summary.plan or {})


def _is_text(plan: dict[str, Any]) -> bool:
    return _TEXT in plan.get("args", {}) and "ArcadeDB" in str(plan.get("operatorType"))


def _operators(plan: dict[str, Any]) -> Iterator[PlanStep]:
    """The steps of Neo4j's plan, such as ``ProduceResults@neo4j`` above ``ProcedureCall@neo4j``."""
    kind = str(plan["operatorType"]).partition("@")[0]
    details = str(plan.get("args", {}).get("Details", ""))
    yield PlanStep(kind, details.partition("(")[0].strip() if kind == PROCEDURE else "")
    for child in plan.get("children", ()):
        yield from _operators(child)


def _lines(text: str) -> Iterator[PlanStep]:
    """The steps of ArcadeDB's plan, such as ``+ CALL db.labels()`` and ``+ LOAD CSV FROM …``."""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        if match["step"] == "CALL":
            yield PlanStep(PROCEDURE, match["name"] or "")
        elif match["step"].startswith("LOAD CSV"):
            yield PlanStep(LOAD)
        else:
            yield PlanStep(match["step"])


def called_procedures(query: str) -> list[str]:
    """The names of the procedures that ``query`` calls, in order.

    This is needed for ArcadeDB, whose plan omits subqueries and which has no list of allowed
    procedures. A read-only user cannot write through a procedure.

    >>> called_procedures("CALL { CALL `algo`.wcc() YIELD node RETURN node } RETURN 'CALL a.b'")
    ['algo.wcc']
    """
    plain = _QUOTED.sub(_without_quoted, query)
    return [re.sub(r"[`\s]", "", match[1]) for match in _CALL.finditer(plain)]


def _without_quoted(match: re.Match[str]) -> str:
    token = match[0]
    return f"`{re.sub(r'[^A-Za-z0-9]', '_', token[1:-1])}`" if token[0] == "`" else " "


def end_query(driver: neo4j.Driver, database: str, mark: str) -> None:
    """Terminate the running query whose text contains ``mark``, if there is one."""
    with suppress(DriverError, Neo4jError), driver.session(database=database) as session:
        for row in session.run("SHOW TRANSACTIONS").data():
            if mark in row["currentQuery"]:
                session.run("TERMINATE TRANSACTION $name", name=row["transactionId"]).consume()
