"""The indicator ``lxml``: a feed of 3,000 items with attributes and a namespace, about 0.6 MB.

- ``parse``: parse the XML into a tree.
- ``parse_html``: parse the items as a table of an HTML page.
- ``xpath``: find the titles of items by price, with a compiled XPath expression.
- ``serialize``: write the tree as XML.
"""

from __future__ import annotations

from functools import partial
from html.parser import HTMLParser
from random import Random
from typing import Any
from xml.etree import ElementTree

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_SIZES = {"items": 3_000, "threads": 1}
_ITEM = '<s:item id="{}" lang="en"><s:title>{} &amp; co</s:title><s:price>{}</s:price></s:item>'
_ROW = '<tr id="{}"><td class=title>{} &amp; co<td>{}'


def _items(seed: int) -> list[tuple[int, str, int]]:
    draw = Random(seed)  # noqa: S311
    return [(n, f"Überschrift {draw.random()}", draw.randrange(1000)) for n in range(3_000)]


def _feed(seed: int) -> bytes:
    items = "\n".join(_ITEM.format(*it) for it in _items(seed))
    return f'<s:feed xmlns:s="https://shop.example/1">\n{items}\n</s:feed>'.encode()


def _content(root: Any) -> list[tuple[Any, ...]]:
    return [(it.tag, it.text, it.tail, dict(it.attrib)) for it in root.iter()]


def parse(etree: Any, seed: int) -> Made:
    feed = _feed(seed)
    expected = _content(ElementTree.fromstring(feed))  # noqa: S314
    return Made(lambda: etree.fromstring(feed), lambda it: same(expected, _content(it)), _SIZES)


def parse_html(etree: Any, seed: int) -> Made:
    rows = "\n".join(_ROW.format(*it) for it in _items(seed))
    page = f"<!doctype html><title>Items</title><table>{rows}</table>"
    texts: list[str] = []
    reader = HTMLParser()
    reader.handle_data = texts.append  # type: ignore
    reader.feed(page)

    def check(output: Any) -> float:
        return same("".join(texts).split(), "".join(output.itertext()).split())

    return Made(lambda: etree.HTML(page), check, _SIZES)


def xpath(etree: Any, seed: int) -> Made:
    root = etree.fromstring(_feed(seed))
    names = {"s": "https://shop.example/1"}
    find = etree.XPath("//s:item[s:price > 500]/s:title/text()", namespaces=names)
    expected = [f"{title} & co" for _, title, price in _items(seed) if price > 500]
    return Made(lambda: find(root), partial(same, expected), _SIZES)


def serialize(etree: Any, seed: int) -> Made:
    feed = _feed(seed)
    root = etree.fromstring(feed)
    return Made(lambda: etree.tostring(root, encoding="utf-8"), partial(same, feed), _SIZES)


INDICATOR = library_indicator(
    "lxml",
    "PiLxml",
    "Parse, search and write XML and HTML with lxml.",
    {"parse": parse, "parse_html": parse_html, "xpath": xpath, "serialize": serialize},
    {"lxml": "lxml.etree"},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
