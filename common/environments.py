"""Where packages are to run: an interpreter on a platform, its markers and its wheel tags."""

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
from common.platforms import libc_platforms, platform_named, python_named


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
