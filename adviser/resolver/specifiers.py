"""Cached tests of which versions a specifier admits; sets of versions are bits of an integer.

Pre-releases and yanked versions are members like any other: whether they may be chosen depends on
all requirements on the package.
"""

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from model.packages.identity import version_of


@lru_cache(maxsize=65_536)
def specifier_set(text: str) -> SpecifierSet:
    """Parse a specifier that also admits pre-releases."""
    return SpecifierSet(text, prereleases=True)


@lru_cache(maxsize=65_536)
def members(specifier: str, versions: tuple[str, ...]) -> int:
    """Positions in ``versions`` that ``specifier`` admits, as bits of an integer.

    >>> bin(members(">=2", ("3.0", "2.0rc1", "2.0", "1.0")))
    '0b101'
    """
    if not specifier:
        return (1 << len(versions)) - 1
    parsed = _parsed(versions)
    bits = 0
    # A third of the time of testing each version by itself.
    for place in specifier_set(specifier).filter(range(len(parsed)), key=parsed.__getitem__):
        bits |= 1 << place
    return bits


@lru_cache(maxsize=4_096)
def _parsed(versions: tuple[str, ...]) -> tuple[Version | str, ...]:
    return tuple(map(_version, versions))


def _version(text: str) -> Version | str:
    return version_of(text) or text


def admits(specifier: str, version: str) -> bool:
    """Whether a specifier admits a version."""
    return not specifier or specifier_set(specifier).contains(_version(version))


@lru_cache(maxsize=65_536)
def names_prerelease(specifier: str) -> bool:
    """Whether a specifier admits pre-releases because it names one (PEP 440).

    >>> names_prerelease(">=2.0rc1"), names_prerelease("!=2.0rc1"), names_prerelease("<2")
    (True, False, False)
    """
    return bool(specifier) and SpecifierSet(specifier).prereleases is True


@lru_cache(maxsize=65_536)
def pins(specifier: str) -> bool:
    """Whether a specifier pins one exact version, and so admits it even if it is yanked.

    >>> pins("==1.4"), pins(">=1,==1.4"), pins("==1.*"), pins("~=1.4")
    (True, True, False, False)
    """
    return bool(specifier) and any(
        it.operator == "===" or (it.operator == "==" and not it.version.endswith(".*"))
        for it in specifier_set(specifier)
    )


def places(mask: int) -> list[int]:
    """Positions of the set bits of an integer, lowest first.

    >>> places(0b1010)
    [1, 3]
    """
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions
