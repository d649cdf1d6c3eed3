"""Writers for all lock formats.

The formats are ``Pipfile.lock`` (pipenv's specification 6), ``pylock.toml`` (PEP 751), and the
requirements and constraints files that pip and uv read.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import tomli_w
from packaging.markers import Marker
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from adviser.projects.indexes import public_text
from adviser.projects.pipfile import pipfile_hash, pipfile_of
from adviser.projects.project import KINDS_OF_REFERENCES, Project, ProjectRequirement
from adviser.projects.requirements_files import MADE_BY_THOTH
from model.errors import ProjectError
from model.packages.environments import Environment
from model.packages.identity import DEFAULT_INDEX, index_identity, name_of_index, public_index_url
from model.packages.releases import ReleaseFile, specifier_set


class LockFormat(StrEnum):
    """The formats of locks; the values are those of the option ``--format``."""

    PIPFILE_LOCK = "pipfile-lock"
    REQUIREMENTS = "requirements"
    PYLOCK = "pylock"
    CONSTRAINTS = "constraints"


class UnwritableLock(ProjectError):
    """A stack cannot be written in this format; the message names the package and the cause."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class LockablePackage:
    """A package of a stack with the data that locks need.

    :param index: name of the index that serves the package
    :param files: files of the release; those without a SHA-256 are not locked
    :param extras: required extras, sorted
    :param marker: marker of the requirement; ``None`` for always
    :param dependencies: names of the packages of the stack that it requires
    :param urls: URL by file name; required for ``pylock``
    """

    name: str
    version: str
    index: str = DEFAULT_INDEX
    files: tuple[ReleaseFile, ...] = ()
    extras: tuple[str, ...] = ()
    marker: str | None = None
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock as bytes.

    :param name: usual file name
    :param sha256: hexadecimal digits of ``data``
    """

    format: LockFormat
    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Options of a lock in addition to its packages.

    :param environment: the environment that the lock is for
    :param indexes: URL by name of this machine's indexes, in search order
    :param all_files: list every file of a release, not only those that fit the environment
    :param published_before: leave out files published later or at an unknown time, even if the
        release itself is older (a cooldown)
    """

    environment: Environment
    indexes: Mapping[str, str] = field(default_factory=dict)
    all_files: bool = True
    published_before: datetime | None = None


_INSTALLED = frozenset({"wheel", "sdist"})


def locked_files(chosen: LockablePackage, options: LockOptions) -> list[ReleaseFile]:
    """The files of a package that a lock lists: wheels first, then by file name.

    Only wheels and source distributions with a SHA-256 are listed. Yanked files are listed only if
    all files are yanked, as in a yanked release that is pinned. Without ``all_files``, only fitting
    wheels are listed. Files published after ``published_before`` are left out.

    :raises UnwritableLock: if no file is left
    """
    usable = [it for it in chosen.files if it.kind in _INSTALLED and it.sha256]
    if options.published_before is not None:
        end = options.published_before
        usable = [it for it in usable if it.uploaded_at and it.uploaded_at < end]
    kept = [it for it in usable if not it.yanked] or usable
    if not options.all_files:
        kept = [it for it in kept if fits(it, options)]
    if not kept:
        missing = "fitting wheel with a SHA-256" if usable else "file with a SHA-256"
        if options.published_before is not None:
            missing += f" from before {options.published_before:%Y-%m-%d}"
        raise UnwritableLock(
            f"{chosen.name} {chosen.version}: no {missing} is known",
            "`thoth packages refresh` reads the files that its index lists",
        )
    return sorted(kept, key=lambda it: (it.kind != "wheel", it.filename))


def hashes_of(chosen: LockablePackage, options: LockOptions) -> list[str]:
    """Hashes of the locked files as ``sha256:…``, sorted and unique."""
    return sorted({f"sha256:{it.sha256}" for it in locked_files(chosen, options)})


def fits(file: ReleaseFile, options: LockOptions) -> bool:
    """Whether a file is a wheel that fits the environment of the lock."""
    if file.kind != "wheel":
        return False
    try:
        tags = parse_wheel_filename(file.filename)[3]
    except (InvalidWheelFilename, ValueError):
        return False
    return any(tag in options.environment.ranks for tag in tags)


def has_matching_name(file: ReleaseFile, chosen: LockablePackage) -> bool:
    """Whether a file name contains this package and version, as PEP 751 requires."""
    try:
        if file.kind == "wheel":
            name, version, *_ = parse_wheel_filename(file.filename)
        else:
            name, version = parse_sdist_filename(file.filename)
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return False
    return (name, str(version)) == (chosen.name, chosen.version)


