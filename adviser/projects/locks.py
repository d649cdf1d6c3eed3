"""Locks as people have them: what is installed now, for a baseline and for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockValidationError
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from adviser.projects.documents import check_sizes, json_of, toml_of
from adviser.projects.fields import (
    flag_in,
    inside,
    table_in,
    tables_in,
    text_in,
    texts_in,
    wrong_type,
)
from adviser.projects.indexes import index_named, public_address
from adviser.projects.lines import ELSEWHERE, Reading, check_marker, checked_hashes, is_remote
from adviser.projects.problems import refuse, shown
from adviser.projects.project import (
    AskedRequirement,
    FromElsewhere,
    LockedFile,
    LockedPackage,
    ProjectIndex,
    ProjectWarning,
    WarningCode,
)
from adviser.projects.requirements_files import pinned, read_requirements
from common.reasons import Reason
from common.redaction import without_secrets
from common.releases import MAX_REQUIREMENT_LENGTH, parse_requirement

_MAKE_AGAIN = "make the lock again"


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock says; entries in the order of the file, of several sections all.

    :param complete: whether every entry names one version that an index serves
    :param unpinned: the first line of a requirements file that names no single version
    :param elsewhere: entries that come from no index, or leave their version open
    :param manifest_hash: by which a ``Pipfile.lock`` names its Pipfile
    """

    entries: tuple[LockedPackage, ...]
    source: str
    complete: bool = True
    elsewhere: tuple[FromElsewhere, ...] = ()
    indexes: tuple[ProjectIndex, ...] = ()
    manifest_hash: str | None = None
    python: str | None = None
    requires_python: str | None = None
    warnings: tuple[ProjectWarning, ...] = ()
    unpinned: AskedRequirement | None = None

    def packages(self, markers: Mapping[str, str], *, dev: bool = True) -> dict[str, LockedPackage]:
        """What it installs in an environment, by name.

        :param dev: with what only development needs
        """
        held = [it for it in self.entries if (dev or not it.dev) and it.holds(markers)]
        return {it.name: it for it in reversed(held)}


def read_lock(name: str, files: Mapping[str, bytes]) -> Lock:
    """Read one lock by itself.

    :param name: its key in ``files``, which says its format: ``Pipfile.lock``,
        ``pylock.toml``, or any other name for a requirements file
    :param files: it, and what it includes
    :raises InvalidProject: naming file, place and remedy
    """
    check_sizes(files)
    reading = Reading()
    lock = lock_of(name, files, reading)
    return replace(lock, warnings=tuple(reading.warnings))


def require_pins(lock: Lock) -> Lock:
    """The lock itself, unless it is a requirements file of which not every line is pinned.

    :raises InvalidProject: naming the first such line
    """
    if lock.unpinned is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{shown(lock.unpinned.text)} names no single version, so this is no lock",
            lock.unpinned.origin,
            "lock it first, such as by `thoth advise --format requirements`",
        )
    return lock


def lock_of(name: str, files: Mapping[str, bytes], reading: Reading) -> Lock:
    """The same as part of a project."""
    before = len(reading.elsewhere)
    lock = _lock_of(name, files, reading)
    return replace(lock, elsewhere=tuple(reading.elsewhere[before:]))


def _lock_of(name: str, files: Mapping[str, bytes], reading: Reading) -> Lock:
    base = name.rpartition("/")[2]
    if base == "Pipfile.lock" or base.endswith(".json"):
        return _pipfile_lock(json_of(name, files[name]), name, reading)
    if is_pylock(base):
        return _pylock(toml_of(name, files[name]), name, reading)
    listed = read_requirements(name, files, reading)
    return Lock(
        tuple(listed.pins),
        name,
        complete=listed.is_lock,
        indexes=(*listed.indexes, *listed.places),
        unpinned=next((it for it in listed.requirements if pinned(it.specifier) is None), None),
    )


