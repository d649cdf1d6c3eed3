"""Names of interpreters and platforms, as people and wheels write them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from common.errors import InvalidArgument

#: What ``linux_<machine>`` means where nobody says which C library: the glibc of the
#: oldest distributions that are still maintained, and the floor of most wheels of today.
DEFAULT_GLIBC = (2, 28)
#: Names of glibc floors from before PEP 600.
LEGACY_MANYLINUX = {
    "manylinux1": (2, 5),
    "manylinux2010": (2, 12),
    "manylinux2014": (2, 17),
}
#: The oldest glibc that has ever been a floor: PEP 513's for Intel, PEP 599's for others.
_OLDEST_GLIBC = {"x86_64": (2, 5), "i686": (2, 5)}
_OLDEST_GLIBC_ELSEWHERE = (2, 17)
_LINUX_MACHINES = frozenset(
    {"x86_64", "i686", "aarch64", "armv7l", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64"}
)
_WINDOWS_MACHINES = {"win_amd64": "AMD64", "win32": "x86", "win_arm64": "ARM64"}

#: Machines whose native libraries go by one name in their headers, and load each other's.
_FAMILIES = {
    **dict.fromkeys(("armv6l", "armv7l", "armv8l"), "arm"),
    **dict.fromkeys(("i386", "i486", "i586", "i686"), "x86"),
}


def machine_family(machine: str) -> str:
    """What native libraries are compared by; 32-bit machines have several names.

    >>> machine_family("armv6l") == machine_family("armv8l"), machine_family("aarch64")
    (True, 'aarch64')
    """
    return _FAMILIES.get(machine, machine)


_PYTHON = re.compile(r"(?:(cpython|python|cp|pypy|pp)[-@]?)?(3)\.(\d{1,2})(?:\.(\d{1,3}))?(t)?")


def python_named(text: str) -> tuple[str, str, bool]:
    """Implementation, full version, and whether it is free-threaded.

    :raises InvalidArgument: if it is not understood
    """
    found = _PYTHON.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidArgument(
            f"Python {text!r} is not understood: write it as 3.11, 3.11.7, 3.13t or pypy3.10"
        )
    implementation = (
        "pypy" if (found[1] or "").startswith("p") and found[1] != "python" else "cpython"
    )
    minor, free_threaded = int(found[3]), found[5] is not None
    if free_threaded and (implementation != "cpython" or minor < 13):
        raise InvalidArgument(f"Python {text!r}: there are free-threaded CPythons from 3.13 only")
    return implementation, f"3.{minor}.{found[4] or 0}", free_threaded


#: A system: ``os_name``, ``sys_platform``, machine, C library and macOS.
Platform = tuple[str, str, str, tuple[str, tuple[int, int]] | None, tuple[int, int] | None]

_LINUX = re.compile(r"(many|musl)linux_(\d{1,2})_(\d{1,3})_(\w+)|(linux|manylinux\d+)_(\w+)")
_MACOS = re.compile(r"macosx_(\d{2})_(\d{1,2})_(arm64|x86_64)")


def platform_named(text: str) -> Platform:
    """What a platform tag says of a system.

    :raises InvalidArgument: if it is not understood
    """
    if text in _WINDOWS_MACHINES:
        return "nt", "win32", _WINDOWS_MACHINES[text], None, None
    if found := _MACOS.fullmatch(text):
        return "posix", "darwin", found[3], None, (int(found[1]), int(found[2]))
    if (found := _LINUX.fullmatch(text)) and (found[4] or found[6]) in _LINUX_MACHINES:
        libc = _libc_of(found)
        if libc is not None:
            return "posix", "linux", found[4] or found[6], libc, None
    raise InvalidArgument(
        f"platform {text!r} is not understood: write it as linux_x86_64, manylinux_2_28_x86_64, "
        "musllinux_1_2_x86_64, macosx_14_0_arm64 or win_amd64"
    )


def _libc_of(found: re.Match[str]) -> tuple[str, tuple[int, int]] | None:
    if found[1]:
        return ("glibc" if found[1] == "many" else "musl"), (int(found[2]), int(found[3]))
    floor = DEFAULT_GLIBC if found[5] == "linux" else LEGACY_MANYLINUX.get(found[5])
    return None if floor is None else ("glibc", floor)


def libc_platforms(libc: tuple[str, tuple[int, int]] | None, machine: str) -> Iterator[str]:
    """A wheel for an older C library of the same kind runs with a newer one (PEP 600, 656)."""
    if libc is None:
        return
    kind, (major, minor) = libc
    if kind == "musl":
        yield from (f"musllinux_{major}_{older}_{machine}" for older in range(minor, -1, -1))
        return
    oldest = _OLDEST_GLIBC.get(machine, _OLDEST_GLIBC_ELSEWHERE)
    for older in range(minor, oldest[1] - 1, -1):
        yield f"manylinux_{major}_{older}_{machine}"
        for name, floor in LEGACY_MANYLINUX.items():
            if floor == (major, older):
                yield f"{name}_{machine}"
