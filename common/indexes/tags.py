"""Tags of an HTML page, in a time that grows with its length alone.

A parser that looks for an end that never comes, and then goes on behind the beginning, costs
the square of a page's length: the standard library's takes minutes for 100 kB of ``<a ``.
Here what has no end takes the rest of the page with it, as in browsers (WHATWG HTML,
13.2.5), so that nothing is read twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.entities import html5

_SPACE = r"\t\n\f\r "
#: A comment, what browsers take for one (declarations, CDATA), or the name of a tag.
_OPENING = re.compile(rf"<(?:(!--)|([!?]|/(?![A-Za-z]))|(/?)([A-Za-z][^{_SPACE}/>]*+))")
_COMMENT_END = re.compile(r"--!?>")
#: Name; value in double quotes, in single ones, in some that are not closed, in none; end.
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+(?:([^{_SPACE}/>][^{_SPACE}/>=]*+)(?:[{_SPACE}]*+=[{_SPACE}]*+"
    rf"""(?:"([^"]*+)"|'([^']*+)'|(["'])|([^{_SPACE}>]*+)))?+)?+[{_SPACE}/]*+(>)?+"""
)
#: Elements whose content is no markup, and where it ends.
_RAW = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.I) for name in ("script", "style")}
_REFERENCE = re.compile(r"&(?:#[^&]*+|([A-Za-z][A-Za-z0-9]*+)(;?)(=?))")


@dataclass(frozen=True, slots=True)
class Tag:
    """A beginning, or with ``closing`` an end.

    :param name: in lower case
    :param attributes: by names in lower case, those that were asked for
    """

    name: str
    closing: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


def read_tags(page: str, attributes: Collection[str]) -> Iterator[Tag | str]:
    """The tags of a page and the text between them, in order.

    :param attributes: names of those to keep; of one that is there twice the first counts
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
    """Where the tag ends; 0 if it does not."""
    while True:
        found = _ATTRIBUTE.match(page, at)
        assert found is not None  # noqa: S101 - all of it is optional
        name, double, single, unclosed, bare, end = found.groups()
        if unclosed:
            return 0
        if name and (name := name.lower()) in wanted:
            into.setdefault(name, _plain_value(double or single or bare or ""))
        if end:
            return found.end()
        if found.end() == len(page):
            return 0
        at = found.end()


def plain(text: str) -> str:
    """Text with its character references resolved; one of too many digits stays."""
    try:
        return unescape(text)
    except ValueError:
        return text


def _plain_value(text: str) -> str:
    """The same for a value: a name without its semicolon is none before ``=`` or a letter.

    >>> _plain_value("?a=1&region=2&amp;b=&#51;&copy=4")
    '?a=1&region=2&b=3&copy=4'
    """
    return _REFERENCE.sub(_resolved, text) if "&" in text else text


def _resolved(found: re.Match[str]) -> str:
    name, semicolon, equals = found.groups()
    if name is None:
        return plain(found[0])
    known = html5.get(f"{name}{semicolon}")
    return found[0] if known is None or (equals and not semicolon) else f"{known}{equals}"
