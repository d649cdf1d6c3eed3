"""Links of an HTML page."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

from pypi_simple import Link


class _Links(HTMLParser):
    """Collects links; an anchor ends the one before it, as browsers see it.

    The client library's own parsers keep a stack of tags, and a page of unclosed ones
    costs them the square of its length.
    """

    def __init__(self, base_url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base_url = base_url
        self.base_seen = False
        self.api_version: str | None = None
        self.links: list[Link] = []
        self._attributes: dict[str, str] | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "a":
            self._end()
            self._attributes, self._text = given, []
        elif tag == "base" and given.get("href") and not self.base_seen:
            self.base_url, self.base_seen = urljoin(self.base_url, given["href"]), True
        elif tag == "meta" and given.get("name") == "pypi:repository-version":
            self.api_version = given.get("content")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._end()

    def handle_data(self, data: str) -> None:
        if self._attributes is not None:
            self._text.append(data)

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        given, self._attributes = self._attributes, None
        if given is None or "href" not in given:
            return
        try:
            url = urljoin(self.base_url, given["href"])
        except ValueError:
            return
        self.links.append(Link("".join(self._text).strip(), url, dict(given)))


def read_links(body: bytes, base_url: str, charset: str) -> tuple[str | None, list[Link]]:
    """The version of the repository API that the page names, if it does, and its links.

    Time and memory grow with the page's length only.
    """
    try:
        text = body.decode(charset, errors="replace")
    except LookupError:
        text = body.decode(errors="replace")
    parser = _Links(base_url)
    parser.feed(text)
    parser.close()
    return parser.api_version, parser.links
