"""Target environments: interpreter and platform, with their markers and wheel tags."""

import os
import platform as this_platform
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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

from model.errors import InvalidArgument

#: glibc of ``linux_<machine>``, which names no C library: that of the oldest distributions that
#: are still maintained, and the minimum of most current wheels.
DEFAULT_GLIBC = (2, 28)
#: Names of minimum glibc versions from before PEP 600.
LEGACY_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
#: The oldest minimum glibc of any tag: that of PEP 513 for Intel, of PEP 599 for others.
_OLDEST_GLIBC = {"x86_64": (2, 5), "i686": (2, 5)}
_OLDEST_GLIBC_ELSEWHERE = (2, 17)
_LINUX_MACHINES = frozenset(
    {"x86_64", "i686", "aarch64", "armv7l", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64"}
)
_WINDOWS_MACHINES = {"win_amd64": "AMD64", "win32": "x86", "win_arm64": "ARM64"}

#: Machines with the same name in ELF headers; they load each other's libraries.
_FAMILIES = {
    **dict.fromkeys(("armv6l", "armv7l", "armv8l"), "arm"),
    **dict.fromkeys(("i386", "i486", "i586", "i686"), "x86"),
}


def machine_family(machine: str) -> str:
    """Name of an architecture; machines with compatible native libraries have the same name.

    >>> machine_family("armv6l") == machine_family("armv8l"), machine_family("aarch64")
    (True, 'aarch64')
    """
    return _FAMILIES.get(machine, machine)


_PYTHON = re.compile(r"(?:(cpython|python|cp|pypy|pp)[-@]?)?(3)\.(\d{1,2})(?:\.(\d{1,3}))?(t)?")


def python_named(text: str) -> tuple[str, str, bool]:
    """Implementation, full version, and whether it is free-threaded.

    :raises InvalidArgument: if the name is unknown, or nobody has this Python yet
    """
    name = _PYTHON.fullmatch(text.strip().lower())
    if name is None:
        raise InvalidArgument(
            f"Python {text!r} is not understood: write it as 3.11, 3.11.7, 3.13t or pypy3.10"
        )
    implementation = (
        "pypy" if (name[1] or "").startswith("p") and name[1] != "python" else "cpython"
    )
    minor, free_threaded = int(name[3]), name[5] is not None
    if free_threaded and (implementation != "cpython" or minor < 13):
        raise InvalidArgument(
            f"Python {text!r}: only CPython from 3.13 on has free-threaded builds"
        )
    released = first_release_of(minor)
    if released.year > datetime.now(UTC).year + 1:
        raise InvalidArgument(
            f"Python {text!r} does not exist yet: with one minor version a year (PEP 602),"
            f" 3.{minor} is released in {released.year}"
        )
    return implementation, f"3.{minor}.{name[4] or 0}", free_threaded


def first_release_of(minor: int) -> datetime:
    """The month in which a minor version of Python 3 is first released (PEP 602).

    >>> first_release_of(13).date().isoformat()
    '2024-10-01'
    """
    return datetime(2011 + min(minor, 100), 10, 1, tzinfo=UTC)


#: ``os_name``, ``sys_platform``, machine, C library, and version of macOS.
Platform = tuple[str, str, str, tuple[str, tuple[int, int]] | None, tuple[int, int] | None]

_LINUX = re.compile(r"(many|musl)linux_(\d{1,2})_(\d{1,3})_(\w+)|(linux|manylinux\d+)_(\w+)")
_MACOS = re.compile(r"macosx_(\d{2})_(\d{1,2})_(arm64|x86_64)")


def platform_named(text: str) -> Platform:
    """The system that a platform tag describes.

    :raises InvalidArgument: if the tag is unknown
    """
    if text in _WINDOWS_MACHINES:
        return "nt", "win32", _WINDOWS_MACHINES[text], None, None
    if tag := _MACOS.fullmatch(text):
        return "posix", "darwin", tag[3], None, (int(tag[1]), int(tag[2]))
    if (tag := _LINUX.fullmatch(text)) and (tag[4] or tag[6]) in _LINUX_MACHINES:
        libc = _libc_of(tag)
        if libc is not None:
            return "posix", "linux", tag[4] or tag[6], libc, None
    raise InvalidArgument(
        f"platform {text!r} is not understood: write it as linux_x86_64, manylinux_2_28_x86_64, "
        "musllinux_1_2_x86_64, macosx_14_0_arm64 or win_amd64"
    )


def _libc_of(tag: re.Match[str]) -> tuple[str, tuple[int, int]] | None:
    if tag[1]:
        return ("glibc" if tag[1] == "many" else "musl"), (int(tag[2]), int(tag[3]))
    floor = DEFAULT_GLIBC if tag[5] == "linux" else LEGACY_MANYLINUX.get(tag[5])
    return None if floor is None else ("glibc", floor)


def libc_platforms(libc: tuple[str, tuple[int, int]] | None, machine: str) -> Iterator[str]:
    """Compatible platform tags of Linux: wheels also run with newer C libraries (PEP 600, 656)."""
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
    """An interpreter on a platform: everything that markers and wheel tags depend on.

    :param python_version: such as ``3.11``
    :param python_full_version: such as ``3.11.7``
    :param implementation: ``cpython`` or ``pypy``
    :param platform_machine: as Python reports it: ``x86_64``, ``arm64``, ``AMD64``
    :param libc: ``glibc`` or ``musl`` and its version; ``None`` if not on Linux
    :param cuda: newest CUDA that the driver supports, such as ``12.4``; ``None`` without a driver
    :param macos: version of macOS; ``None`` on other systems
    :param free_threaded: whether the interpreter has no global lock (PEP 703)
    :param platform_release: of the kernel; empty if the environment was given by name
    :param platform_version: of the kernel; empty if the environment was given by name
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
        """The marker variables of PEP 508, without ``extra``."""
        return _markers(self)

    @property
    def tags(self) -> tuple[Tag, ...]:
        """Compatible wheel tags, best first, in the order of PEP 425."""
        return tuple(_ranks(self))

    @property
    def ranks(self) -> Mapping[Tag, int]:
        """Position of each tag in ``tags``; 0 is the best."""
        return _ranks(self)

    @property
    def platform(self) -> str:
        """The most specific platform tag, such as ``manylinux_2_28_x86_64``."""
        return _platforms(self)[1 if self.libc else 0]

    @property
    def name(self) -> str:
        """The interpreter as :func:`environment` takes it: ``3.11.7``, ``3.13.0t``."""
        prefix = "pypy" if self.implementation == "pypy" else ""
        return f"{prefix}{self.python_full_version}{'t' if self.free_threaded else ''}"

    @property
    def line(self) -> tuple[str, str, bool]:
        """Implementation, ``major.minor`` version and build, without the patch level."""
        return self.implementation, self.python_version, self.free_threaded

    @property
    def option(self) -> str:
        """`` --python 3.12``, for commands that measure with it; empty for this host's line."""
        if self.line == host_environment().line:
            return ""
        prefix = "pypy" if self.implementation == "pypy" else ""
        return f" --python {prefix}{self.python_version}{'t' if self.free_threaded else ''}"

    @property
    def label(self) -> str:
        """For display: ``CPython 3.11 on manylinux_2_28_x86_64``."""
        name = "CPython" if self.implementation == "cpython" else "PyPy"
        thread = " (free-threaded)" if self.free_threaded else ""
        cuda = f", CUDA {self.cuda}" if self.cuda else ""
        return f"{name} {self.python_version}{thread} on {self.platform}{cuda}"


def environment(
    python: str | None = None, platform: str | None = None, cuda: str | None = None
) -> Environment:
    """The environment for the names of an interpreter and a platform.

    Missing parts are taken from this host. A Python version without a patch level has patch level
    0, as in installers.

    :param python: ``3.11``, ``3.11.7``, ``3.13t`` (free-threaded) or ``pypy3.10``
    :param platform: a platform tag: ``linux_x86_64``, ``manylinux_2_28_x86_64``,
        ``musllinux_1_2_x86_64``, ``macosx_14_0_arm64``, ``win_amd64``
    :raises InvalidArgument: if a name is unknown

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
    """This interpreter on this machine; computed once for each process."""
    markers = default_environment()
    platforms = list(platform_tags())
    return Environment(
        python_version=markers["python_version"],
        python_full_version=markers["python_full_version"],
        implementation=markers["implementation_name"],
        os_name=os.name,
        sys_platform=sys.platform,
        platform_machine=markers["platform_machine"],
        libc=_host_libc(platforms),
        cuda=_host_cuda(),
        macos=_host_macos(),
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        platform_release=markers["platform_release"],
        platform_version=markers["platform_version"],
    )


def _host_libc(platforms: list[str]) -> tuple[str, tuple[int, int]] | None:
    """C library of the running interpreter, from its platform tags."""
    if not sys.platform.startswith("linux"):
        return None
    for name in platforms:
        if tag := re.match(r"(many|musl)linux_(\d+)_(\d+)_", name):
            return "glibc" if tag[1] == "many" else "musl", (int(tag[2]), int(tag[3]))
    # Neither: glibc is older than PEP 600, on a machine that has no older tags.
    return None


def _host_macos() -> tuple[int, int] | None:
    if sys.platform != "darwin":
        return None
    major, minor = (*this_platform.mac_ver()[0].split("."), "0")[:2]
    return int(major), int(minor)


def _host_cuda() -> str | None:
    """Newest CUDA that the driver supports."""
    try:
        import pynvml

        pynvml.nvmlInit()
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except Exception:  # the library has an exception class for every cause
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


@lru_cache(maxsize=64)
def _markers(env: Environment) -> Mapping[str, str]:
    system = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
    return MappingProxyType(
        {
            "implementation_name": env.implementation,
            # PyPy's own version is unknown here; no marker in use depends on it.
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
        # PyPy has this ABI since its release 7.3.
        yield from generic_tags(f"pp{digits}", [f"pypy{digits}_pp73"], platforms)
        yield from compatible_tags(version, f"pp{version[0]}", platforms)


@lru_cache(maxsize=64)
def _platforms(env: Environment) -> tuple[str, ...]:
    """Compatible platform tags, in the order that installers use."""
    if env.macos is not None:
        return tuple(mac_platforms(env.macos, env.platform_machine))
    machine = env.platform_machine.lower()
    if env.sys_platform == "win32":
        return ("win32" if machine == "x86" else f"win_{machine}",)
    # Wheels built on this machine come before wheels for all machines of its kind.
    return (f"linux_{machine}", *libc_platforms(env.libc, machine))


#: glibc of Enterprise Linux and its rebuilds.
_ENTERPRISE = {"7": (2, 17), "8": (2, 28), "9": (2, 34), "10": (2, 39)}
#: glibc of each release, from its list of packages.
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
    """The platform tag for a release of a Linux distribution; ``None`` if it is unknown.

    :param name: ``ID`` of ``/etc/os-release``
    :param version: ``VERSION_ID`` of ``/etc/os-release``; its minor number is ignored

    >>> platform_of("rhel", "9.4"), platform_of("alpine", "3.19", "aarch64")
    ('manylinux_2_34_x86_64', 'musllinux_1_2_aarch64')
    >>> platform_of("plan9", "4") is None
    True
    """
    key = name.strip().lower()
    if key in _MUSL:
        return f"musllinux_1_2_{machine}"
    releases, release = _GLIBC.get(key, {}), (version or "").strip()
    glibc = releases.get(release) or releases.get(release.partition(".")[0])
    return None if glibc is None else f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
