"""Target environments: interpreter and platform, with their markers and wheel tags."""

from __future__ import annotations

import os
import platform as this_platform
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from packaging.markers import default_environment
from packaging.tags import (
    Tag,
    compatible_tags,
    cpython_tags,
    generic_tags,
    mac_platforms,
    platform_tags,
)

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


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter on a platform; all that markers and wheel tags depend on.

    :param python_version: such as ``3.11``
    :param python_full_version: such as ``3.11.7``
    :param implementation: ``cpython`` or ``pypy``
    :param platform_machine: as Python says it: ``x86_64``, ``arm64``, ``AMD64``
    :param libc: ``glibc`` or ``musl`` and its version; ``None`` off Linux
    :param cuda: the newest CUDA that the driver runs, such as ``12.4``; ``None`` without one
    :param macos: the system's version; ``None`` elsewhere
    :param free_threaded: whether the interpreter has no global lock (PEP 703)
    :param platform_release: of the kernel; empty where an environment is only named
    :param platform_version: the same
    """

    python_version: str
    python_full_version: str
    implementation: str
    os_name: str
    sys_platform: str
    platform_machine: str
    libc: tuple[str, tuple[int, int]] | None = None
    cuda: str | None = None
    macos: tuple[int, int] | None = None
    free_threaded: bool = False
    platform_release: str = ""
    platform_version: str = ""

    @property
    def markers(self) -> Mapping[str, str]:
        """The variables of PEP 508 but ``extra``."""
        return _markers(self)

    @property
    def tags(self) -> tuple[Tag, ...]:
        """The wheel tags that can be installed here, best first (as PEP 425 orders them)."""
        return tuple(_ranks(self))

    @property
    def ranks(self) -> Mapping[Tag, int]:
        """Place of each tag within ``tags``, from 0, the best."""
        return _ranks(self)

    @property
    def platform(self) -> str:
        """The platform's most particular tag, such as ``manylinux_2_28_x86_64``."""
        return _platforms(self)[1 if self.libc else 0]

    @property
    def line(self) -> tuple[str, str, bool]:
        """What interpreters of one line have in common: all but the patch level."""
        return self.implementation, self.python_version, self.free_threaded

    @property
    def label(self) -> str:
        """For a person: ``CPython 3.11 on manylinux_2_28_x86_64``."""
        name = "CPython" if self.implementation == "cpython" else "PyPy"
        thread = " (free-threaded)" if self.free_threaded else ""
        cuda = f", CUDA {self.cuda}" if self.cuda else ""
        return f"{name} {self.python_version}{thread} on {self.platform}{cuda}"


def environment(
    python: str | None = None, platform: str | None = None, cuda: str | None = None
) -> Environment:
    """The environment that is meant by the names of an interpreter and a platform.

    What is left out is that of this host. A version without its third number means
    the first of its line, as installers understand it.

    :param python: ``3.11``, ``3.11.7``, ``3.13t`` (free-threaded) or ``pypy3.10``
    :param platform: as wheels say it: ``linux_x86_64``, ``manylinux_2_28_x86_64``,
        ``musllinux_1_2_x86_64``, ``macosx_14_0_arm64``, ``win_amd64``
    :raises InvalidArgument: naming what is not understood

    >>> environment("3.11", "linux_x86_64").label
    'CPython 3.11 on manylinux_2_28_x86_64'
    >>> str(environment("3.13t", "musllinux_1_2_aarch64").tags[1])
    'cp313-cp313t-musllinux_1_2_aarch64'
    """
    host = host_environment()
    if cuda is not None and not re.fullmatch(r"\d{1,3}\.\d{1,3}", cuda):
        raise InvalidArgument(f"CUDA {cuda!r} is not a version such as 12.4")
    version = full = host.python_full_version
    implementation, free_threaded = host.implementation, host.free_threaded
    if python is not None:
        implementation, full, free_threaded = python_named(python)
    version = ".".join(full.split(".")[:2])
    if platform is None:
        os_name, sys_platform, machine = host.os_name, host.sys_platform, host.platform_machine
        libc, macos, driver = host.libc, host.macos, host.cuda
        kernel = (host.platform_release, host.platform_version)
    else:
        os_name, sys_platform, machine, libc, macos = platform_named(platform)
        driver, kernel = None, ("", "")
    return Environment(
        version, full, implementation, os_name, sys_platform, machine, libc, cuda or driver,
        macos, free_threaded, *kernel,
    )  # fmt: skip


@lru_cache(maxsize=1)
def host_environment() -> Environment:
    """This interpreter on this machine; asked once in the life of a process."""
    found = default_environment()
    platforms = list(platform_tags())
    return Environment(
        python_version=found["python_version"],
        python_full_version=found["python_full_version"],
        implementation=found["implementation_name"],
        os_name=os.name,
        sys_platform=sys.platform,
        platform_machine=found["platform_machine"],
        libc=_host_libc(platforms),
        cuda=_host_cuda(),
        macos=_host_macos(),
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        platform_release=found["platform_release"],
        platform_version=found["platform_version"],
    )