def is_pylock(name: str) -> bool:
    """Whether a file is called as PEP 751 wants it.

    >>> is_pylock("pylock.toml"), is_pylock("pylock.dev.toml"), is_pylock("lock.toml")
    (True, True, False)
    """
    parts = name.split(".")
    return parts[0] == "pylock" and parts[-1] == "toml" and len(parts) in (2, 3) and all(parts)


def names_indexes(name: str) -> bool:
    """Whether a lock of this name can say from which index each package comes.

    >>> names_indexes("Pipfile.lock"), names_indexes("requirements.txt")
    (True, False)
    """
    base = name.rpartition("/")[2]
    return base == "Pipfile.lock" or base.endswith(".json") or is_pylock(base)


def _pipfile_lock(value: Any, name: str, reading: Reading) -> Lock:
    if not isinstance(value, Mapping):
        wrong_type(value, "an object", f"{name}:$")
    meta = table_in(value, "_meta", name)
    requires = table_in(meta, "requires", f"{name}:_meta")
    entries = list(_sections(value, name, reading))
    versions = [text_in(requires, it, f"{name}:_meta.requires") for it in _PYTHONS]
    return Lock(
        tuple(it for it in entries if it is not None),
        name,
        complete=None not in entries,
        indexes=tuple(_pipfile_indexes(meta, name, reading)),
        manifest_hash=text_in(table_in(meta, "hash", f"{name}:_meta"), "sha256", f"{name}:_meta"),
        python=next(filter(None, versions), None),
    )


_PYTHONS = ("python_full_version", "python_version")


def _pipfile_indexes(
    meta: Mapping[str, Any], name: str, reading: Reading
) -> Iterator[ProjectIndex]:
    for number, source in enumerate(tables_in(meta, "sources", f"{name}:_meta")):
        at = f"{name}:_meta.sources[{number}]"
        url = text_in(source, "url", at)
        if url is not None:
            called = text_in(source, "name", at) or f"source-{number + 1}"
            verified = flag_in(source, "verify_ssl", at, True)
            yield index_named(called, url, at, reading, verify_ssl=verified, default=number == 0)


def _sections(
    lock: Mapping[str, Any], name: str, reading: Reading
) -> Iterator[LockedPackage | None]:
    """Entries of all sections; what is needed anyway before what only development needs."""
    keys = sorted(lock.keys() - {"_meta"}, key=lambda key: (key != "default", key))
    for key in keys:
        for package, entry in table_in(lock, key, name).items():
            at = inside(inside(name, key), package)
            yield _pipfile_entry(package, entry, at, key != "default", reading)


def _pipfile_entry(
    package: str, entry: Any, at: str, dev: bool, reading: Reading
) -> LockedPackage | None:
    if not isinstance(entry, Mapping):
        wrong_type(entry, "an object", at)
    for key, code in ELSEWHERE.items():
        if value := entry.get(key):
            what = package if value is True else f"{package} ({value})"
            reading.leave_out(code, what, at, local=_is_beside(entry))
            return None
    version = text_in(entry, "version", at) or ""
    if not version.startswith("==") or version.rstrip().endswith("*"):
        reading.leave_open(f"{package}{version}", at)
        return None
    return _locked(
        LockedPackage(
            package,
            version.lstrip("=").strip(),
            checked_hashes(texts_in(entry, "hashes", at), inside(at, "hashes")),
            text_in(entry, "markers", at),
            text_in(entry, "index", at),
            tuple(texts_in(entry, "extras", at)),
            dev,
            origin=at,
        ),
        reading,
    )


