"""Locks: every package of a stack pinned, with the hashes of its wheels."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.markers import InvalidMarker, Marker

from common.packages import DEFAULT_INDEX

#: Of a marker, or of a line of requirements without its hashes; real ones have a few hundred.
MOST_CHARACTERS = 2_000
#: Deeper ones would be more than the parser, which calls itself for each, has room for.
_MOST_BRACKETS = 100
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
#: What is chosen by these is known when a lock is made, not when it is installed.
_CHOSEN_BEFORE = re.compile(r"\b(?:extras?|dependency_groups)\b")
_PYTHON = re.compile(r"([0-9]{1,4}\.[0-9]{1,4})(\.[0-9]{1,4})?\Z")


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One release and what its files hash to.

    :param name: normalised (PEP 503)
    :param version: normalised (PEP 440)
    :param hashes: ``algorithm:hex``, sorted
    :param marker: when it is installed (PEP 508), ``None`` for always
    :param index: the name of the index that serves it
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str | None = None
    index: str = DEFAULT_INDEX
    extras: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """Its line in a requirements file, without the hashes.

        >>> LockedPackage("numpy", "2.0.1", (), "python_version < '3.13'").requirement
        "numpy==2.0.1 ; python_version < '3.13'"
        """
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}=={self.version}{marker}"

    def served_by(self, index: str) -> LockedPackage:
        """The same release from ``index``."""
        return replace(self, index=index)


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that a stack consists of.

    :param packages: by name
    :param python_version: ``major.minor`` that the lock was made for, if it says so
    """

    packages: tuple[LockedPackage, ...] = ()
    python_version: str | None = None

    def version_of(self, *names: str) -> str | None:
        """The locked version of the first of ``names`` that is in the lock."""
        versions = {package.name: package.version for package in self.packages}
        return next((versions[name] for name in names if name in versions), None)


def pipfile_lock_of(lock: Lock) -> dict[str, Any]:
    """The lock as the content of a ``Pipfile.lock``, which is what ingest reads."""
    requires = {"python_version": lock.python_version} if lock.python_version else {}
    entries = {}
    for package in lock.packages:
        entry = {
            "version": f"=={package.version}",
            "hashes": list(package.hashes),
            "markers": package.marker,
            "index": None if package.index == DEFAULT_INDEX else package.index,
            "extras": list(package.extras) or None,
        }
        entries[package.name] = {key: value for key, value in entry.items() if value is not None}
    return {"_meta": {"requires": requires}, "default": entries, "develop": {}}


def holds(marker: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a package with ``marker`` belongs into the environment of an interpreter."""
    return marker is None or Marker(marker).evaluate(dict(environment))


def is_marker(text: Any) -> bool:
    """Whether ``text`` is a marker that can be asked of an interpreter.

    Some can be parsed and not be asked, such as ``platform_system ~= 'Linux'``. A line break
    in a quoted text would begin a line of the installer's requirements.
    """
    if not isinstance(text, str) or not text.isprintable() or not is_short(text):
        return False
    if _CHOSEN_BEFORE.search(_QUOTED.sub("", text)):
        return False
    try:
        Marker(text).evaluate()
    except (InvalidMarker, ValueError):
        return False
    return True


def is_short(text: str) -> bool:
    """Whether ``text`` can be given to the parser of markers and requirements."""
    return len(text) <= MOST_CHARACTERS and text.count("(") <= _MOST_BRACKETS


def environment_of(python_version: str | None) -> dict[str, str]:
    """What markers are asked with before the interpreter itself can be.

    Of ``3.11`` the last part is not known: it is that of the running interpreter if that is
    a 3.11, too, because that one is then used.
    """
    found = _PYTHON.match(python_version or "")
    if found is None:
        return {}
    running, short = platform.python_version(), found[1]
    if not found[2]:
        full = running if running.startswith(f"{short}.") else f"{short}.0"
        return {"python_version": short, "python_full_version": full}
    return {"python_version": short, "python_full_version": found[0]}