_PIPFILE_LOCK_VERSION = 6


def pipfile_lock_document(
    stack: Sequence[LockablePackage], project: Project, options: LockOptions
) -> dict[str, Any]:
    """The content of a ``Pipfile.lock``.

    The section ``develop`` holds the packages that only development needs. Each group of the
    Pipfile has a section for the packages that only this group needs. All other packages are in the
    section ``default``. A package belongs to the first section whose requirements need it, directly
    or through dependencies.

    :raises UnwritableLock: if a package has no file that can be locked, or its index has no URL
    """
    manifest = pipfile_of(project, options.indexes)
    sources = [dict(it) for it in manifest["source"]]
    index_of = _Sources(sources, options)
    entries = {it.name: _entry(it, index_of.name_of(it), options) for it in stack}
    sections = {
        section: {name: entries[name] for name in names}
        for section, names in _names_by_section(stack, project).items()
    }
    return {
        "_meta": {
            "hash": {"sha256": next(iter(project.manifest_hashes), None) or pipfile_hash(manifest)},
            "pipfile-spec": _PIPFILE_LOCK_VERSION,
            "requires": manifest.get("requires", {}),
            "sources": sources,
        },
        **sections,
    }


def pipfile_lock_text(document: Mapping[str, Any]) -> str:
    """Format the document as pipenv does: indented by four spaces, with sorted keys."""
    return json.dumps(document, indent=4, separators=(",", ": "), sort_keys=True) + "\n"


class _Sources:
    """Maps names of indexes to the names of sources in the lock."""

    def __init__(self, sources: list[dict[str, Any]], options: LockOptions) -> None:
        self._sources, self._options = sources, options
        self._names: dict[str, str | None] = {}

    def name_of(self, chosen: LockablePackage) -> str | None:
        """The name of the source for the package's index; adds the source if it is missing."""
        if chosen.index not in self._names:
            self._names[chosen.index] = self._search(chosen.index)
        return self._names[chosen.index]

    def _search(self, index: str) -> str | None:
        public = public_index_url() if index == DEFAULT_INDEX else ""
        url = (self._options.indexes.get(index) or public).rstrip("/")
        # This machine may read the public index through a mirror.
        places = {index_identity(it) for it in (url, public) if it}
        for number, source in enumerate(self._sources, 1):
            if index_identity(str(source.get("url", ""))) in places:
                return str(source.setdefault("name", f"source-{number}"))
        if not url:
            raise _without_url(index)
        names = {it.get("name") for it in self._sources}
        name = index if index not in names else name_of_index(url)
        self._sources.append(
            {"name": name, "url": public_text(url), "verify_ssl": url.startswith("https")}
        )
        return name


def _without_url(index: str) -> UnwritableLock:
    return UnwritableLock(
        f"the URL of the index {index} is unknown here",
        "set it in `PACKAGE_INDEXES` or in uv's configuration",
    )


