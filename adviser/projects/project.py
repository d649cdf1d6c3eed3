"""A project: its requirements, its lock, and warnings about its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from common.formats.file_decoding import value_text
from common.formats.locks.entries import LockEntry, marker_holds
from model.packages.candidates import Dependency


class ProjectFormat(StrEnum):
    """The kind of file that holds the requirements. The values are stored; never rename them."""

    PIPFILE = "pipfile"
    PYPROJECT = "pyproject"
    REQUIREMENTS = "requirements"
    #: A Python script with inline metadata (PEP 723).
    SCRIPT = "script"
    #: A lock without a manifest: its packages are required in any version.
    LOCK = "lock"


class WarningCode(StrEnum):
    """Warnings of the readers of a project. The values are stored; never rename them."""

    #: A requirement by path, repository or URL, for which no data exists.
    EDITABLE = "editable"
    LOCAL_PATH = "local_path"
    REPOSITORY = "repository"
    ADDRESS = "address"
    #: Packages of conda, which are in no Python index.
    CONDA = "conda"
    #: An option or a key that does not affect advice.
    OPTION_IGNORED = "option_ignored"
    #: A requirement that is not valid, and how it is read.
    OLD_SPECIFIER = "old_specifier"
    #: A variable in a URL or a line; variables are never expanded.
    VARIABLE_NOT_EXPANDED = "variable_not_expanded"
    #: A package is required twice; both requirements count.
    ASKED_TWICE = "asked_twice"
    #: A requirement that is used instead of every other one on its package.
    OVERRIDDEN = "overridden"
    #: A lock was made for another manifest than the one beside it.
    LOCK_OUTDATED = "lock_outdated"
    #: Entries of a lock are ignored. A lock with open versions is not used as a baseline.
    LOCK_INCOMPLETE = "lock_incomplete"
    #: A lock was given without a manifest.
    LOCK_ONLY = "lock_only"
    #: Every requirement pins one version, so there is nothing to choose.
    ALL_PINNED = "all_pinned"
    #: Requirements are computed by the build (``dynamic`` in PEP 621).
    DYNAMIC = "dynamic"
    #: A requirement names an index that the project does not list.
    UNKNOWN_INDEX = "unknown_index"
    #: Credentials were removed from a URL.
    CREDENTIALS_REMOVED = "credentials_removed"
    #: The certificate of a host is not verified.
    UNVERIFIED_HOST = "unverified_host"
    #: A file is not read because another given file takes precedence.
    FILE_IGNORED = "file_ignored"


#: Requirements that no index has data for, by the code of their warning.
KINDS_OF_REFERENCES = {
    WarningCode.EDITABLE: "an editable install",
    WarningCode.LOCAL_PATH: "a local path",
    WarningCode.REPOSITORY: "a repository",
    WarningCode.ADDRESS: "a URL",
}


@dataclass(frozen=True, slots=True)
class ProjectWarning:
    """A part of a project that is ignored or read in an unexpected way.

    :param field: file and place, such as ``Pipfile:packages.flask``
    """

    code: WarningCode
    message: str
    field: str

    @property
    def text(self) -> str:
        """The message after the file, and the place in it unless it is about the whole file."""
        return f"{self.field.removesuffix(':$')}: {self.message}"


@dataclass(frozen=True, slots=True)
class ProjectRequirement:
    """One requirement of a project.

    :param name: normalised (PEP 503)
    :param specifier: canonical text (PEP 440), empty for any version
    :param extras: normalised and sorted
    :param marker: canonical text (PEP 508), ``None`` for everywhere
    :param index: the project's name of the only index that it may come from
    :param indexes_where: markers, each with the index that it comes from instead where it holds
    :param prereleases: whether pre-releases count like other versions; ``None`` if unspecified
    :param origin: file and place, such as ``Pipfile:packages.flask`` or ``requirements.in:3``
    :param excluded: specifiers of versions within ``specifier`` that it does not admit
    """

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()
    marker: str | None = None
    index: str | None = None
    prereleases: bool | None = None
    origin: str = ""
    excluded: tuple[str, ...] = ()
    indexes_where: tuple[tuple[str, str], ...] = ()

    @property
    def dependency(self) -> Dependency:
        """The requirement for the resolver, without its marker."""
        return Dependency(self.name, self.specifier, self.extras)

    @property
    def text(self) -> str:
        """The requirement as text in the syntax of PEP 508.

        >>> ProjectRequirement("flask", ">=3", ("async",), 'os_name == "nt"').text
        'flask[async]>=3 ; os_name == "nt"'
        """
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{self.specifier}{marker}"

    def holds(self, markers: Mapping[str, str]) -> bool:
        """Whether the marker is true for these values of the PEP 508 variables."""
        return marker_holds(self.marker, markers)

    def index_in(self, markers: Mapping[str, str]) -> str | None:
        """The only index that it may come from, for these values of the PEP 508 variables."""
        where = (index for marker, index in self.indexes_where if marker_holds(marker, markers))
        return next(where, self.index)


@dataclass(frozen=True, slots=True)
class NonIndexPackage:
    """An entry whose package does not come from an index, or whose version is left open.

    :param what: name, URL or path of the entry, without secrets
    :param code: why it is left out
    :param local: whether it is a file or a folder beside the project
    """

    what: str
    code: WarningCode
    local: bool
    origin: str = ""


@dataclass(frozen=True, slots=True)
class MissingPath:
    """A requirement by a local path that does not exist.

    :param what: the requirement, without secrets
    :param marker: canonical text (PEP 508), ``None`` for everywhere
    :param optional: whether only an extra, a group, development or a constraint names it
    """

    what: str
    path: str
    marker: str | None
    optional: bool
    origin: str

    @property
    def message(self) -> str:
        """The problem, without the file and the remedy."""
        return f"{value_text(self.what)} names {value_text(self.path)}, which does not exist"

    def is_needed(self, markers: Mapping[str, str]) -> bool:
        """Whether every installation needs the path in this environment."""
        return not self.optional and marker_holds(self.marker, markers)


@dataclass(frozen=True, slots=True)
class ProjectIndex:
    """An index that a project names.

    :param url: without credentials; variables such as ``${TOKEN}`` are kept
    :param default: whether packages come from it unless they name another index
    :param explicit: whether only packages that name this index come from it
    """

    name: str
    url: str
    verify_ssl: bool = True
    default: bool = False
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """The requirements and the lock of a project. Markers are not evaluated.

    :param requirements: in the order of the file
    :param dev: additional requirements of development
    :param extras: optional requirements by extra (``pyproject.toml``)
    :param groups: requirements by group with includes resolved, ``dev`` included
    :param constraints: bounds on packages that are installed for another reason
    :param overrides: used instead of every other requirement on their package; if no override of a
        package holds, the package is not required at all
    :param removed: packages that must not be installed
    :param published_before: later releases are left out
    :param locked: lock entries by package name, ``None`` without a usable lock. Of several entries
        of a package only the first; :meth:`locked_in` selects by environment
    :param lock_entries: all entries of the lock
    :param lock_source: file name of the lock
    :param lock_indexes: indexes that the lock names
    :param lock_elsewhere: entries of the lock that do not come from an index
    :param missing_paths: local paths that do not exist, as far as that was checked
    :param indexes: in search order; empty if the project names none
    :param places: other URLs of packages (``--find-links``); they are not read
    :param prereleases: packages whose pre-releases are admitted
    :param wheels_of: packages that must not be built, or ``:all:``
    :param builds_of: exceptions from ``:all:``
    :param manifest: content of the Pipfile, without secrets
    :param manifest_hashes: hashes of the Pipfile that a lock may contain, the one of current
        pipenv first
    :param python: Python version of the project, such as ``3.11``
    :param requires_python: specifiers of supported Python versions, joined with ``||``
    :param option_pythons: the same for groups, by option, such as ``--group test`` and ``--dev``
    :param source: file name of the manifest
    :param benchmarks: commands that measure the project, by name; reading runs none of them
    """

    requirements: tuple[ProjectRequirement, ...] = ()
    dev: tuple[ProjectRequirement, ...] = ()
    extras: Mapping[str, tuple[ProjectRequirement, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[ProjectRequirement, ...]] = field(default_factory=dict)
    constraints: tuple[ProjectRequirement, ...] = ()
    overrides: tuple[ProjectRequirement, ...] = ()
    removed: frozenset[str] = frozenset()
    published_before: datetime | None = None
    locked: Mapping[str, LockEntry] | None = None
    lock_entries: tuple[LockEntry, ...] = ()
    lock_source: str | None = None
    lock_indexes: tuple[ProjectIndex, ...] = ()
    lock_elsewhere: tuple[NonIndexPackage, ...] = ()
    missing_paths: tuple[MissingPath, ...] = ()
    indexes: tuple[ProjectIndex, ...] = ()
    places: tuple[ProjectIndex, ...] = ()
    prereleases: frozenset[str] = frozenset()
    all_prereleases: bool = False
    wheels_of: frozenset[str] = frozenset()
    builds_of: frozenset[str] = frozenset()
    warnings: tuple[ProjectWarning, ...] = ()
    format: ProjectFormat = ProjectFormat.REQUIREMENTS
    source: str = ""
    manifest: Mapping[str, Any] | None = None
    manifest_hashes: tuple[str, ...] = ()
    python: str | None = None
    requires_python: str | None = None
    option_pythons: Mapping[str, str] = field(default_factory=dict)
    benchmarks: Mapping[str, str] = field(default_factory=dict)

    def locked_in(self, markers: Mapping[str, str]) -> dict[str, LockEntry] | None:
        """Lock entries, by name, whose markers are true for these values of PEP 508 variables."""
        if self.locked is None:
            return None
        entries = self.lock_entries or tuple(self.locked.values())
        return {it.name: it for it in reversed(entries) if it.holds(markers)}