def _host_libc(platforms: list[str]) -> tuple[str, tuple[int, int]] | None:
    """That of the running interpreter, by the platforms it takes wheels of."""
    if not sys.platform.startswith("linux"):
        return None
    for name in platforms:
        if found := re.match(r"(many|musl)linux_(\d+)_(\d+)_", name):
            return "glibc" if found[1] == "many" else "musl", (int(found[2]), int(found[3]))
    # Neither: a glibc that is older than PEP 600 and a machine that had no floor then.
    return None


def _host_macos() -> tuple[int, int] | None:
    if sys.platform != "darwin":
        return None
    major, minor = (*this_platform.mac_ver()[0].split("."), "0")[:2]
    return int(major), int(minor)


def _host_cuda() -> str | None:
    """The newest CUDA that the driver runs."""
    try:
        import pynvml

        pynvml.nvmlInit()
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except Exception:  # the library raises a kind of its own for every cause
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


@lru_cache(maxsize=64)
def _markers(env: Environment) -> Mapping[str, str]:
    system = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
    return MappingProxyType(
        {
            "implementation_name": env.implementation,
            # PyPy's own version, which no platform names; no marker in use asks for it.
            "implementation_version": env.python_full_version,
            "os_name": env.os_name,
            "platform_machine": env.platform_machine,
            "platform_python_implementation": (
                "CPython" if env.implementation == "cpython" else "PyPy"
            ),
            "platform_release": env.platform_release,
            "platform_system": system.get(env.sys_platform, ""),
            "platform_version": env.platform_version,
            "python_full_version": env.python_full_version,
            "python_version": env.python_version,
            "sys_platform": env.sys_platform,
        }
    )


@lru_cache(maxsize=64)
def _ranks(env: Environment) -> Mapping[Tag, int]:
    ranks: dict[Tag, int] = {}
    for tag in _tags(env):
        ranks.setdefault(tag, len(ranks))
    return MappingProxyType(ranks)


def _tags(env: Environment) -> Iterator[Tag]:
    version = tuple(map(int, env.python_version.split(".")))
    digits = f"{version[0]}{version[1]}"
    platforms = _platforms(env)
    if env.implementation == "cpython":
        abi = (
            f"cp{digits}t" if env.free_threaded else f"cp{digits}{'m' if version < (3, 8) else ''}"
        )
        yield from cpython_tags(version, [abi], platforms)
        yield from compatible_tags(version, f"cp{digits}", platforms)
    else:
        # Every PyPy of today has this ABI since its release 7.3.
        yield from generic_tags(f"pp{digits}", [f"pypy{digits}_pp73"], platforms)
        yield from compatible_tags(version, f"pp{version[0]}", platforms)


@lru_cache(maxsize=64)
def _platforms(env: Environment) -> tuple[str, ...]:
    """Platform tags that can be installed, in the order of installers."""
    if env.macos is not None:
        return tuple(mac_platforms(env.macos, env.platform_machine))
    machine = env.platform_machine.lower()
    if env.sys_platform == "win32":
        return ("win32" if machine == "x86" else f"win_{machine}",)
    # What was built on this very machine comes before what was built for all of its kind.
    return (f"linux_{machine}", *libc_platforms(env.libc, machine))


#: Of Enterprise Linux, whatever it is called.
_ENTERPRISE = {"7": (2, 17), "8": (2, 28), "9": (2, 34), "10": (2, 39)}
#: The glibc that each release came with, from its own list of packages.
_GLIBC: dict[str, dict[str, tuple[int, int]]] = {
    "almalinux": _ENTERPRISE,
    "centos": _ENTERPRISE,
    "ol": _ENTERPRISE,
    "rhel": _ENTERPRISE,
    "rocky": _ENTERPRISE,
    "ubi": _ENTERPRISE,
    "amzn": {"2": (2, 26), "2023": (2, 34)},
    "debian": {"10": (2, 28), "11": (2, 31), "12": (2, 36), "13": (2, 41)},
    "fedora": {
        "36": (2, 35), "37": (2, 36), "38": (2, 37), "39": (2, 38), "40": (2, 39), "41": (2, 40),
        "42": (2, 41),
    },
    "ubuntu": {"18.04": (2, 27), "20.04": (2, 31), "22.04": (2, 35), "24.04": (2, 39)},
}  # fmt: skip
#: Distributions with musl; 1.2 since Alpine 3.13.
_MUSL = frozenset({"alpine"})


def platform_of(name: str, version: str | None, machine: str = "x86_64") -> str | None:
    """The platform tag of a distribution's release; ``None`` for one that is not known.

    :param name: as ``ID`` of ``/etc/os-release`` has it
    :param version: as ``VERSION_ID`` has it; a minor number may follow

    >>> platform_of("rhel", "9.4"), platform_of("alpine", "3.19", "aarch64")
    ('manylinux_2_34_x86_64', 'musllinux_1_2_aarch64')
    >>> platform_of("plan9", "4") is None
    True
    """
    key = name.strip().lower()
    if key in _MUSL:
        return f"musllinux_1_2_{machine}"
    releases, given = _GLIBC.get(key, {}), (version or "").strip()
    glibc = releases.get(given) or releases.get(given.partition(".")[0])
    return None if glibc is None else f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
