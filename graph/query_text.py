"""Reads names out of the text of Cypher queries.

Both stores answer a misspelt label, type or property with fewer rows or with nulls, and ArcadeDB
has no notifications. Patterns such as ``(p:Package {name: $name})`` are therefore read from the
text. Names elsewhere are left out, as in ``WHERE p:Package``, and properties of variables without
a label.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from model.errors import QueryRefused
from model.text import suggestion

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
        raise QueryRefused(f"the query is longer than {LONGEST_QUERY} characters", hint)
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
    from graph.projection.registry import EDGES, NODES

    labels = {node.label: frozenset(node.properties) for node in NODES}
    labels[CHECKPOINT_LABEL] = frozenset(CHECKPOINT_PROPERTIES)
    types: dict[str, frozenset[str]] = {}
    for edge in EDGES:
        types[edge.type] = types.get(edge.type, frozenset()).union(edge.properties[2:])
    return labels, types


def _without_quoted(match: re.Match[str]) -> str:
    token = match[0]
    return f"`{re.sub(r'[^A-Za-z0-9]', '_', token[1:-1])}`" if token[0] == "`" else " "
