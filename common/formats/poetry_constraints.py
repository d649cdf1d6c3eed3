"""Entries of dependencies and constraints of versions as Poetry writes them."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from common.formats.file_decoding import FileTable, refuse, value_text
from model.errors import Reason

#: A clause of a constraint: an operator and a version.
_CLAUSE = re.compile(r"(\^|~=|~|===|==|!=|>=|<=|>|<|=)?\s*([^\s,^~=!<>|]+)")
_SEPARATORS = re.compile(r"[\s,]*")
_ALTERNATIVES = re.compile(r"\s*\|\|?\s*")


def entries_of(table: FileTable) -> Iterator[tuple[str, FileTable]]:
    """Names with each of their entries as a table; a package may have several entries."""
    for package, value in table.items():
        several = isinstance(value, list)
        for number, each in enumerate(value if several else [value]):
            keys = (package, number) if several else (package,)
            entry = {"version": each} if isinstance(each, str) else each
            if not isinstance(entry, dict):
                raise table.wrong_type(entry, "a version or a table", *keys)
            yield package, FileTable(entry, table, *keys)


def specifier_of(constraint: str, at: str) -> tuple[str, tuple[str, ...]]:
    """The specifier of PEP 440 for a constraint of Poetry, and specifiers of versions to exclude.

    >>> specifier_of("^1.2", "pyproject.toml:a"), specifier_of("~1.2.3", "pyproject.toml:a")
    (('<2,>=1.2', ()), ('<1.3,>=1.2.3', ()))

    Alternatives become one range. If PEP 440 cannot express it, gaps between them are excluded.

    >>> specifier_of("^2.1 || ^3.0", "pyproject.toml:a")
    ('<4,>=2.1', ())
    >>> specifier_of("1 || ^3", "pyproject.toml:a")
    ('<4,>=1', ('>=1,!=1,<=3,!=3',))

    :raises InvalidFile: if it is not a constraint
    """
    alternatives = _alternatives(constraint, at)
    exact = reduce(or_, (it.to_range() for it in alternatives)).to_specifier_set()
    if len(alternatives) == 1 or exact is not None:
        return str(alternatives[0] if len(alternatives) == 1 else exact), ()
    return _with_gaps(alternatives)


def _alternatives(text: str, at: str) -> list[SpecifierSet]:
    """The alternative specifiers of a constraint; a version must meet one of them."""
    try:
        if "|" in text and "===" in text:
            raise ValueError(text)  # arbitrary texts are no versions, so they have no order
        return [_specifiers(it) for it in _ALTERNATIVES.split(text.strip() or "*")]
    except (InvalidSpecifier, InvalidVersion, ValueError):
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(text)} is not a version constraint",
            at,
            "use the form of Poetry, such as `^1.2`, or of PEP 440, such as `>=1.2,<2`",
        )


def _specifiers(text: str) -> SpecifierSet:
    """:raises ValueError: if the text is not a constraint"""
    if not text:
        raise ValueError("an alternative is empty")
    return SpecifierSet("" if text == "*" else ",".join(_clauses(text)))


class _Bound(NamedTuple):
    """One end of a range.

    :param clause: of PEP 440
    :param beyond: clauses for the versions beyond this end
    """

    version: Version
    clause: str
    beyond: str


def _with_gaps(alternatives: Sequence[SpecifierSet]) -> tuple[str, tuple[str, ...]]:
    """One range over several, and the gaps in it.

    Neither ``<3`` nor ``>=3`` admits pre-releases of 3, but one range over both does.
    """
    ends = [list(zip(*map(_bounds, it), strict=True)) for it in alternatives]
    ranges = [
        (max(filter(None, lows), default=None), min(filter(None, highs), default=None))
        for lows, highs in ends
    ]
    ranges.sort(key=lambda it: (it[0] is not None, it[0] or ()))
    (lowest, highest), *others = ranges
    gaps = []
    for low, high in others:
        if highest is None or low is None:
            break
        between = not any(it.contains(low.version, prereleases=True) for it in alternatives)
        if low.version > highest.version or (between and low.version == highest.version):
            gaps.append(f"{highest.beyond},{low.beyond}")
        highest = None if high is None else max(highest, high)
    for exception in {clause for it in alternatives for clause in it if clause.operator == "!="}:
        version = exception.version.removesuffix(".*")
        if not any(it.contains(version, prereleases=True) for it in alternatives):
            gaps.append(f"=={exception.version}")
    hull = ",".join(it.clause for it in (lowest, highest) if it is not None)
    return str(SpecifierSet(hull)), tuple(sorted(gaps))


def _bounds(specifier: Specifier) -> tuple[_Bound | None, _Bound | None]:
    """The lower and the upper bound of one clause."""
    operator, text = specifier.operator, specifier.version.removesuffix(".*")
    version = Version(text)
    lower = _Bound(version, f">={text}", f"<={text},!={text}")
    upper = _Bound(version, f"<={text}", f">={text},!={text}")
    if operator == "~=" or specifier.version != text:
        release = version.release[:-1] if operator == "~=" else version.release
        end = Version(".".join(map(str, (*release[:-1], release[-1] + 1))))
        upper = _Bound(end, f"<{end}", f">={end}.dev0")
    if operator == ">":
        lower = _Bound(version, f">{text}", f"<={text}")
    if operator == "<":
        before = text if version.is_prerelease else f"{text}.dev0"
        upper = _Bound(version, f"<{text}", f">={before}")
    return lower if operator in (">", ">=", "==", "~=") else None, (
        upper if operator in ("<", "<=", "==", "~=") else None
    )


def _clauses(text: str) -> Iterator[str]:
    """Clauses of PEP 440."""
    position = 0
    while position < len(text):
        clause = _CLAUSE.match(text, position)
        if clause is None:
            raise ValueError(text)
        operator, version = clause.groups()
        if operator in ("^", "~"):
            yield f">={version}"
            yield f"<{_next(version, caret=operator == '^')}"
        else:
            yield f"{'==' if operator in (None, '=') else operator}{version}"
        separator = _SEPARATORS.match(text, clause.end())
        position = separator.end() if separator else clause.end()


def _next(version: str, *, caret: bool) -> str:
    """The first version that a caret or a tilde excludes."""
    release = Version(version).release
    if caret:
        # The first number that is not zero may not change.
        last = next((place for place, it in enumerate(release) if it), len(release) - 1)
    else:
        last = min(1, len(release) - 1)
    return ".".join(map(str, (*release[:last], release[last] + 1)))


def marker_text(entry: FileTable) -> str:
    """The marker of an entry, with its bounds on Python and its platform; empty for always."""
    parts = [f"({whole})"] if (whole := entry.text("markers")) else []
    if python := entry.text("python"):
        parts += filter(None, [python_marker(python, entry.at / "python")])
    if platform := entry.text("platform"):
        parts.append(f"sys_platform == {platform!r}")
    return " and ".join(parts)


def python_marker(constraint: str, at: str) -> str:
    """The marker of a constraint on Python; empty for always."""
    alternatives = []
    for specifiers in python_specifiers(constraint, at):
        clauses = []
        for specifier in sorted(specifiers, key=str):
            version, variable = specifier.version, "python_version"
            if version.removesuffix(".*").count(".") != 1:
                variable = "python_full_version"
            clauses.append(f"{variable} {specifier.operator} {version!r}")
        alternatives.append(" and ".join(clauses))
    return f"({' or '.join(alternatives)})" if all(alternatives) else ""


def python_specifiers(constraint: str, at: str) -> list[SpecifierSet]:
    """Alternative specifiers of Python versions; a single one if it is equivalent."""
    whole, gaps = specifier_of(constraint, at)
    return _alternatives(constraint, at) if gaps else [SpecifierSet(whole)]


@lru_cache(maxsize=16_384)
def allows(constraint: str, version: Version, at: str) -> bool:
    """Whether a constraint admits a version; pre-releases count like others.

    :raises InvalidFile: if it is not a constraint
    """
    return any(it.contains(version, prereleases=True) for it in _alternatives(constraint, at))
