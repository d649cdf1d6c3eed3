"""A project as the adviser sees it: what it asks for, and what it has now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from common.formats.locks import LockEntry, marker_holds
from graph.candidates import Dependency


class ProjectFormat(StrEnum):
    """Which file says what a project asks for; the value is stored, never renamed."""

    PIPFILE = "pipfile"
    PYPROJECT = "pyproject"
    REQUIREMENTS = "requirements"
    #: A lock by itself: its packages are asked for, in any version.
    LOCK = "lock"


class WarningCode(StrEnum):
    """What a reader of a project left out or understood in a way of its own; never renamed."""

    #: A requirement by path, repository or address: nothing is known of what is there.
    EDITABLE = "editable"
    LOCAL_PATH = "local_path"
    REPOSITORY = "repository"
    ADDRESS = "address"
    #: An option or a key that has no meaning for advice.
    OPTION_IGNORED = "option_ignored"
    #: A variable in an address or a line; none is ever expanded.
    VARIABLE_NOT_EXPANDED = "variable_not_expanded"
    #: The same package is asked for twice; all of it counts.
    ASKED_TWICE = "asked_twice"
    #: A lock that was made for another manifest than the one beside it.
    LOCK_OUTDATED = "lock_outdated"
    #: A lock of which not all counts; one that leaves a version open is no baseline.
    LOCK_INCOMPLETE = "lock_incomplete"
    #: Only a lock was given.
    LOCK_ONLY = "lock_only"
    #: Every requirement names one version: there is nothing to choose.
    ALL_PINNED = "all_pinned"
    #: Requirements that a build would compute (``dynamic`` of PEP 621).
    DYNAMIC = "dynamic"
    #: A package is asked from an index that the project does not list.
    UNKNOWN_INDEX = "unknown_index"
    #: Credentials in an address; they were taken out.
    CREDENTIALS_REMOVED = "credentials_removed"
    #: A host whose certificate is not verified.
    UNVERIFIED_HOST = "unverified_host"
    #: A file that another one of the given files makes superfluous.
    FILE_IGNORED = "file_ignored"


@dataclass(frozen=True, slots=True)
class ProjectWarning:
    """Something of a project that does not count, or not as one might expect.

    :param field: file and place, such as ``Pipfile:packages.flask``
    """

    code: WarningCode
    message: str
    field: str


@dataclass(frozen=True, slots=True)
class ProjectRequirement:
    """One requirement of a project.

    :param name: normalised (PEP 503)
    :param specifier: canonical text (PEP 440), empty for any version
    :param extras: normalised and sorted
    :param marker: canonical text (PEP 508), ``None`` for everywhere
    :param index: name of the one index that it comes from, as the project calls it
    :param prereleases: whether they are as good as any other version; ``None`` if nothing is said
    :param origin: file and place, such as ``Pipfile:packages.flask`` or ``requirements.in:3``
    """

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()
    marker: str | None = None
    index: str | None = None
    prereleases: bool | None = None
    origin: str = ""

    @property
    def dependency(self) -> Dependency:
        """What the resolver takes; the marker is not part of it."""
        return Dependency(self.name, self.specifier, self.extras)

    @property
    def text(self) -> str:
        """By PEP 508.

        >>> ProjectRequirement("flask", ">=3", ("async",), 'os_name == "nt"').text
        'flask[async]>=3 ; os_name == "nt"'
        """
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{self.specifier}{marker}"

    def holds(self, markers: Mapping[str, str]) -> bool:
        """Whether it is asked in an environment with these variables of PEP 508."""
        return marker_holds(self.marker, markers)


@dataclass(frozen=True, slots=True)
class NonIndexPackage:
    """An entry that no index serves, or that leaves its version open.

    :param what: it is, without secrets: a name, an address or a path
    :param code: why it is left out
    :param local: whether it is a file or a folder beside the project
    """

    what: str
    code: WarningCode
    local: bool
    origin: str = ""


@dataclass(frozen=True, slots=True)
class ProjectIndex:
    """An index that a project names.

    :param url: without credentials; variables such as ``${TOKEN}`` stay as they are written
    :param default: whether packages come from there unless they say otherwise
    :param explicit: whether only packages that name it come from there
    """

    name: str
    url: str
    verify_ssl: bool = True
    default: bool = False
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """What a project asks for, and what it has now. Nothing in it is evaluated.

    :param requirements: in the order of the file
    :param dev: what development needs beside them
    :param extras: optional requirements by extra (``pyproject.toml``)
    :param groups: those by group, includes followed; ``dev`` among them
    :param constraints: bounds for whatever of these is installed; they install nothing
    :param overrides: what replaces whatever anybody asks of a package; one of which none holds
        is asked for by nobody
    :param removed: packages that nothing may bring
    :param published_before: later releases are left out
    :param locked: the lock beside it by package name, ``None`` without a usable one; of several
        entries of one package the first, so ask :meth:`locked_in` for an environment's
    :param lock_entries: all entries of that lock
    :param lock_source: name of its file
    :param lock_indexes: that the lock names itself, whatever the manifest says
    :param lock_elsewhere: what else it installs
    :param indexes: in the order in which they are searched, none if the project names none
    :param places: other addresses that packages are to come from (``--find-links``); none is read
    :param prereleases: packages whose pre-releases are welcome, required directly or not
    :param manifest: the Pipfile, if that is what it is, without secrets
    :param manifest_hashes: by which a lock may name the Pipfile as it is written, pipenv's
        present one first
    :param python: what the project is made for, such as ``3.11``
    :param requires_python: the specifier of Pythons that it supports
    :param source: name of the file
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
    indexes: tuple[ProjectIndex, ...] = ()
    places: tuple[ProjectIndex, ...] = ()
    prereleases: frozenset[str] = frozenset()
    all_prereleases: bool = False
    warnings: tuple[ProjectWarning, ...] = ()
    format: ProjectFormat = ProjectFormat.REQUIREMENTS
    source: str = ""
    manifest: Mapping[str, Any] | None = None
    manifest_hashes: tuple[str, ...] = ()
    python: str | None = None
    requires_python: str | None = None

    def locked_in(self, markers: Mapping[str, str]) -> dict[str, LockEntry] | None:
        """What the lock installs where PEP 508's variables are these, by name."""
        if self.locked is None:
            return None
        entries = self.lock_entries or tuple(self.locked.values())
        return {it.name: it for it in reversed(entries) if it.holds(markers)}
