"""Links of an HTML page, parsed in time linear in its length.

The standard library's parser searches the whole page for the end of an unclosed construct, and then
starts again just after the construct's beginning. The parser's time grows with the square of a
page's length: minutes for 100 kB of ``<a ``. In this module, an unclosed construct extends to the
end of the page, as in browsers (WHATWG HTML, 13.2.5).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.entities import html5
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from pypi_simple import Link

_SPACE = r"\t\n\f\r "
#: A comment, what browsers treat as one (declarations, CDATA), or the name of a tag.
_OPENING = re.compile(rf"<(?:(!--)|([!?]|/(?![A-Za-z]))|(/?)([A-Za-z][^{_SPACE}/>]*+))")
_COMMENT_END = re.compile(r"--!?>")
#: Name; value in double, single, unclosed or no quotes; end of the tag.
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+(?:([^{_SPACE}/>][^{_SPACE}/>=]*+)(?:[{_SPACE}]*+=[{_SPACE}]*+"
    rf"""(?:"([^"]*+)"|'([^']*+)'|(["'])|([^{_SPACE}>]*+)))?+)?+[{_SPACE}/]*+(>)?+"""
)
#: Elements whose content is not markup, with their end tag.
_RAW = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.I) for name in ("script", "style")}
_REFERENCE = re.compile(r"&(?:#[^&]*+|([A-Za-z][A-Za-z0-9]*+)(;?)(=?))")


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag or, with ``closing``, an end tag.

    :param name: in lower case
    :param attributes: the requested ones, by name in lower case
    """

    name: str
    closing: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


def read_tags(page: str, attributes: Collection[str]) -> Iterator[Tag | str]:
    """The tags of a page and the text between them, in order.

    :param attributes: names of attributes to keep; the first of repeated attributes counts
    """
    at = 0
    while opening := _OPENING.search(page, at):
        if at < opening.start():
            yield plain(page[at : opening.start()])
        comment, declaration, slash, name = opening.groups()
        if name is None:
            end = _COMMENT_END.search(page, opening.end() - 2) if comment else None
            at = end.end() if end else 1 + page.find(">", opening.end()) if declaration else 0
        else:
            tag = Tag(name.lower(), bool(slash))
            at = _read_attributes(page, opening.end(), tag.attributes, attributes)
            if at:
                yield tag
            if at and not slash and tag.name in _RAW:
                content_end = _RAW[tag.name].search(page, at)
                at = content_end.start() if content_end else 0
        if not at:
            return
    if at < len(page):
        yield plain(page[at:])


def _read_attributes(page: str, at: int, into: dict[str, str], wanted: Collection[str]) -> int:
    """Offset after the end of the tag; 0 if it has no end."""
    while True:
        attribute = _ATTRIBUTE.match(page, at)
        assert attribute is not None  # noqa: S101 - all parts are optional
        name, double, single, unclosed, bare, end = attribute.groups()
        if unclosed:
            return 0
        if name and (name := name.lower()) in wanted:
            into.setdefault(name, _plain_value(double or single or bare or ""))
        if end:
            return attribute.end()
        if attribute.end() == len(page):
            return 0
        at = attribute.end()


def plain(text: str) -> str:
    """Resolve character references; references with too many digits stay as they are."""
    try:
        return unescape(text)
    except ValueError:
        return text


def _plain_value(text: str) -> str:
    """Resolve references in an attribute, except if ``=`` or a letter follows without a semicolon.

    >>> _plain_value("?a=1&region=2&amp;b=&#51;&copy=4")
    '?a=1&region=2&b=3&copy=4'
    """
    return _REFERENCE.sub(_resolved, text) if "&" in text else text


def _resolved(reference: re.Match[str]) -> str:
    name, semicolon, equals = reference.groups()
    if name is None:
        return plain(reference[0])
    known = html5.get(f"{name}{semicolon}")
    return reference[0] if known is None or (equals and not semicolon) else f"{known}{equals}"


_OF_LINKS = (
    "href", "data-requires-python", "data-yanked", "data-core-metadata", "data-dist-info-metadata",
    "data-provenance", "data-gpg-sig",
)  # fmt: skip
_ATTRIBUTES = frozenset((*_OF_LINKS, "name", "content"))
#: How names of ``meta`` elements begin that are of the repository API.
_ABOUT = "pypi:"
#: Characters of a base URL: every relative URL becomes longer by it.
LONGEST_BASE = 2_000
#: Encodings besides UTF-8. Links are ASCII in practice, so other encodings in use decode alike.
_ENCODINGS = {
    "iso-8859-1": "latin-1", "latin-1": "latin-1", "windows-1252": "cp1252",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
}  # fmt: skip


class _Links:
    """Collects links. An anchor closes the previous one, as in browsers."""

    def __init__(self, base_url: str) -> None:
        self.about: dict[str, str] = {}
        from pypi_simple import Link  # slow, and few indexes have pages in HTML only

        self._link = Link
        self.links: list[Link] = []
        self._base_url = base_url
        self._base_seen = False
        self._open: Tag | None = None
        self._text: list[str] = []

    def read(self, pieces: Iterator[Tag | str]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                if self._open is not None:
                    self._text.append(piece)
            elif piece.name == "a":
                self._close_anchor()
                self._open = None if piece.closing else piece
            elif not piece.closing:
                attributes = piece.attributes
                if piece.name == "base" and attributes.get("href") and not self._base_seen:
                    self._base_seen = True
                    base = base_of(_joined(self._base_url, attributes["href"]) or "")
                    self._base_url = base or self._base_url
                elif piece.name == "meta" and attributes.get("name", "").startswith(_ABOUT):
                    key = attributes["name"].removeprefix(_ABOUT)
                    self.about[key] = attributes.get("content", "")
        self._close_anchor()

    def _close_anchor(self) -> None:
        tag, self._open = self._open, None
        text, self._text = "".join(self._text).strip(), []
        if tag is None or "href" not in tag.attributes:
            return
        url = _joined(self._base_url, tag.attributes["href"])
        if url is not None:
            self.links.append(self._link(text, url, dict(tag.attributes)))


def read_links(body: bytes, base_url: str, charset: str) -> tuple[dict[str, str], list[Link]]:
    """Metadata of the page, such as ``repository-version``, and its links.

    Time and memory are linear in the length of the page.

    :param base_url: no longer than :func:`base_of` allows
    :param charset: of the page; unknown ones count as UTF-8, because some codecs of Python are not
        for text and some need quadratic time
    """
    links = _Links(base_url)
    text = body.decode(_ENCODINGS.get(charset.lower(), "utf-8"), errors="replace")
    links.read(read_tags(text, _ATTRIBUTES))
    return links.about, links.links


def base_of(url: str) -> str | None:
    """The base of relative URLs on a page; ``None`` if it is unusable or too long.

    >>> base_of("https://index.example/simple/parrot/?token=1#files")
    'https://index.example/simple/parrot/'
    """
    base = url.partition("#")[0].partition("?")[0]
    return base if 0 < len(base) <= LONGEST_BASE else None


def _joined(base_url: str, href: str) -> str | None:
    try:
        return urljoin(base_url, href)
    except ValueError:
        return None
