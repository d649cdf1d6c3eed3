"""Saved questions to the graph: the queries of the cookbook, with parameters in the address."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from flask import Response, request, url_for

from api.http.errors import ApiError, ProblemType, not_found
from api.pages.formatting import digest, visible
from api.pages.site import ApiDocument, Pages, file_response, other_url, render, write

#: Name of columns with digests of stacks.
_STACK = "stack"
#: Query parameter that runs the question.
_RUN = "run"
blueprint = Pages("questions", __name__)
#: A link to ``docs/cookbook.md``; packages contain a copy.
_COOKBOOK = Path(__file__).with_name("cookbook.md")
_QUESTION = re.compile(
    r"^## (?P<number>\d+)\. (?P<title>.*?)\n(?P<text>.*?)"
    r"(?:^Parameters: `(?P<parameters>\{.*?\})`\n+)?^```cypher\n(?P<query>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the graph.

    :param parameters: example values by name, which also say the type of each
    """

    number: int
    title: str
    text: str
    query: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The parameters, parsed from texts; a missing one has its example value.

        :raises ValueError: for a text that is no number, with the name of the parameter
        """
        return {
            name: _value(name, texts[name], example) if texts.get(name) else example
            for name, example in self.parameters.items()
        }


@cache
def saved_questions() -> Mapping[int, Question]:
    """All questions by number, in order."""
    return {
        int(match["number"]): Question(
            int(match["number"]), match["title"], match["text"].strip(), match["query"].strip(),
            json.loads(match["parameters"] or "{}"),
        )
        for match in _QUESTION.finditer(_COOKBOOK.read_text("utf-8"))
    }  # fmt: skip


def _value(name: str, text: str, example: object) -> object:
    """A text as a value of the example's type.

    >>> _value("n", "3", 1), _value("names", "a, b", ["x"]), _value("unit", "s", "FLOP/s")
    (3, ['a', 'b'], 's')
    """
    if isinstance(example, list):
        return [it.strip() for it in text.split(",") if it.strip()]
    if isinstance(example, int | float):
        try:
            return type(example)(text)
        except ValueError:
            raise ValueError(f"{name}: {text!r} is not a number") from None
    return text


@blueprint.get("/questions")
def questions() -> Response:
    """All saved questions."""
    return render("questions.html", questions=saved_questions().values())


@blueprint.get("/questions/<int:number>")
def question(number: int) -> Response:
    """One question; with ``run`` in the address, its result."""
    saved = saved_questions().get(number)
    if saved is None:
        raise not_found("question", str(number))
    try:
        values = saved.values(request.args)
    except ValueError as error:
        raise ApiError(400, ProblemType.INVALID_REQUEST, str(error)) from error
    query = {"query": saved.query, "parameters": values}
    result = write("/api/v2/cypher", query) if _RUN in request.args else None
    if "format" in request.args:
        return _download(saved, result)
    columns = result["columns"] if result else []
    rows = [[it.get(name) for name in columns] for it in result["rows"]] if result else []
    return render(
        "question.html", result, question=saved, values=values, result=result and result.body,
        rows=[[_cell(*it) for it in zip(columns, row, strict=True)] for row in rows],
        numbers=_numeric(columns, rows),
        csv_url=other_url(format="csv"), json_url=other_url(format="json"),
    )  # fmt: skip


def _download(saved: Question, result: ApiDocument | None) -> Response:
    """The result as a file."""
    wanted = request.args["format"]
    if result is None or wanted not in {"csv", "json"}:
        detail = "format: `csv` or `json`, and `run=1`"
        raise ApiError(400, ProblemType.INVALID_REQUEST, detail)
    name = f"question-{saved.number}.{wanted}"
    if wanted == "json":
        return file_response(orjson.dumps(result.body), name, "application/json")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(result["columns"])
    for row in result["rows"]:
        writer.writerow([_text(row.get(name)) for name in result["columns"]])
    return file_response(text.getvalue(), name, "text/csv")


def _text(value: object) -> str:
    """A value of a result as text: lists and nodes as JSON."""
    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return orjson.dumps(value).decode()


def _cell(column: str, value: object) -> tuple[str, bool, str | None]:
    """The text of a cell, with digests shortened, whether it is a number, and where it leads."""
    if isinstance(value, float):
        return f"{value:.6g}", True, None
    text = _text(value)
    if not text.startswith("sha256:"):
        return visible(text), type(value) is int, None
    address = url_for("pages-stacks.stack", digest=text) if column == _STACK else None
    return visible(digest(text)), False, address


def _numeric(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Columns with numbers only."""
    numeric = []
    for place, name in enumerate(columns):
        kinds = {type(row[place]) for row in rows} - {type(None)}
        if kinds and kinds <= {int, float}:
            numeric.append(name)
    return numeric
