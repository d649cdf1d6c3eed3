"""Runs analysts' Cypher queries: read-only, with limits of time, rows and bytes.

Results become JSON values, or text in the notation of Cypher.

Three checks protect the graph. The plan of the query (``EXPLAIN``) must not write, load files or
call procedures outside :data:`PROCEDURES`. The query runs as a read-only user (ArcadeDB) or in read
access mode (Neo4j). The store ends the query at the time limit.

Neo4j and ArcadeDB differ here; all other code treats them alike. Neo4j refuses writes in read
access mode, ends transactions at their timeout, and returns a plan as a tree of operators. ArcadeDB
checks only the rights of the user, ends a query only on request, and returns a plan as text that
omits subqueries.

Both stores answer a misspelt label, type or property with fewer rows or with nulls, and ArcadeDB
has no notifications. Patterns such as ``(p:Package {name: $name})`` are therefore read from the
text. Names elsewhere are left out, as in ``WHERE p:Package``, and properties of variables without
a label.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import neo4j
import orjson
from neo4j.exceptions import ClientError, DatabaseError, DriverError, Neo4jError, TransientError
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from common.settings import Settings
from graph.engine import graph_errors, reader_driver
from model.errors import GraphOutOfMemory, InvalidSettings, QueryRefused
from model.text import printable, suggestion

#: Maximum number of warnings about a query.
_MOST_WARNINGS = 10

#: Matches quoted names, comments and strings, and then a call of a dotted name.
_QUOTED = re.compile(
    r"`[^`]*`|//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL
)
_CALL = re.compile(r"\bCALL\s+(`?\w+`?(?:\s*\.\s*`?\w+`?)+)", re.IGNORECASE)

_NAMES = r"!?\w+(?: ?[:|&] ?:? ?!?\w+)*"
#: Matches the head of a node or an edge, as in ``(p:Package {name: 1})`` and ``-[e:USED*1..2]``.
_HEAD = re.compile(
    rf"(?P<open>\(|- ?\[) ?(?P<variable>\w*) ?: ?(?P<names>{_NAMES})"
    r"(?: ?\*[\d. ]*)?(?: ?\{(?P<map>[^{}]*)\})?"
)
_KEY = re.compile(r"(?:^|,) ?(\w+) ?:")
_ACCESS = re.compile(r"(?<![\w.$])(\w+) ?\. ?([^\W\d]\w*)")
#: Matches variables that get a value other than that of a pattern.
_REBOUND = re.compile(r"\bAS (\w+)|\b(\w+) IN\b", re.IGNORECASE)

#: Longest query in characters, and most brackets within each other. Neo4j plans deeper maps and
#: lists for minutes, and its time limit does not end that.
LONGEST_QUERY, MOST_NESTED = 20_000, 50

#: Properties by label or type.
_Properties = Mapping[str, frozenset[str]]


def called_procedures(query: str) -> list[str]:
    """The names of the procedures that ``query`` calls, in order.

    This is needed for ArcadeDB, whose plan omits subqueries and which has no list of allowed
    procedures. A read-only user cannot write through a procedure.

    >>> called_procedures("CALL { CALL `algo`.wcc() YIELD node RETURN node } RETURN 'CALL a.b'")
    ['algo.wcc']
    """
    plain = _QUOTED.sub(_without_quoted, query)
    return [re.sub(r"[`\s]", "", match[1]) for match in _CALL.finditer(plain)]


def refuse_hostile_text(query: str) -> None:
    """:raises QueryRefused: if the text alone could keep a store busy for minutes"""
    if len(query) > LONGEST_QUERY:
        hint = "send data as parameters"
        raise QueryRefused(f"the query is longer than {LONGEST_QUERY} characters", hint=hint)
    depth = 0
    for bracket in re.findall(r"[][(){}]", _QUOTED.sub(_without_quoted, query)):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        if depth > MOST_NESTED:
            raise QueryRefused(f"the query nests brackets more than {MOST_NESTED} deep")


def name_warnings(query: str) -> tuple[str, ...]:
    """Sentences about names that the graph does not have, in the order of the query.

    >>> name_warnings("MATCH (p:Packge)-[:REQUIRES]->(:Package) RETURN p.name")
    ('the graph has no label Packge (did you mean Package?)',)
    """
    # With single spaces, the expressions take a time that is linear in the length of the query.
    text = re.sub(r"\s+", " ", _QUOTED.sub(_without_quoted, query)).replace("`", "")
    heads = list(_HEAD.finditer(text))
    warnings: dict[str, None] = {}
    for warning in _warnings(text, heads):
        warnings[warning] = None
        if len(warnings) == _MOST_WARNINGS:
            break
    return tuple(warnings)


def _warnings(text: str, heads: Sequence[re.Match[str]]) -> Iterator[str]:
    if not heads:
        return
    labels, types = _known()
    owners: dict[str, set[str]] = defaultdict(set)
    unchecked = {name for pair in _REBOUND.findall(text) for name in pair}
    for head in heads:
        noun, known = ("label", labels) if head["open"] == "(" else ("relationship type", types)
        names = list(dict.fromkeys(re.findall(r"\w+", head["names"])))
        unknown = [name for name in names if name not in known]
        for name in unknown:
            yield f"the graph has no {noun} {name}{suggestion(name, known)}"
        if unknown or "!" in head["names"]:
            unchecked.add(head["variable"])
            continue
        owners[head["variable"]].update(names)
        for key in _KEY.findall(head["map"] or ""):
            yield from _property_warning(key, names, known)
    for variable, name in _ACCESS.findall(text):
        if variable in owners and variable not in unchecked:
            yield from _property_warning(name, sorted(owners[variable]), {**labels, **types})


def _property_warning(name: str, owners: Sequence[str], known: _Properties) -> Iterator[str]:
    properties = frozenset[str]().union(*(known[owner] for owner in owners))
    if name not in properties:
        similar = suggestion(name, sorted(properties))
        yield f"{' or '.join(owners)} has no property {name}{similar}"


@cache
def _known() -> tuple[_Properties, _Properties]:
    """Properties by label, and by type of relationship."""
    # Loads SQLAlchemy, which queries without labels do not need.
    from graph.checkpoints import CHECKPOINT_LABEL, CHECKPOINT_PROPERTIES
    from graph.projection.outbox import EDGES, NODES

    labels = {node.label: frozenset(node.properties) for node in NODES}
    labels[CHECKPOINT_LABEL] = frozenset(CHECKPOINT_PROPERTIES)
    types: dict[str, frozenset[str]] = {}
    for edge in EDGES:
        types[edge.type] = types.get(edge.type, frozenset()).union(edge.properties[2:])
    return labels, types


def _without_quoted(match: re.Match[str]) -> str:
    token = match[0]
    return f"`{re.sub(r'[^A-Za-z0-9]', '_', token[1:-1])}`" if token[0] == "`" else " "


#: Procedures that analysts may call: they list labels, types and keys, with equal results on Neo4j
#: and ArcadeDB. Procedures that run algorithms or concern the server are not allowed.
PROCEDURES = frozenset({"db.labels", "db.relationshiptypes", "db.propertykeys"})

#: Names of plan steps that write: ``SetProperty`` on Neo4j, ``DETACH DELETE`` on ArcadeDB.
_WRITES = re.compile(
    r"(?:Create|Merge|Set|Remove|Delete|DetachDelete|Foreach)(?![a-z])"
    r"|(?:CREATE|MERGE|SET|REMOVE|DELETE|DETACH DELETE|FOREACH)\b"
)
_READ_ONLY = "this session is read-only"

_TIMED_OUT = ("Transaction.TransactionTimedOut", "Transaction.Terminated")
_FORBIDDEN = ("Statement.AccessMode", "Security.Forbidden")
#: Rows that the driver requests at a time. After a cut, the driver reads the rest of them.
_FETCHED_ROWS = 100
#: Pause before a query that began after its time limit is ended, s.
_AGAIN_S = 1.0
_OUT_OF_MEMORY = ("General.MemoryPoolOutOfMemoryError", "General.OutOfMemoryError")
_NOT_OF_A_QUERY = (
    "Security.Unauthorized",
    "Security.Authentication",
    "Security.CredentialsExpired",
    "Database.",
)

#: ArcadeDB's message for every error in production mode.
_CONCEALED = "Check the server log"

#: Kinds of plan steps that both products name alike here.
PROCEDURE, LOAD = "ProcedureCall", "LoadCSV"

_TEXT = "string-representation"
_LINE = re.compile(r"^\s*\+ (?P<step>[A-Z][A-Z ]*[A-Z])(?: (?P<name>[\w.`]+)\()?")


@contextmanager
def open_reader(settings: Settings) -> Iterator[neo4j.Driver]:
    """A driver for analysts' queries; the store must be running.

    :raises InvalidSettings: if the store could not refuse a write: ArcadeDB ignores read access
        mode, so it needs a read-only user
    :raises QueryRefused: if the embedded graph ran out of memory in the block
    :raises StoreUnavailable: if the store does not answer
    """
    try:
        with graph_errors(settings), reader_driver(settings) as driver:
            may_write = settings.graph_url is not None and settings.graph_reader_user is None
            if may_write and is_arcadedb(driver):
                raise InvalidSettings("GRAPH_READER_USER: ArcadeDB needs a user who may only read")
            yield driver
    except GraphOutOfMemory as error:
        message = "the query needs more memory than the graph has"
        raise QueryRefused(message, hint=error.hint) from error


def run_query(
    driver: neo4j.Driver,
    query: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout_s: float,
    row_limit: int,
    byte_limit: int,
    database: str,
) -> QueryResult:
    """Run ``query`` and return its first rows: ``row_limit`` at most, and ``byte_limit`` bytes.

    :param driver: from :func:`open_reader`
    :param byte_limit: limit of the rows' :func:`~graph.analyst_queries.size_bytes`
    :raises QueryRefused: with the store's reason, or the limit that was reached
    """
    refuse_hostile_text(query)
    mark = uuid4().hex
    # The mark gets its own line, so that column numbers in the store's messages stay correct.
    marked = f"/* {mark} */\n{query}"
    values = dict(parameters or {})
    with (
        _refusals(timeout_s),
        _time_limit(driver, database, mark, timeout_s),
        driver.session(
            database=database,
            default_access_mode=neo4j.READ_ACCESS,
            fetch_size=min(row_limit + 1, _FETCHED_ROWS),
        ) as session,
    ):
        with _transaction(session, timeout_s) as transaction:
            plan = transaction.run(f"EXPLAIN {marked}", values).consume()
            _refuse_unwanted_steps(plan, query)
        with _transaction(session, timeout_s) as transaction:
            result = transaction.run(marked, values)
            columns = tuple(result.keys())
            rows, cut = _rows_within(result, row_limit, byte_limit)
            if cut is not None:
                # ArcadeDB would compute the remaining rows only to discard them.
                _end_on_arcadedb(driver, database, mark)
            else:
                _refuse_writes(result.consume())
    return QueryResult(columns, rows, cut, name_warnings(query))


def _rows_within(
    result: neo4j.Result, row_limit: int, byte_limit: int
) -> tuple[tuple[tuple[Any, ...], ...], Cut | None]:
    """The first rows, and which limit cut them."""
    rows: list[tuple[Any, ...]] = []
    left = byte_limit
    for record in result:
        if len(rows) == row_limit:
            return tuple(rows), Cut.ROWS
        row = tuple(record.values())
        left -= size_bytes(row)
        if left < 0:
            return tuple(rows), Cut.BYTES
        rows.append(row)
    return tuple(rows), None


@contextmanager
def _transaction(session: neo4j.Session, timeout_s: float) -> Iterator[neo4j.Transaction]:
    """A transaction that is always rolled back."""
    transaction = session.begin_transaction(timeout=timeout_s)
    try:
        yield transaction
    finally:
        # After a terminated query, this raises the same error again.
        with suppress(Neo4jError):
            transaction.close()


@contextmanager
def _time_limit(driver: neo4j.Driver, database: str, mark: str, timeout_s: float) -> Iterator[None]:
    """Make ArcadeDB end the query in time; Neo4j ends it when the transaction times out.

    At the limit, the query may not be running yet. So the thread looks again.
    """
    over = Event()

    def end() -> None:
        pause_s = timeout_s
        while not over.wait(pause_s):
            _end_on_arcadedb(driver, database, mark)
            pause_s = _AGAIN_S

    thread = Thread(target=end, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # It may use the driver at this moment, which the caller may close next.
        thread.join()


def _end_on_arcadedb(driver: neo4j.Driver, database: str, mark: str) -> None:
    """Terminate the running query whose text contains ``mark``, if ArcadeDB runs one."""
    # The waiting query reports that the store does not answer.
    with suppress(DriverError, Neo4jError):
        if not is_arcadedb(driver):
            return
        with driver.session(database=database) as session:
            for row in session.run("SHOW TRANSACTIONS").data():
                if mark in row["currentQuery"]:
                    name = row["transactionId"]
                    session.run("TERMINATE TRANSACTION $name", name=name).consume()


def _refuse_unwanted_steps(plan: neo4j.ResultSummary, query: str) -> None:
    steps = steps_of(plan, query)
    if not steps or any(step.kind.startswith(("Show", "Terminate")) for step in steps):
        raise QueryRefused("refused: server commands are not allowed")
    for step in steps:
        if _WRITES.match(step.kind):
            raise QueryRefused(f"refused: the query writes, but {_READ_ONLY}")
        if step.kind == LOAD:
            raise QueryRefused("refused: a query may not load files or URLs")
        if step.kind == PROCEDURE and step.name.lower() not in PROCEDURES:
            raise QueryRefused(
                f"refused: {step.name or 'a procedure'} is not an allowed procedure",
                hint=f"allowed procedures: {', '.join(sorted(PROCEDURES))}",
            )
    if tells_kind(plan):
        _refuse_writes(plan)


def _refuse_writes(summary: neo4j.ResultSummary) -> None:
    if summary.query_type != "r":
        raise QueryRefused(f"refused: the query does more than read, but {_READ_ONLY}")


@contextmanager
def _refusals(timeout_s: float) -> Iterator[None]:
    """Translate the store's errors about a query into :exc:`QueryRefused`."""
    try:
        yield
    except (ClientError, DatabaseError, TransientError) as error:
        code = str(error.code).partition("Error.")[2]
        if code.startswith(_NOT_OF_A_QUERY):
            raise
        if isinstance(error, TransientError) and code not in (*_TIMED_OUT, *_OUT_OF_MEMORY):
            raise
        raise _refusal(error, code, timeout_s) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise QueryRefused(f"the query or a parameter cannot be sent: {error}") from error


