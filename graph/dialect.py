"""What the two graph products do differently for an analyst's query; all else is one code path.

Neo4j refuses writes in read access mode, ends a transaction at its timeout, and shows a plan as
a tree of operators. ArcadeDB leaves access to the user's rights, ends a query when it is told
to, and shows a plan as text that keeps subqueries to itself.
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

#: Comments and quoted text, which hold no calls; quoted names; then a call by a dotted name.
_QUOTED = re.compile(
    r"`[^`]*`|//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL
)
_CALL = re.compile(r"\bCALL\s+(`?\w+`?(?:\s*\.\s*`?\w+`?)+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan; ``name`` is the procedure's, where it calls one."""

    kind: str
    name: str = ""


def is_arcadedb(driver: neo4j.Driver) -> bool:
    """Whether the server is ArcadeDB, by the name that it gives itself."""
    return "ArcadeDB" in driver.get_server_info().agent


def steps_of(summary: neo4j.ResultSummary, query: str) -> list[PlanStep]:
    """What the store's own parser made of ``query``; empty for commands that have no plan.

    :param summary: of ``EXPLAIN`` and the query
    """
    plan = summary.plan or {}
    if not _is_text(plan):
        return list(_operators(plan)) if plan else []
    return [
        *_lines(plan["args"][_TEXT]),
        *(PlanStep(PROCEDURE, name) for name in called_procedures(query)),
    ]


def tells_kind(summary: neo4j.ResultSummary) -> bool:
    """Whether a plan's ``query_type`` can be believed: ArcadeDB's says ``w`` of every plan."""
    return not _is_text(summary.plan or {})


def _is_text(plan: dict[str, Any]) -> bool:
    return _TEXT in plan.get("args", {}) and "ArcadeDB" in str(plan.get("operatorType"))


def _operators(plan: dict[str, Any]) -> Iterator[PlanStep]:
    """Of a tree such as ``ProduceResults@neo4j`` over ``ProcedureCall@neo4j``."""
    kind = str(plan["operatorType"]).partition("@")[0]
    details = str(plan.get("args", {}).get("Details", ""))
    yield PlanStep(kind, details.partition("(")[0].strip() if kind == PROCEDURE else "")
    for child in plan.get("children", ()):
        yield from _operators(child)


def _lines(text: str) -> Iterator[PlanStep]:
    """Of lines such as ``+ CALL db.labels()`` and ``+ LOAD CSV FROM …``."""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        if found["step"] == "CALL":
            yield PlanStep(PROCEDURE, found["name"] or "")
        elif found["step"].startswith("LOAD CSV"):
            yield PlanStep(LOAD)
        else:
            yield PlanStep(found["step"])


def called_procedures(query: str) -> list[str]:
    """Procedures that ``query`` calls by name, in order.

    ArcadeDB's plan does not show what runs inside of a subquery, and has no list of
    its own of procedures that a user may call. None can write for a read-only user.

    >>> called_procedures("CALL { CALL `algo`.wcc() YIELD node RETURN node } RETURN 'CALL a.b'")
    ['algo.wcc']
    """
    plain = _QUOTED.sub(_without_quoted, query)
    return [re.sub(r"[`\s]", "", found[1]) for found in _CALL.finditer(plain)]


def _without_quoted(found: re.Match[str]) -> str:
    token = found[0]
    return f"`{re.sub(r'[^A-Za-z0-9]', '_', token[1:-1])}`" if token[0] == "`" else " "


def end_query(driver: neo4j.Driver, database: str, mark: str) -> None:
    """Tell the store to end the running query whose text holds ``mark``, if there is one."""
    with suppress(DriverError, Neo4jError), driver.session(database=database) as session:
        for row in session.run("SHOW TRANSACTIONS").data():
            if mark in row["currentQuery"]:
                session.run("TERMINATE TRANSACTION $name", name=row["transactionId"]).consume()
