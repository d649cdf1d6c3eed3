"""Locks: every package of a stack pinned, with the hashes of its wheels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.markers import Marker

from common.packages import DEFAULT_INDEX


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
