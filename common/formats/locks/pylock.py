"""``pylock.toml`` (PEP 751)."""

from dataclasses import replace

from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockValidationError
from packaging.utils import canonicalize_name

from common.formats.file_decoding import invalid_file
from common.formats.locks.entries import (
    DEFAULT_REQUEST,
    MAKE_AGAIN,
    LockContent,
    LockedFile,
    LockEntry,
    LockRequest,
    LockTable,
    pins_of,
    readable,
    require_known,
    resolved_marker,
)
from common.formats.requirements_files import SourceKind, is_remote
from model.errors import Reason
from model.json_fields import FieldPath
from model.redaction import without_secrets

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"version": "version", "marker": "marker", "index": "index"}


def is_pylock(name: str) -> bool:
    """Whether a file has a name that PEP 751 prescribes.

    >>> is_pylock("pylock.toml"), is_pylock("pylock.dev.toml"), is_pylock("lock.toml")
    (True, True, False)
    """
    parts = name.split(".")
    return parts[0] == "pylock" and parts[-1] == "toml" and len(parts) in (2, 3) and all(parts)


def read_pylock(
    lock: LockTable, request: LockRequest = DEFAULT_REQUEST, *, wheels_only: bool = False
) -> LockContent:
    """Read a whole lock.

    :param wheels_only: leave out source distributions and their hashes
    :raises InvalidFile: if it does not follow PEP 751, or lacks a selected extra or group
    """
    try:
        pylock = Pylock.from_dict(lock.record)
    except PylockValidationError as error:
        raise invalid_file(
            Reason.UNKNOWN_SCHEMA if "version" in str(error) else Reason.WRONG_TYPE,
            f"not a lock by PEP 751: {error.message[:200]}",
            f"{lock.at[:-1]}{error.context or '$'}",
            MAKE_AGAIN,
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        message = f"not a lock by PEP 751: {(str(error) or type(error).__name__)[:200]}"
        raise invalid_file(Reason.WRONG_TYPE, message, lock.at, MAKE_AGAIN) from None
    selection, default = request.selection, frozenset(pylock.default_groups or ())
    known = default.union(pylock.dependency_groups or ())
    require_known("group", selection.groups, map(canonicalize_name, known), lock.at)
    require_known("extra", selection.extras, map(canonicalize_name, pylock.extras or ()), lock.at)
    groups = selection.groups.union(default if selection.default_groups else ())
    at = lock.at / "packages"
    packages = (
        (it, at / place, groups, selection.extras, wheels_only)
        for place, it in enumerate(pylock.packages)
    )
    python = pylock.requires_python
    return LockContent(
        tuple(readable(_entry, packages)),
        requires_python=None if python is None else str(python),
        environments=tuple(map(str, pylock.environments or ())),
        pins=pins_of(lock.each("packages")),
    )


def _entry(
    package: Package,
    at: FieldPath,
    groups: frozenset[str],
    extras: frozenset[str],
    wheels_only: bool,
) -> LockEntry:
    entry = LockEntry(
        package.name,
        "",
        marker=None
        if package.marker is None
        else resolved_marker(str(package.marker), groups, extras),
        origin=at,
    )
    if (vcs := package.vcs) is not None:
        folder = f"#subdirectory={vcs.subdirectory}" if vcs.subdirectory else ""
        target = f"{vcs.type}+{vcs.url or vcs.path}@{vcs.commit_id}{folder}"
        return replace(entry, source=SourceKind.REPOSITORY, target=target, local=vcs.url is None)
    if package.directory is not None:
        kind = SourceKind.EDITABLE if package.directory.editable else SourceKind.LOCAL_PATH
        return replace(entry, source=kind, target=package.directory.path, local=True)
    if (archive := package.archive) is not None:
        local = archive.url is None or not is_remote(archive.url)
        target = archive.url or archive.path or ""
        return replace(entry, source=SourceKind.ADDRESS, target=target, local=local)
    if package.version is None:
        return entry
    sdist = None if wheels_only else package.sdist
    files = [it for it in (*(package.wheels or ()), sdist) if it is not None]
    names = (it.get("name") for it in package.dependencies or ())
    return replace(
        entry,
        version=str(package.version),
        hashes=tuple(
            sorted({f"{key}:{value}" for it in files for key, value in it.hashes.items()})
        ),
        index=package.index,
        dependencies=tuple(
            sorted({canonicalize_name(name) for name in names if isinstance(name, str)})
        ),
        files=tuple(_locked_file(it, at) for it in files),
    )


def _locked_file(file: PackageWheel | PackageSdist, at: FieldPath) -> LockedFile:
    try:
        filename = file.filename
    except (PylockValidationError, ValueError):
        message = "a file without a name"
        raise invalid_file(Reason.MISSING_FIELD, message, at, MAKE_AGAIN) from None
    url = None if file.url is None else without_secrets(file.url)
    sha256 = file.hashes.get("sha256")
    return LockedFile(filename, url, file.size, None if sha256 is None else str(sha256).lower())
