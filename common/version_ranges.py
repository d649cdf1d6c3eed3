"""Which of a package's versions an advisory affects: OSV's evaluation, in the order of PEP 440."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from common.advisories import FROM_THE_FIRST, NO_LIMIT, AffectedPackage, Event, EventKind, Range


@lru_cache(maxsize=131_072)
def version_of(text: str) -> Version | None:
    """``text`` as a version by PEP 440; ``None`` if it is none.

    >>> version_of("1.0-beta2"), version_of("final-2004") is None
    (<Version('1.0b2')>, True)
    """
    try:
        return Version(text)
    except InvalidVersion:
        return None


class VersionLine:
    """The versions of one package in their order, to ask of many advisories which they affect.

    A local build such as ``2.0.1+cu118`` counts as the release that it is built from,
    as it does in a specifier, unless the advisory names a local version itself.
    Versions that are none by PEP 440 have no place in a range; they can only be listed.

    >>> line = VersionLine(["1.0", "1.5", "1.5+cu118", "2.0"])
    >>> fixed = (Event(EventKind.INTRODUCED, "0"), Event(EventKind.FIXED, "2.0"))
    >>> sorted(line.affected(AffectedPackage("x", (fixed,), ())))
    ['1.0', '1.5', '1.5+cu118']
    """

    def __init__(self, versions: Iterable[str]) -> None:
        given = self._given = frozenset(versions)
        placed = sorted((parsed, text) for text in given if (parsed := version_of(text)))
        self._texts = [text for _, text in placed]
        self._full = [parsed for parsed, _ in placed]
        self._releases = [it if it.local is None else Version(it.public) for it in self._full]
        self._listed: dict[Version | str, list[str]] = {}
        for text in given:
            for key in _keys(text):
                self._listed.setdefault(key, []).append(text)

    @property
    def ordered(self) -> list[str]:
        """The versions, oldest first; what is no version comes last, as text."""
        unplaced = sorted(text for text in self._given if version_of(text) is None)
        return [*self._texts, *unplaced]

    def affected(self, package: AffectedPackage) -> set[str]:
        """Those of the versions that are in a range, or listed.

        Costs a few binary searches and a pass over the versions for each range.
        """
        found: set[str] = set()
        for events in package.ranges:
            flags = self._flags(events)
            found.update(text for text, flag in zip(self._texts, flags, strict=True) if flag)
        for listed in package.versions:
            found.update(self._listed.get(version_of(listed) or listed, ()))
        return found

    def _flags(self, events: Range) -> bytearray:
        """One byte a version, 1 if it is affected.

        Every event holds from one version on for all above it, and where several hold,
        the last of them in their order decides: so each overwrites what came before.
        """
        flags = bytearray(len(self._texts))
        for event in sorted(events, key=_order):
            if event.kind is EventKind.LIMIT:
                continue
            first = self._first(event)
            state = b"\1" if event.kind is EventKind.INTRODUCED else b"\0"
            flags[first:] = state * (len(flags) - first)
        limits = [self._first(event) for event in events if event.kind is EventKind.LIMIT]
        if limits:
            flags[max(limits) :] = bytes(len(flags) - max(limits))
        return flags

    def _first(self, event: Event) -> int:
        """Place of the first version for which ``event`` holds."""
        if event.version == FROM_THE_FIRST and event.kind is EventKind.INTRODUCED:
            return 0
        if event.version == NO_LIMIT and event.kind is EventKind.LIMIT:
            return len(self._texts)
        parsed = version_of(event.version)
        if parsed is None:
            # Parsers let none through; what begins nowhere affects everything, to be safe.
            return 0 if event.kind is EventKind.INTRODUCED else len(self._texts)
        among = self._full if parsed.local else self._releases
        find = bisect_right if event.kind is EventKind.LAST_AFFECTED else bisect_left
        return find(among, parsed)


def _keys(text: str) -> set[Version | str]:
    """What a list may name so that the version ``text`` is meant: equals, such as 1.0 and 1.0.0."""
    parsed = version_of(text)
    return {text} if parsed is None else {parsed, Version(parsed.public)}


_LOWEST = Version("0.dev0")


def _order(event: Event) -> tuple[bool, Version]:
    """Place of an event; events of one version stay in the advisory's order."""
    introduced_first = event.kind is EventKind.INTRODUCED and event.version == FROM_THE_FIRST
    parsed = version_of(event.version)
    if introduced_first or parsed is None:
        return False, _LOWEST
    return True, parsed
