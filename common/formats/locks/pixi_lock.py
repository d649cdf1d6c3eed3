"""``pixi.lock`` of pixi: its packages from Python indexes, without conda packages.

Such a lock has the packages of each environment and platform. ``--group NAME`` names the
environment, because pixi makes environments of dependency groups.
"""

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from common.formats.file_decoding import refuse, value_text
from common.formats.locks.entries import (
    MAKE_AGAIN,
    LockContent,
    LockedFile,
    LockEntry,
    LockRequest,
    LockTable,
    marker_fault,
    marker_holds,
    pins_of,
    readable,
    require_known,
)
from common.formats.requirements_files import SourceKind, is_remote
from model.errors import Reason
from model.redaction import without_secrets

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"name": "name", "version": "version"}
_VERSIONS = ("4", "5", "6")
_SYSTEMS = {"linux": "linux", "osx": "darwin", "win": "win32"}
#: ``platform_machine`` by the end of the name of a platform; others are the same.
_MACHINES = {("osx", "64"): "x86_64", ("win", "64"): "AMD64", ("linux", "64"): "x86_64",
             ("win", "arm64"): "ARM64"}  # fmt: skip


def read_pixi_lock(lock: LockTable, request: LockRequest) -> LockContent:
    """Read one environment of a lock, ``default`` unless the selection names another.

    :raises InvalidFile: if the version of the format or the environment is unknown, or anything
        except a package has the wrong type
    """
    if (version := lock.text("version")) not in _VERSIONS:
        message = f"version {value_text(version)} of pixi.lock is not known, only 4 to 6"
        refuse(Reason.UNKNOWN_SCHEMA, message, lock.at / "version", MAKE_AGAIN)
    environments = lock.nested("environments")
    names = request.selection.groups | request.selection.extras
    require_known("environment", names, environments, environments.at)
    installed: dict[str, set[str]] = {}
    conda: set[str] = set()
    platforms: dict[str, None] = {}
    indexes: list[str] = []
    for name in sorted(names) or ["default"]:
        chosen = environments.nested(name)
        indexes += chosen.texts("indexes")
        for platform in chosen.nested("packages"):
            marker = _marker(platform)
            if marker_fault(marker) is not None:
                message = f"{value_text(platform)} is not a platform"
                refuse(Reason.OUT_OF_RANGE, message, chosen.at / "packages", MAKE_AGAIN)
            platforms[marker] = None
            if request.markers is not None and not marker_holds(marker, request.markers):
                continue
            for package in chosen.nested("packages").each(platform):
                if (url := package.text("pypi")) is not None:
                    installed.setdefault(url, set()).add(marker)
                # A project that is built as a conda package lists itself.
                elif (other := package.text("conda")) is not None and other != ".":
                    conda.add(other.rpartition("/")[2].rsplit("-", 2)[0] or other)
    index = indexes[0] if len(set(indexes)) == 1 else None
    details = dict(_details(lock))
    entries = readable(
        _entry,
        (
            (url, details.get(url), None if markers == set(platforms) else markers, index, lock)
            for url, markers in installed.items()
        ),
    )
    return LockContent(
        tuple(entries),
        environments=tuple(platforms),
        conda=tuple(sorted(conda)),
        pins=pins_of(it for url, it in details.items() if is_remote(url)),
    )


def _marker(platform: str) -> str:
    """The marker of a platform such as ``linux-64`` or ``osx-arm64``."""
    system, _, machine = platform.partition("-")
    known = _SYSTEMS.get(system, system)
    name = _MACHINES.get((system, machine), machine)
    return f'sys_platform == "{known}" and platform_machine == "{name}"'


def _details(lock: LockTable) -> Iterator[tuple[str, LockTable]]:
    """The packages of Python indexes by their URLs."""
    for package in lock.each("packages"):
        url = package.text("pypi")
        if url is None and package.text("kind") == "pypi":
            url = package.text("url") or package.text("path")
        if url is not None:
            yield url, package


def _entry(
    url: str,
    package: LockTable | None,
    markers: set[str] | None,
    index: str | None,
    lock: LockTable,
) -> LockEntry:
    if package is None:
        message = f"{value_text(without_secrets(url))} is not among the packages"
        refuse(Reason.MISSING_FIELD, message, lock.at / "packages", MAKE_AGAIN)
    marker = " or ".join(f"({it})" for it in sorted(markers)) if markers else None
    sha256, version = package.text("sha256"), package.text("version") or ""
    entry = LockEntry(package.required_text("name"), version, marker=marker, origin=package.at)
    if not is_remote(url):
        kind = SourceKind.EDITABLE if package.text("editable") == "true" else SourceKind.LOCAL_PATH
        return replace(entry, version="", source=kind, target=url, local=True)
    if url.startswith("git+"):
        return replace(entry, version="", source=SourceKind.REPOSITORY, target=url)
    file = LockedFile(urlsplit(url).path.rpartition("/")[2], without_secrets(url), None, sha256)
    hashes = (f"sha256:{sha256}",) if sha256 else ()
    return replace(entry, hashes=hashes, index=index, files=(file,))