def _is_beside(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of pipenv's is a file or a folder of the project."""
    if any(entry.get(it) for it, code in ELSEWHERE.items() if code is WarningCode.REPOSITORY):
        return False
    where = [it for it in (entry.get("path"), entry.get("file")) if it]
    return bool(where) and not any(is_remote(str(it)) for it in where)


def _pylock(content: Mapping[str, Any], name: str, reading: Reading) -> Lock:
    try:
        lock = Pylock.from_dict(content)
    except PylockValidationError as error:
        refuse(
            Reason.UNKNOWN_SCHEMA if "version" in str(error) else Reason.WRONG_TYPE,
            f"not a lock by PEP 751: {error.message[:200]}",
            inside(name, error.context or "$"),
            _MAKE_AGAIN,
        )
    except (ValueError, TypeError, RecursionError) as error:
        refuse(
            Reason.WRONG_TYPE,
            f"not a lock by PEP 751: {(str(error) or type(error).__name__)[:200]}",
            f"{name}:$",
            _MAKE_AGAIN,
        )
    groups = frozenset(lock.default_groups or ())
    entries = [
        _pylock_entry(package, f"{name}:packages[{number}]", groups, reading)
        for number, package in enumerate(lock.packages)
    ]
    kept = tuple(it for it in entries if it is not None)
    addresses = dict.fromkeys(it.index for it in kept if it.index is not None)
    return Lock(
        kept,
        name,
        complete=None not in entries,
        indexes=tuple(ProjectIndex(it, it) for it in addresses),
        requires_python=None if lock.requires_python is None else str(lock.requires_python),
    )


def _pylock_entry(
    package: Package, at: str, groups: frozenset[str], reading: Reading
) -> LockedPackage | None:
    if package.vcs is not None:
        reading.leave_out(WarningCode.REPOSITORY, package.name, at, local=package.vcs.url is None)
    elif package.directory is not None:
        editable = package.directory.editable
        code = WarningCode.EDITABLE if editable else WarningCode.LOCAL_PATH
        reading.leave_out(code, package.name, at, local=True)
    elif package.archive is not None:
        local = package.archive.url is None or not is_remote(package.archive.url)
        reading.leave_out(WarningCode.ADDRESS, package.name, at, local=local)
    elif package.version is None:
        reading.leave_open(package.name, at)
    else:
        files = [it for it in (*(package.wheels or ()), package.sdist) if it is not None]
        hashes = {f"{key}:{value}" for it in files for key, value in it.hashes.items()}
        needs = (it.get("name") for it in package.dependencies or ())
        return _locked(
            LockedPackage(
                package.name,
                str(package.version),
                checked_hashes(sorted(hashes), at),
                None if package.marker is None else str(package.marker),
                None if package.index is None else public_address(package.index, at, reading),
                dependencies=tuple(
                    sorted({canonicalize_name(it) for it in needs if isinstance(it, str)})
                ),
                origin=at,
                groups=groups,
                files=tuple(_pylock_file(it, at) for it in files),
            ),
            reading,
        )
    return None


def _pylock_file(file: PackageWheel | PackageSdist, at: str) -> LockedFile:
    try:
        filename = file.filename
    except (PylockValidationError, ValueError):
        refuse(Reason.MISSING_FIELD, "a file without a name", at, _MAKE_AGAIN)
    url = None if file.url is None else without_secrets(file.url)
    sha256 = file.hashes.get("sha256")
    return LockedFile(filename, url, file.size, None if sha256 is None else str(sha256).lower())


def _locked(entry: LockedPackage, reading: Reading) -> LockedPackage:
    """An entry in normal form.

    :raises InvalidProject: if a part of it is none
    """
    at = entry.origin
    reading.count(at)
    try:
        version = str(Version(entry.version[:MAX_REQUIREMENT_LENGTH]))
    except (InvalidVersion, ValueError):
        refuse(
            Reason.INVALID_VERSION,
            f"{shown(entry.version)} is not a version by PEP 440",
            at,
            _MAKE_AGAIN,
        )
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    marker = f" ; {entry.marker}" if entry.marker else ""
    # A marker of PEP 751 may ask for extras and groups of the lock, which a requirement's cannot.
    of_lock = "dependency_groups" in marker or "extras" in marker
    parsed = parse_requirement(f"{entry.name}{extras}{'' if of_lock else marker}")
    if parsed.name is None or parsed.specifier or parsed.url is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"name, extras or marker of {shown(entry.name)} are none by the standards",
            at,
            _MAKE_AGAIN,
        )
    kept = entry.marker if of_lock else parsed.marker
    check_marker(kept, at)
    return replace(
        entry, name=parsed.name, version=version, extras=parsed.extras, marker=kept or None
    )