def _refusal(error: Neo4jError, code: str, timeout_s: float) -> QueryRefused:
    if code.startswith(_TIMED_OUT):
        return QueryRefused(
            f"the store ended the query at its limit of {timeout_s:g} s",
            hint="simplify the query, or raise the limit with --timeout",
        )
    if code in _OUT_OF_MEMORY:
        message = "the query needs more memory than the store allows"
        return QueryRefused(message, hint="return less data")
    if code.startswith(_FORBIDDEN):
        return QueryRefused(f"refused by the store: {_message(error) or _READ_ONLY}")
    return QueryRefused(_message(error) or f"the store cannot run the query ({code})")


def _message(error: Neo4jError) -> str:
    """The first line of the store's message; its line numbers begin after the mark."""
    lines = (error.message or "").splitlines()
    if not lines or _CONCEALED in lines[0]:
        return ""
    message = re.sub(r" \(offset: \d+\)", "", lines[0])
    return re.sub(r"\bline ([1-9]\d*)", lambda match: f"line {int(match[1]) - 1}", message)


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


#: What each value counts for, besides its text, in the size of a result.
_VALUE_BYTES = 16


class Cut(StrEnum):
    """The limit that ended a result early. The values are part of the API."""

    ROWS = "rows"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query in the store's order; each row has one value for each of ``columns``.

    :param cut: the limit that cut the result; ``None`` if the result is complete
    :param warnings: sentences about names in the query that the graph does not have
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: Cut | None = None
    warnings: tuple[str, ...] = ()

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the result."""
        return self.cut is not None


def json_parts(result: QueryResult) -> Iterator[bytes]:
    """``result`` as a JSON object in parts: one for each row, and the rest."""
    yield b'{"columns":' + orjson.dumps(result.columns) + b',"rows":['
    for place, row in enumerate(result.rows):
        yield (b"," if place else b"") + _encoded(_by_column(result.columns, row))
    yield b"],"
    yield _encoded(_ending(result))[1:]


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:  # for a lone surrogate
        return json.dumps(document, allow_nan=False).encode()


def as_document(result: QueryResult) -> dict[str, Any]:
    """``result`` as JSON values, as the command prints it."""
    rows = [_by_column(result.columns, row) for row in result.rows]
    return {"columns": list(result.columns), "rows": rows, **_ending(result)}


def _by_column(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns, map(plain, row), strict=True))


def _ending(result: QueryResult) -> dict[str, Any]:
    return {"truncated": result.truncated, "truncated_by": result.cut, "warnings": result.warnings}


def size_bytes(value: Any) -> int:
    """Size of a value: its text in UTF-8, and 16 bytes for each value that it contains.

    >>> size_bytes("né"), size_bytes([1, {"a": "bc"}])
    (19, 83)
    """
    match value:
        case str():
            return _VALUE_BYTES + len(value.encode("utf-8", "surrogatepass"))
        case bytes() | bytearray():
            return _VALUE_BYTES + len(value)
        case Path():
            inner: Iterable[Any] = (*value.nodes, *value.relationships)
        case Node() | Relationship() | dict():
            inner = (part for pair in value.items() for part in pair)
        case list() | tuple():
            inner = value
        case _:
            inner = ()
    return _VALUE_BYTES + sum(map(size_bytes, inner))


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """``value`` as a JSON value: nodes with labels and properties, times in ISO 8601.

    ``NaN`` and ``Infinity``, which JSON does not have, become text.
    """
    match value:
        case Node():
            return {"labels": sorted(value.labels), "properties": properties_of(value)}
        case Relationship():
            return {"type": value.type, "properties": properties_of(value)}
        case Path():
            return {"nodes": plain(list(value.nodes)), "relationships": plain(list(value))}
        case Date() | DateTime() | Time() | Duration():
            return value.iso_format()
        case Point():
            return {"srid": value.srid, "coordinates": [plain(number) for number in value]}
        case bytes() | bytearray():
            return b64encode(value).decode("ascii")
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def properties_of(entity: Node | Relationship) -> dict[str, Any]:
    """Properties sorted by name, because Neo4j and ArcadeDB order them differently."""
    return {key: plain(entity[key]) for key in sorted(entity.keys())}


def short(value: Any) -> str:
    """``value`` as text for a table, in the notation of Cypher.

    >>> short([1.0, None, "a"]), short({"rate": 1234567890.123})
    ('[1, null, "a"]', '{rate: 1.23457e+09}')
    """
    match value:
        case str():
            return printable(value)
        case None:
            return ""
        case _:
            return _cypher(value)


def _cypher(value: Any) -> str:  # noqa: PLR0911 - one line a type
    match value:
        case Node():
            labels = "".join(f":{label}" for label in sorted(value.labels))
            return f"({_joined(labels, _map(properties_of(value)))})"
        case Relationship():
            return f"[{_joined(f':{value.type}', _map(properties_of(value)))}]"
        case Path():
            text = _cypher(value.nodes[0]) if value.nodes else ""
            for node, edge in zip(value.nodes[1:], value.relationships, strict=True):
                left, right = ("-", "->") if edge.end_node == node else ("<-", "-")
                text += f"{left}{_cypher(edge)}{right}{_cypher(node)}"
            return text
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}"
        case str():
            return json.dumps(printable(value), ensure_ascii=False)
        case dict():
            return _map(value)
        case list() | tuple() if not isinstance(value, (Point, Duration)):
            return f"[{', '.join(map(_cypher, value))}]"
        case Point():
            return f"point({', '.join(map(_cypher, tuple(value)))})"
        case _:
            return str(plain(value))


def _map(values: dict[str, Any]) -> str:
    if not values:
        return ""
    return "{" + ", ".join(f"{key}: {_cypher(item)}" for key, item in values.items()) + "}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
