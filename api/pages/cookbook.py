"""The questions of the cookbook: title, text, query and parameters of each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

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
        """The parameters from texts; what is not given has its example value.

        :raises ValueError: for a text that is no number, with the name of the parameter
        """
        return {
            name: _value(name, texts[name], example) if texts.get(name) else example
            for name, example in self.parameters.items()
        }


@cache
def questions() -> Mapping[int, Question]:
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
