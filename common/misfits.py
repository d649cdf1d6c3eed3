"""How a wheel's tag misses an environment, in words for a person."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from packaging.tags import Tag

from common.environments import Environment
from common.platforms import LEGACY_MANYLINUX


class Fit(StrEnum):
    """Why a release can be installed or not; the nearest miss of all its wheels."""

    COMPATIBLE = "compatible"
    #: The C library, or macOS, is older than the wheel asks for.
    LIBC_TOO_OLD = "libc_too_old"
    #: For another operating system, machine or C library.
    PLATFORM_TAG = "platform_tag"
    #: For this version of Python in another build of it.
    ABI_TAG = "abi_tag"
    #: For another version or implementation of Python.
    PYTHON_TAG = "python_tag"
    #: It would have to be built, and nothing here is ever built.
    SDIST_ONLY = "sdist_only"
    NO_FILES = "no_files"
    #: Not all its files are known, and none of the known ones can be installed.
    ARTIFACTS_UNKNOWN = "artifacts_unknown"


#: Nearest first: a release is explained by the wheel that misses by least.
NEARNESS = (Fit.LIBC_TOO_OLD, Fit.PLATFORM_TAG, Fit.ABI_TAG, Fit.PYTHON_TAG)

Miss = tuple[int, tuple[int, int], str]  # nearness, the floor, message


_FLOOR = re.compile(r"manylinux_(\d+)_(\d+)_\w+|(manylinux\d+)_\w+")


def floor_of(platform: str) -> tuple[int, int] | None:
    """The glibc that a platform tag names."""
    found = _FLOOR.fullmatch(platform)
    if found is None:
        return None
    if found[3]:
        return LEGACY_MANYLINUX.get(found[3])
    return int(found[1]), int(found[2])


def miss_of(tag: Tag, environment: Environment) -> Miss:
    """How a tag misses an environment; the interpreter's part is looked at first."""
    pythons, abis = _interpreters(environment)
    own = tag.interpreter == pythons[0]
    # cp310-cp310 on CPython 3.11: its name is there for cp310-abi3 only.
    if tag.interpreter not in pythons or (not own and tag.abi.startswith(tag.interpreter)):
        return _explained(Fit.PYTHON_TAG, f"built for {tag.interpreter}", pythons[0])
    if (tag.interpreter, tag.abi) not in abis:
        return _explained(Fit.ABI_TAG, f"built for the ABI {tag.abi}", _abi_of(environment))
    return _platform_miss(tag.platform, environment)


def _explained(fit: Fit, needs: str, has: str) -> Miss:
    return NEARNESS.index(fit), (0, 0), f"{needs}, this environment has {has}"


@lru_cache(maxsize=32)
def _interpreters(environment: Environment) -> tuple[tuple[str, ...], frozenset[tuple[str, str]]]:
    """Interpreters, best first, and their pairs with ABIs that fit on some platform."""
    pythons = tuple(dict.fromkeys(tag.interpreter for tag in environment.tags))
    return pythons, frozenset((tag.interpreter, tag.abi) for tag in environment.tags)


def _abi_of(environment: Environment) -> str:
    return environment.tags[0].abi


_MACHINE = re.compile(r"(?:manylinux_\d+_\d+|manylinux\d+|musllinux_\d+_\d+|linux)_(\w+)")
_MUSL = re.compile(r"musllinux_(\d+)_(\d+)_\w+")
_MACOS = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_MACOS_MACHINES = {"universal2": ("arm64", "x86_64"), "universal": ("x86_64",)}


def _platform_miss(platform: str, environment: Environment) -> Miss:
    if environment.macos and (found := _MACOS.fullmatch(platform)):
        floor = int(found[1]), int(found[2])
        if environment.platform_machine in _MACOS_MACHINES.get(found[3], (found[3],)):
            return _too_old("macOS", floor, environment.macos)
    machine = _MACHINE.fullmatch(platform)
    if environment.libc and machine and machine[1] == environment.platform_machine:
        return _libc_miss(platform, environment.libc)
    return _explained(Fit.PLATFORM_TAG, f"built for {platform}", environment.platform)


def _libc_miss(platform: str, libc: tuple[str, tuple[int, int]]) -> Miss:
    """The same machine; another C library, or a newer one."""
    has = f"{libc[0]} {_text(libc[1])}"
    glibc, musl = floor_of(platform), _MUSL.fullmatch(platform)
    if glibc is not None and libc[0] == "glibc":
        return _too_old("glibc", glibc, libc[1])
    if musl is not None and libc[0] == "musl":
        return _too_old("musl", (int(musl[1]), int(musl[2])), libc[1])
    return _explained(Fit.PLATFORM_TAG, f"built for {'musl' if musl else 'glibc'}", has)


def _too_old(what: str, floor: tuple[int, int], has: tuple[int, int]) -> Miss:
    message = f"needs {what} {_text(floor)}, this environment has {_text(has)}"
    return NEARNESS.index(Fit.LIBC_TOO_OLD), floor, message


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