def _entry(chosen: LockablePackage, source: str | None, options: LockOptions) -> dict[str, Any]:
    entry = {
        "hashes": hashes_of(chosen, options),
        "version": f"=={chosen.version}",
        "index": source,
        "extras": sorted(chosen.extras) or None,
        "markers": chosen.marker,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _names_by_section(stack: Sequence[LockablePackage], project: Project) -> dict[str, list[str]]:
    """Names of packages by section; each name is in the first section that needs the package.

    Packages that no section needs belong to ``default``, because a stack has no superfluous
    packages.
    """
    needs = {it.name: it.dependencies for it in stack}
    sections: dict[str, list[str]] = {"default": [], "develop": []}
    direct: dict[str, Iterable[ProjectRequirement]] = {
        "default": project.requirements,
        "develop": project.dev,
    }
    if project.manifest is not None:
        direct |= project.groups
    left = set(needs)
    for section, requirements in direct.items():
        reached = _reached([it.name for it in requirements], needs) & left
        left -= reached
        if reached or section in sections:
            sections[section] = sorted(reached)
    sections["default"] = sorted({*sections["default"], *left})
    return sections


def _reached(roots: Iterable[str], needs: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    pending = [it for it in roots if it in needs]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += [it for it in needs[name] if it in needs]
    return reached


_PYLOCK_VERSION = Version("1.0")
#: Markers that describe the environment. The patch release of Python does not affect wheels.
_NAMED = ("implementation_name", "platform_machine", "python_version", "sys_platform")


def pylock_text(stack: Sequence[LockablePackage], options: LockOptions) -> str:
    """The text of a ``pylock.toml`` for one environment.

    :raises UnwritableLock: if the URLs of a package's files are unknown; the format requires them
    """
    environment = options.environment
    lock = Pylock(
        lock_version=_PYLOCK_VERSION,
        environments=[environment_marker(environment)],
        requires_python=_requires_python(stack, environment.python_version),
        created_by="thoth",
        packages=[_package(it, stack, options) for it in stack],
    )
    return tomli_w.dumps(dict(lock.to_dict()))


#: Patch releases that a series of Python may have; 3.8, the longest so far, ended with 3.8.20.
_PATCHES = range(40)
#: Operators of version specifiers that exclude all older versions.
_LOWER_BOUNDS = frozenset({">=", ">", "~=", "==", "==="})


def _requires_python(stack: Iterable[LockablePackage], series: str) -> SpecifierSet:
    """The ``requires-python`` of a lock: from this series of Python on, as its packages allow.

    PEP 751 defines the field as the minimum Python of any supported environment. It has no upper
    bound of its own, because the marker in ``environments`` already admits this series only, and
    uv refuses a lock whose marker does not hold. Bounds that all patch releases of the series meet
    are left out.
    """
    patches = [Version(f"{series}.{patch}") for patch in _PATCHES]
    texts = {it.requires_python for it in stack if it.requires_python}
    specifiers = {specifier for text in texts for specifier in specifier_set(text)}
    narrower = {it for it in specifiers if not all(map(it.contains, patches))}
    bounds = {str(it) for it in narrower}
    if not any(it.operator in _LOWER_BOUNDS for it in narrower):
        bounds.add(f">={series}")
    return SpecifierSet(",".join(sorted(bounds)))


def environment_marker(environment: Environment) -> Marker:
    """A marker for environments with this interpreter, Python version and platform.

    No marker can express the C library.
    """
    return Marker(" and ".join(f"{key} == '{environment.markers[key]}'" for key in _NAMED))


def _package(
    chosen: LockablePackage, stack: Sequence[LockablePackage], options: LockOptions
) -> Package:
    files = [it for it in locked_files(chosen, options) if has_matching_name(it, chosen)]
    known = [it for it in files if it.filename in chosen.urls]
    missing = [it for it in files if it.filename not in chosen.urls]
    needed = [it for it in missing if fits(it, options)]
    if not known or (needed and not any(fits(it, options) for it in known)):
        raise UnwritableLock(
            f"{chosen.name} {chosen.version}: the URLs of its files are unknown, but pylock.toml "
            "requires them",
            "choose another format, such as requirements",
        )
    sdists = [it for it in known if it.kind == "sdist"]
    wheels = [it for it in known if it.kind == "wheel"]
    index = options.indexes.get(chosen.index)
    names = {it.name for it in stack}
    required = sorted(names.intersection(chosen.dependencies) - {chosen.name})
    return Package(
        name=canonicalize_name(chosen.name),
        version=Version(chosen.version),
        marker=Marker(chosen.marker) if chosen.marker else None,
        requires_python=specifier_set(chosen.requires_python) if chosen.requires_python else None,
        dependencies=[{"name": name} for name in required] or None,
        index=public_text(index) if index else None,
        wheels=[PackageWheel(**_file_fields(it, chosen)) for it in wheels] or None,
        # Only one is allowed; ``.tar.gz`` sorts before ``.zip`` and is the standard.
        sdist=PackageSdist(**_file_fields(sdists[0], chosen)) if sdists else None,
    )


def _file_fields(file: ReleaseFile, chosen: LockablePackage) -> dict[str, Any]:
    uploaded = file.uploaded_at
    return {
        "name": file.filename,
        "upload_time": None if uploaded is None else uploaded.astimezone(UTC),
        "url": public_text(chosen.urls[file.filename]).partition("#")[0],
        "size": file.size_bytes,
        "hashes": {"sha256": file.sha256},
    }


#: First line of both formats. It has no date, so that equal locks have equal digests.
_HEADER = MADE_BY_THOTH + "{label}."


def _left_out_comments(project: Project) -> list[str]:
    """A comment for each requirement that the lock lacks because no index has the package."""
    causes = [
        it.message.partition(": it is left as it is")[0]
        for it in project.warnings
        if it.code in KINDS_OF_REFERENCES
    ]
    # A line break would end the comment.
    return [f"# Not in this lock: {' '.join(it.split())}." for it in dict.fromkeys(causes)]


def requirements_text(
    stack: Sequence[LockablePackage], options: LockOptions, project: Project
) -> str:
    """The text of a ``requirements.txt`` with the hash of every file.

    The URL of the default index is not written, since it differs between machines. The hashes
    prevent the installation of a package of the same name from another index.

    :raises UnwritableLock: if a package has no file that can be locked, or its index no URL
    """
    lines = [_HEADER.format(label=options.environment.label), *_left_out_comments(project)]
    lines += _index_options(stack, options)
    for chosen in stack:
        lines.append(_with_hashes(_pinned(chosen, extras=True), hashes_of(chosen, options)))
    return "\n".join(lines) + "\n"


def pipfile_lock_requirements(document: Mapping[str, Any]) -> str:
    """The text of a ``requirements.txt`` with the packages and hashes of a ``Pipfile.lock``.

    The packages of all sections are listed by name. Indexes are not named: the hashes prevent the
    installation of a package of the same name from another index.
    """
    sections = (value for name, value in document.items() if name != "_meta")
    entries = {name: entry for section in sections for name, entry in section.items()}
    lines = []
    for name, entry in sorted(entries.items()):
        extras, marker = entry.get("extras", ()), entry.get("markers")
        lines.append(_with_hashes(_pin(name, extras, entry["version"], marker), entry["hashes"]))
    return "\n".join(lines) + "\n"


def constraints_text(
    stack: Sequence[LockablePackage], options: LockOptions, project: Project
) -> str:
    """The text of a ``constraints.txt``, without hashes, since constraints install nothing."""
    lines = [_HEADER.format(label=options.environment.label), *_left_out_comments(project)]
    lines += [_pinned(it, extras=False) for it in stack]
    return "\n".join(lines) + "\n"


def _pinned(chosen: LockablePackage, *, extras: bool) -> str:
    used = sorted(chosen.extras) if extras else ()
    return _pin(chosen.name, used, f"=={chosen.version}", chosen.marker)


def _pin(name: str, extras: Sequence[str], specifier: str, marker: object) -> str:
    suffix = f"[{','.join(extras)}]" if extras else ""
    return f"{name}{suffix}{specifier}" + (f" ; {marker}" if marker else "")


def _with_hashes(pin: str, hashes: Iterable[str]) -> str:
    return " \\\n".join([pin, *(f"    --hash={value}" for value in hashes)])


def _index_options(stack: Sequence[LockablePackage], options: LockOptions) -> Iterator[str]:
    used = {it.index for it in stack}
    order = [name for name in options.indexes if name in used]
    if missing := sorted(used - set(order) - {DEFAULT_INDEX}):
        raise _without_url(missing[0])
    main = next(iter(order), None) if DEFAULT_INDEX not in used else None
    for name in order:
        url = public_text(options.indexes[name])
        if url.startswith("file:"):
            yield f"--find-links {url}"
        elif name == main:
            yield f"--index-url {url}"
        elif name != DEFAULT_INDEX:
            yield f"--extra-index-url {url}"


_NAMES = {
    LockFormat.PIPFILE_LOCK: "Pipfile.lock",
    LockFormat.REQUIREMENTS: "requirements.txt",
    LockFormat.PYLOCK: "pylock.toml",
    LockFormat.CONSTRAINTS: "constraints.txt",
}


def render_lock(
    format: LockFormat, stack: Iterable[LockablePackage], project: Project, options: LockOptions
) -> LockFile:
    """Write ``stack`` as a lock of ``project``; the order of ``stack`` does not matter.

    :raises UnwritableLock: if data that the format needs is missing; the message names the package
        and a remedy
    """
    ordered = sorted(stack, key=lambda it: it.name)
    if format is LockFormat.PIPFILE_LOCK:
        text = pipfile_lock_text(pipfile_lock_document(ordered, project, options))
    elif format is LockFormat.REQUIREMENTS:
        text = requirements_text(ordered, options, project)
    elif format is LockFormat.PYLOCK:
        text = pylock_text(ordered, options)
    else:
        text = constraints_text(ordered, options, project)
    data = text.encode()
    return LockFile(format, _NAMES[format], data, hashlib.sha256(data).hexdigest())
