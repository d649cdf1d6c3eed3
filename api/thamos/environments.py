"""The runtime environment that a client describes, as the adviser understands it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.environments import Environment, environment, platform_of
from common.errors import InvalidArgument

#: As clients write platforms, beside the tags of wheels.
MACHINES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64")


def environment_of(described: Mapping[str, Any] | None) -> Environment:
    """The interpreter and the platform that a client describes.

    A distribution that is known tells its C library; without one the platform is what
    ``linux_<machine>`` means. What is left out is not taken from the machine that serves.

    :raises InvalidArgument: naming the field that is not understood
    """
    given = described or {}
    python = _text(given, "python_version")
    machine, platform = _machine(_platform(given)), None
    system = given.get("operating_system") or {}
    if not isinstance(system, Mapping):
        raise InvalidArgument("runtime_environment.operating_system: not an object")
    if (name := _text(system, "name")) is not None:
        platform = platform_of(name, _text(system, "version"), machine)
    wanted = _platform(given)
    if platform is None and wanted is not None and "-" not in wanted:
        platform = wanted
    try:
        return environment(python, platform or f"linux_{machine}", _cuda(given))
    except InvalidArgument as error:
        raise InvalidArgument(f"runtime_environment: {error}") from error


def _machine(platform: str | None) -> str:
    """``aarch64`` of ``linux-aarch64`` or ``manylinux_2_28_aarch64``."""
    return next((it for it in MACHINES if platform and platform.endswith(it)), "x86_64")


def _platform(given: Mapping[str, Any]) -> str | None:
    """The platform; a client of old writes it as a list of texts, or of letters."""
    found = given.get("platform")
    if isinstance(found, list):
        found = found[0] if found and len(str(found[0])) > 1 else "".join(map(str, found))
    if found is not None and not isinstance(found, str):
        raise InvalidArgument("runtime_environment.platform: not a text")
    return found or None


def _cuda(given: Mapping[str, Any]) -> str | None:
    """``12.4`` of ``12.4.1``."""
    text = _text(given, "cuda_version")
    return None if text is None else ".".join(text.split(".")[:2])


def _text(given: Mapping[str, Any], name: str) -> str | None:
    found = given.get(name)
    if found is None or found == "":
        return None
    if not isinstance(found, (str, int, float)) or isinstance(found, bool):
        raise InvalidArgument(f"runtime_environment.{name}: not a text")
    return str(found)
