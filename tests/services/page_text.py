"""What a page shows, as text that can be compared."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

#: Begin a line of their own.
_BLOCKS = {
    "h1", "h2", "h3", "p", "li", "tr", "dt", "dd", "option", "label", "legend", "caption",
    "summary", "pre", "form", "figure", "svg", "title",
}  # fmt: skip
#: Say nothing of a page, or the same on every page.
_SKIPPED = {"head", "header", "script", "style"}
#: What differs from run to run, and digests, which nobody reads to their end.
_VOLATILE = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d(:|%3A)\d\d((:|%3A)\d\d(\.\d+)?)?(Z|\+00:00)?", "TIME"),
    (f"{datetime.now(UTC):%Y-%m-%d}", "TODAY"),
    (r"\bafter [\d.]+ s\b", "after N s"),
    (r"adviser-\d+-[0-9a-f]+", "adviser-N"),
    (r"(sha256(:|%3A))?([0-9a-f]{8})[0-9a-f]{56}", r"\3…"),
    # Tests share one graph, which others may have emptied.
    (r"(Graph behind the record\0)[^\0]*", r"\1…"),
)


def page_text(page: str) -> str:
    """What a page shows: its text, cells apart from each other, links and values of its forms."""
    parser = _PageText()
    parser.feed(page)
    text = "".join(parser.parts)
    for pattern, name in _VOLATILE:
        text = re.sub(pattern, name, text)
    lines = (" ".join(line.split()) for line in text.split("\0"))
    return "".join(f"{line}\n" for line in lines if line)


class _PageText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped: str | None = None
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self._skipped is None and tag in _SKIPPED:
            self._skipped = tag
        elif tag in _BLOCKS:
            self.parts.append("\0")
        elif tag in {"td", "th"}:
            self.parts.append(" | ")
        elif tag == "a":
            self._links.append(values.get("href", ""))
        elif tag == "input" and values.get("type") != "hidden":
            self._add(f" [{values.get('name')}: {values.get('value', '')}]")
        if "selected" in values or "checked" in values:
            self._add("* ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = None
        elif tag == "a":
            self._add(f" <{self._links.pop()}>")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def _add(self, text: str) -> None:
        if self._skipped is None:
            self.parts.append(text)
