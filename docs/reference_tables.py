"""Writes the lists of the docs that follow from code: ``python -m docs.reference_tables``.

Such a list stands between the lines ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import get_args, get_origin

from adviser.scoring.comparisons import Comparison
from adviser.stack_comparison import StackResult
from graph.projection.outbox import NODES
from graph.record.inspections import InspectionHead
from graph.record.observations import RecordedObservation
from graph.record.vulnerabilities import VulnerabilityHead
from model.advice import AdviceHead
from model.declared_fields import DeclaredField, declared_fields, is_declared

ROOT = Path(__file__).parents[1]
_GENERATED = re.compile(r"(?s)<!-- generated: (.+?) -->\n.*?<!-- end -->")
_TYPES = {int: "integer", float: "float", bool: "boolean", datetime: "datetime"}
#: Dataclasses that declare the properties of nodes, by label.
_DECLARED = {
    "Advice": AdviceHead,
    "Inspection": InspectionHead,
    "Observation": RecordedObservation,
    "Vulnerability": VulnerabilityHead,
}
#: Types and meanings of properties that differ from the field of this name, or have none.
_PROPERTIES = {
    "hardware": ("string", "`Hardware.digest` of the machine of this job."),
    "stack": ("string", "`Stack.digest` of the inspection."),
    "python_version": ("string", "Major and minor version of Python, such as `3.11`."),
    "parameters": ("string", "Canonical JSON of the indicator's parameters."),
    "stack_known": ("boolean", "Whether the stack is known, so that there is `INSPECTED`."),
    "recommendation_type": (
        "string",
        "`best`, `latest`, `stable`, `testing`, `performance` or `security`.",
    ),
    "status": ("string", "How the search ended: `optimal`, `feasible`, `infeasible`, `unknown`."),
    "repetitions": ("integer", "Number of repetitions; their durations are in the record."),
}
#: Properties of most nodes, about the document behind them, which the page describes once.
ORIGIN = frozenset({"document_id", "ingested_at", "collector", "source"})
PARAMETER = "parameter_"


def node_table(label: str) -> Iterator[str]:
    """The properties of a label with their types, except strings, and meanings."""
    node = next(it for it in NODES if it.label == label)
    declared = {it.name: (_type_of(it), _meaning(it)) for it in declared_fields(_DECLARED[label])}
    meanings = {**declared, **_PROPERTIES}
    files = sorted((ROOT / "migrations" / "cypher").glob("*.cypher"))
    statements = "".join(path.read_text(encoding="utf-8") for path in files)
    for name in node.properties:
        if (name not in ORIGIN or name == node.key) and not name.startswith(PARAMETER):
            indexed = f"FOR (node:{label}) ON (node.{name})" in statements
            kind, meaning = meanings[name]
            notes = [] if kind == "string" else [kind]
            notes += ["key"] if name == node.key else ["indexed"] if indexed else []
            yield f"- {', '.join((f'`{name}`', *notes))}: {meaning}"
    if any(it.startswith(PARAMETER) for it in node.properties):
        yield (
            "- parameter_NAME, number, string or boolean: The indicator's parameter NAME, as"
            " `thoth pi describe` lists it. Lists and objects are only in `parameters`."
        )


def key_table(view: type) -> Iterator[str]:
    """The keys of a JSON document with their types, except strings, and meanings."""
    for field in declared_fields(view):
        if field.declared.description:
            kind = _type_of(field)
            yield f"- `{field.name}`{'' if kind == 'string' else f', {kind}'}: {_meaning(field)}"


#: Lines of each table by its name.
TABLES: dict[str, Callable[[], Iterator[str]]] = {
    **{label: partial(node_table, label) for label in _DECLARED},
    "stack": partial(key_table, StackResult),
    "comparison": partial(key_table, Comparison),
}


def _type_of(field: DeclaredField) -> str:
    origin = get_origin(field.type)
    if origin is Mapping:
        return "object"
    if origin is tuple:
        inner = get_args(field.type)[0]
        return "list of objects" if is_declared(inner) else "list of strings"
    return _TYPES.get(field.type, "string")


def _meaning(field: DeclaredField) -> str:
    sentence, choices = field.declared.sentence, ", ".join(f"`{it}`" for it in field.choices)
    if not choices:
        return sentence
    first, semicolon, rest = sentence.removesuffix(".").partition(";")
    return f"{first}: {choices}{semicolon}{rest}."


def rewritten(text: str) -> str:
    """A page with its tables generated again."""
    return _GENERATED.sub(
        lambda match: "\n".join(
            (f"<!-- generated: {match[1]} -->", *TABLES[match[1]](), "<!-- end -->")
        ),
        text,
    )


def main() -> None:
    """Rewrite all pages."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if rewritten(text) != text:
            page.write_text(rewritten(text), encoding="utf-8")


if __name__ == "__main__":
    main()
