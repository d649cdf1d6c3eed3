"""Read version specifiers that violate PEP 440 and that older installers accepted, as uv does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

_QUOTES = re.compile(r"['\"]")
#: What is mended, in this order; the list has the kinds that uv reads.
_MENDED = (
    (_QUOTES, ""),  # >=3.6'
    (re.compile(r"(?<=[\d*])(?=[<>=~!])"), ","),  # >=7.2<8
    (re.compile(r"!=~\s*(\d+(?:\.\d+)*)"), r"!=\1.*"),  # !=~5.0
    (re.compile(r"((?:<=|>=|<|>)\s*\d+(?:\.\d+)*)\.\*"), r"\1"),  # >=1.9.*
    (re.compile(r"(?<=\d)\*"), ".*"),  # !=3.0*
    (re.compile(r",\s*(?=\)?\s*$)"), ""),  # >=3.6,
    (re.compile(r">\s*dev\b"), ">0.0.0dev"),
    (re.compile(r"(\d(?:a|b|rc|post|dev)\d+)\.0\b"), r"\1"),  # >=9.0a1.0
)
_NAME = re.compile(r"\s*[\w.-]+\s*(?:\[[^\]]*\]\s*)?")


def readings(specifier: str) -> Iterator[str]:
    """The texts that a specifier may stand for: itself, then with one fault after the other mended.

    >>> list(readings(">=1.9.*"))
    ['>=1.9.*', '>=1.9']
    """
    yield specifier
    for pattern, replacement in _MENDED:
        mended = pattern.sub(replacement, specifier)
        if mended != specifier:
            yield (specifier := mended)


def readings_of_requirement(raw: str) -> Iterator[str]:
    """The same of a requirement by PEP 508; markers and URLs stay as they are.

    >>> list(readings_of_requirement("numpy2 (>=1.9.*); os_name == 'nt'"))[-1]
    "numpy2 (>=1.9); os_name == 'nt'"
    """
    yield raw
    head, semicolon, marker = raw.partition(";")
    head = _QUOTES.sub("", head)
    if (name := _NAME.match(head)) is not None and "@" not in head:
        for specifier in readings(head[name.end() :]):
            yield f"{name[0]}{specifier}{semicolon}{marker}"


def is_specifier(text: str) -> bool:
    """Whether a text is a specifier by PEP 440."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


@lru_cache(maxsize=4_096)
def specifier_set(text: str) -> SpecifierSet:
    """A specifier, read leniently.

    :raises InvalidSpecifier: if nothing can be made of it

    >>> specifier_set("!=3.0*,>=2.7,")
    <SpecifierSet('!=3.0.*,>=2.7')>
    """
    for reading in readings(text):
        try:
            return SpecifierSet(reading)
        except InvalidSpecifier:
            continue
    raise InvalidSpecifier(f"Invalid specifier: {text!r}")
