"""``pylock.toml`` (PEP 751)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import tomli_w
from packaging.markers import Marker
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from adviser.locks.files import fits, is_named_well, locked_files
from adviser.locks.stacks import Chosen, LockOptions, NoLock
from adviser.projects.indexes import public_text
from common.environments import Environment
from common.releases import ReleaseFile

_SPECIFICATION = Version("1.0")
#: What the lock says that it holds for; a patch release of Python changes no stack's wheels.
_NAMED = ("implementation_name", "platform_machine", "python_version", "sys_platform")


def pylock_text(stack: Sequence[Chosen], options: LockOptions) -> str:
    """A lock for one environment, which it names.

    :raises NoLock: if the address of a package's files is not known; the format demands it
    """
    environment = options.environment
    lock = Pylock(
        lock_version=_SPECIFICATION,
        environments=[environment_marker(environment)],
        requires_python=SpecifierSet(f"=={environment.python_version}.*"),
        created_by="thoth",
        packages=[_package(it, stack, options) for it in stack],
    )
    return tomli_w.dumps(dict(lock.to_dict()))


def environment_marker(environment: Environment) -> Marker:
    """A marker that holds in such environments alone.

    The interpreter, its line and the platform; which C library it has no marker can say.
    """
    return Marker(" and ".join(f"{key} == '{environment.markers[key]}'" for key in _NAMED))


def _package(chosen: Chosen, stack: Sequence[Chosen], options: LockOptions) -> Package:
    files = [it for it in locked_files(chosen, options) if is_named_well(it, chosen)]
    placed = [it for it in files if it.filename in chosen.urls]
    missing = [it for it in files if it.filename not in chosen.urls]
    needed = [it for it in missing if fits(it, options)]
    if not placed or (needed and not any(fits(it, options) for it in placed)):
        raise NoLock(
            f"{chosen.name} {chosen.version}: the address of its files is not known, and "
            "pylock.toml names every file by one",
            "ask for another format, such as requirements",
        )
    sdists = [it for it in placed if it.kind == "sdist"]
    wheels = [it for it in placed if it.kind == "wheel"]
    index = options.indexes.get(chosen.index)
    names = {it.name for it in stack}
    required = sorted(names.intersection(chosen.dependencies) - {chosen.name})
    return Package(
        name=canonicalize_name(chosen.name),
        version=Version(chosen.version),
        marker=Marker(chosen.marker) if chosen.marker else None,
        requires_python=SpecifierSet(chosen.requires_python) if chosen.requires_python else None,
        dependencies=[{"name": name} for name in required] or None,
        index=public_text(index) if index else None,
        wheels=[PackageWheel(**_facts(it, chosen)) for it in wheels] or None,
        # Only one can be named; ``.tar.gz`` sorts before ``.zip`` and is the standard's.
        sdist=PackageSdist(**_facts(sdists[0], chosen)) if sdists else None,
    )


def _facts(file: ReleaseFile, chosen: Chosen) -> dict[str, Any]:
    uploaded = file.uploaded_at
    return {
        "name": file.filename,
        "upload_time": None if uploaded is None else uploaded.astimezone(UTC),
        "url": public_text(chosen.urls[file.filename]).partition("#")[0],
        "size": file.size_bytes,
        "hashes": {"sha256": file.sha256},
    }
