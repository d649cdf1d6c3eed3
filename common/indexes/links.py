"""Links of an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urljoin

from pypi_simple import Link

from common.indexes.tags import Tag, read_tags

_OF_LINKS = (
    "href", "data-requires-python", "data-yanked", "data-core-metadata", "data-dist-info-metadata",
    "data-provenance", "data-gpg-sig",
)  # fmt: skip
_ATTRIBUTES = frozenset((*_OF_LINKS, "name", "content"))
#: Characters of an address that others are relative to: each of them becomes as long.
LONGEST_BASE = 2_000
#: Links are the same in all but these and UTF-8, as far as they are in use.
_ENCODINGS = {
    "iso-8859-1": "latin-1", "latin-1": "latin-1", "windows-1252": "cp1252",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
}  # fmt: skip


class _Links:
    """Collects links; an anchor ends the one before it, as browsers see it."""

    def __init__(self, base_url: str) -> None:
        self.api_version: str | None = None
        self.found: list[Link] = []
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
                self._end()
                self._open = None if piece.closing else piece
            elif not piece.closing:
                self._learn(piece.name, piece.attributes)
        self._end()

    def _learn(self, name: str, given: dict[str, str]) -> None:
        if name == "base" and given.get("href") and not self._base_seen:
            self._base_seen = True
            base = base_of(_joined(self._base_url, given["href"]) or "")
            self._base_url = base or self._base_url
        elif name == "meta" and given.get("name") == "pypi:repository-version":
            self.api_version = given.get("content")

    def _end(self) -> None:
        tag, self._open = self._open, None
        text, self._text = "".join(self._text).strip(), []
        if tag is None or "href" not in tag.attributes:
            return
        url = _joined(self._base_url, tag.attributes["href"])
        if url is not None:
            self.found.append(Link(text, url, dict(tag.attributes)))


def read_links(body: bytes, base_url: str, charset: str) -> tuple[str | None, list[Link]]:
    """The version of the repository API that the page names, if it does, and its links.

    Time and memory grow with the page's length only.

    :param base_url: no longer than :func:`base_of` allows
    :param charset: that the page says it is in; what is not in use counts as UTF-8, as some
        codecs are none of text and some cost the square of the length
    """
    links = _Links(base_url)
    text = body.decode(_ENCODINGS.get(charset.lower(), "utf-8"), errors="replace")
    links.read(read_tags(text, _ATTRIBUTES))
    return links.api_version, links.found


def base_of(url: str) -> str | None:
    """What addresses of files are relative to; ``None`` if it is unusable or too long.

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
