"""Read the locks of a project, for the baseline of advice and for ``thoth guard``."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from adviser.projects.indexes import index_named, public_url
from adviser.projects.project import (
    KINDS_OF_REFERENCES,
    NonIndexPackage,
    ProjectIndex,
    ProjectRequirement,
    ProjectWarning,
    WarningCode,
)
from adviser.projects.requirement_parsing import ParseContext
from adviser.projects.requirements_files import read_requirements
from common.formats.file_decoding import (
    FileTable,
    check_sizes,
    json_of,
    refuse,
    table_of,
    toml_of,
    value_text,
    yaml_of,
)
from common.formats.locks.entries import (
    DEFAULT_SELECTION,
    MAKE_AGAIN,
    NEVER,
    LockEntry,
    LockRequest,
    LockSelection,
    LockTable,
    faults_of,
    marker_fault,
    marker_holds,
    normalised,
)
from common.formats.locks.readers import LockReader, Syntax, reader_of
from common.formats.locks.uv_lock import member_folders, read_uv_lock
from common.formats.requirements_files import exact_version
from model.errors import InvalidDocument, Reason
from model.json_fields import FieldPath
from model.packages.identity import same_version
from model.redaction import without_secrets
from model.text import first_few

PYPROJECT = "pyproject.toml"
#: Which packages of a lock are not installed.
OF_OTHERS = (
    "of groups and extras that were not selected (--group, --extra), or of other environments"
    " (--python, --platform)"
)
_PARSERS = {Syntax.TOML: toml_of, Syntax.JSON: json_of, Syntax.YAML: yaml_of}


@dataclass(frozen=True, slots=True)
class ProjectLock:
    """A lock, with the entries of all its sections in the order of the file.

    :param complete: whether every entry pins one version from an index
    :param unpinned: the first line of a requirements file that pins no single version
    :param elsewhere: entries that do not come from an index, or leave their version open
    :param others: the entries of ``elsewhere`` that name a source, without secrets
    :param manifest_hash: hash of the Pipfile in a ``Pipfile.lock``
    :param requires_python: specifiers of supported Python versions, joined with ``||``
    :param environments: markers of which one must hold; empty for every environment
    :param pins: name and version of every package, also of those that are not selected
    :param required: names of the packages that the project itself requires, if the lock says
    """

    entries: tuple[LockEntry, ...]
    source: str
    complete: bool = True
    elsewhere: tuple[NonIndexPackage, ...] = ()
    indexes: tuple[ProjectIndex, ...] = ()
    manifest_hash: str | None = None
    python: str | None = None
    requires_python: str | None = None
    warnings: tuple[ProjectWarning, ...] = ()
    unpinned: ProjectRequirement | None = None
    others: tuple[LockEntry, ...] = ()
    environments: tuple[str, ...] = ()
    pins: frozenset[tuple[str, str]] = frozenset()
    required: frozenset[str] = frozenset()

    def packages(self, markers: Mapping[str, str], *, dev: bool = True) -> dict[str, LockEntry]:
        """The packages that the lock installs in an environment, by name.

        :param dev: include packages that only development needs
        """
        held = [it for it in self.entries if (dev or not it.dev) and it.holds(markers)]
        return {it.name: it for it in reversed(held)}

    def warnings_that(self, effect: str) -> Iterator[ProjectWarning]:
        """The warnings, with the effect on packages from no index, as ``it is not compared``."""
        named = {it.origin: it.what for it in self.elsewhere}
        for warning in self.warnings:
            if (kind := KINDS_OF_REFERENCES.get(warning.code)) and warning.field in named:
                message = f"{value_text(named[warning.field])} is {kind}, so {effect}"
                yield replace(warning, message=message)
            else:
                yield warning

    def left_out(self, markers: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        """Names and versions that it does not install: these are :data:`OF_OTHERS`."""
        installed = {(it.name, it.version) for it in self.packages(markers).values()}
        elsewhere = {it.name for it in self.others}
        # A warning says which of several pins without a marker counts.
        unmarked = [(it.name, it.version) for it in self.entries if it.marker is None]
        repeated = {*unmarked} - {*dict(reversed(unmarked)).items()}
        left_out = self.pins - installed - repeated
        return frozenset(it for it in left_out if it[0] not in elsewhere)


def read_lock(
    name: str,
    files: Mapping[str, bytes],
    selection: LockSelection = DEFAULT_SELECTION,
    markers: Mapping[str, str] | None = None,
) -> ProjectLock:
    """Read one lock by itself.

    :param name: its key in ``files``, which decides the format: one that
        :mod:`common.formats.locks.readers` lists, or any other name for a requirements file
    :param files: the lock, the files that it includes, and those that :func:`lock_neighbours` names
    :param markers: variables of PEP 508 of the only environment that counts
    :raises InvalidFile: with file, field and remedy; also if the lock excludes the environment, or
        has none of the selected extras and groups
    """
    check_sizes(files)
    context = ParseContext()
    lock = lock_of(name, files, context, selection, markers)
    if markers is not None:
        _require_environment(lock, markers)
    return replace(lock, warnings=tuple(context.warnings))


def lock_neighbours(name: str, data: bytes, selection: LockSelection) -> list[str]:
    """Paths of the manifests that a lock needs, some of which may not exist.

    :param name: path of the lock; the result begins with its folder
    """
    folder = f"{posixpath.dirname(name)}/".lstrip("/")
    reader = reader_of(name)
    if reader is None or not reader.with_manifest:
        return []
    members = member_folders(data, selection.members) if reader.read is read_uv_lock else ()
    return [f"{folder}{PYPROJECT}", *(f"{folder}{it}/{PYPROJECT}" for it in members)]


def _require_environment(lock: ProjectLock, markers: Mapping[str, str]) -> None:
    """:raises InvalidFile: if the lock was not made for an environment"""
    hint = "choose another environment with `--python` and `--platform`"
    version = markers["python_full_version"]
    at, alternatives = f"{lock.source}:requires-python", (lock.requires_python or "").split("||")
    try:
        supported = any(SpecifierSet(it).contains(version, prereleases=True) for it in alternatives)
    except InvalidSpecifier:
        message = f"{value_text(lock.requires_python)} is not a version specifier"
        refuse(Reason.INVALID_REQUIREMENT, message, at, MAKE_AGAIN)
    if not supported:
        message = f"requires Python {lock.requires_python}, which excludes {version}"
        refuse(Reason.OUT_OF_RANGE, message, at, hint)
    for marker in lock.environments:
        if (fault := marker_fault(marker)) is not None:
            message = f"{value_text(marker)} is not a marker that can be evaluated: {fault}"
            refuse(Reason.INVALID_REQUIREMENT, message, f"{lock.source}:environments", MAKE_AGAIN)
    if lock.environments and not any(marker_holds(it, markers) for it in lock.environments):
        message = f"supports only environments with {first_few(lock.environments, 5)}"
        refuse(Reason.OUT_OF_RANGE, message, f"{lock.source}:environments", hint)


def require_pins(lock: ProjectLock) -> ProjectLock:
    """Return the lock unless it is a requirements file with a line that does not pin one version.

    :raises InvalidFile: at the first line that does not pin one version
    """
    if lock.unpinned is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(lock.unpinned.text)} does not pin a version, so this is not a lock",
            lock.unpinned.origin,
            "create a lock first, for example with `thoth advise --format requirements`",
        )
    return lock


def lock_of(
    name: str,
    files: Mapping[str, bytes],
    context: ParseContext,
    selection: LockSelection = DEFAULT_SELECTION,
    markers: Mapping[str, str] | None = None,
) -> ProjectLock:
    """Read a lock as part of a project."""
    before = len(context.elsewhere)
    with context.optional():
        lock = _lock_of(name, files, context, selection, markers)
    return replace(lock, elsewhere=tuple(context.elsewhere[before:]))


def _lock_of(
    name: str,
    files: Mapping[str, bytes],
    context: ParseContext,
    selection: LockSelection,
    markers: Mapping[str, str] | None,
) -> ProjectLock:
    if (reader := reader_of(name)) is not None:
        folder = f"{posixpath.dirname(name)}/".lstrip("/")
        manifests = {
            it.removeprefix(folder): table_of(it, data)
            for it, data in files.items()
            if reader.with_manifest and it.startswith(folder) and it.endswith(PYPROJECT)
        }
        content = _PARSERS[reader.syntax](name, files[name])
        request = LockRequest(selection, manifests, markers)
        lock = reader.read(LockTable(content, FieldPath(f"{name}:$")), request)
        installed = [it for it in lock.entries if markers is None or _may_hold(it, markers)]
        entries = [_checked(it, reader, context) for it in installed]
        for message in lock.uncovered:
            context.warn(WarningCode.LOCK_INCOMPLETE, message, f"{name}:$")
        context.leave_out_conda(lock.conda, f"{name}:$")
        kept = tuple(it for it in entries if it is not None)
        if others := [it.name for it in kept if it.marker == NEVER]:
            context.warn(
                WarningCode.LOCK_INCOMPLETE,
                f"{first_few(others, 5)}: only for extras or groups that are not installed by"
                " default",
                f"{name}:$",
            )
        addresses = dict.fromkeys(it.index for it in kept if it.index and "://" in it.index)
        return ProjectLock(
            kept,
            name,
            complete=None not in entries,
            indexes=tuple(_indexes(lock.sources, context))
            or tuple(ProjectIndex(it, it) for it in addresses),
            manifest_hash=lock.manifest_hash,
            python=lock.python,
            requires_python=lock.requires_python,
            others=tuple(
                replace(it, target=without_secrets(it.target))
                for it in installed
                if isinstance(it, LockEntry) and it.source is not None
            ),
            environments=lock.environments,
            pins=lock.pins,
            required=lock.required,
        )
    listed = read_requirements(name, files, context)
    first = {it.name: it.version for it in reversed(listed.pins) if it.marker is None}
    for pin in listed.pins:
        counts = first.get(pin.name)
        if pin.marker is None and not same_version(pin.version, counts):
            message = f"pins {pin.name}=={counts} and {pin.name}=={pin.version}: {counts} counts"
            context.warn(WarningCode.ASKED_TWICE, message, pin.origin)
    return ProjectLock(
        tuple(listed.pins),
        name,
        complete=listed.is_lock,
        indexes=(*listed.indexes, *listed.places),
        unpinned=next(
            (it for it in listed.requirements if exact_version(it.specifier) is None), None
        ),
        pins=frozenset((it.name, it.version) for it in listed.pins),
    )


def _may_hold(entry: LockEntry | InvalidDocument, markers: Mapping[str, str]) -> bool:
    """Whether an entry is installed; an invalid one counts, so that its fault is reported."""
    if isinstance(entry, InvalidDocument) or entry.marker is None:
        return True
    return marker_fault(entry.marker) is not None or entry.holds(markers)


def _indexes(sources: Sequence[FileTable], context: ParseContext) -> Iterator[ProjectIndex]:
    for number, source in enumerate(sources):
        if (url := source.text("url")) is not None:
            yield index_named(
                source.text("name") or f"source-{number + 1}", url, source.at, context,
                verify_ssl=source.flag("verify_ssl", True),
                default=number == 0, explicit=number > 0,
            )  # fmt: skip


def _checked(
    entry: LockEntry | InvalidDocument, reader: LockReader, context: ParseContext
) -> LockEntry | None:
    """The entry in normal form; ``None``, with a warning, if it pins no version of an index."""
    if isinstance(entry, InvalidDocument):
        raise entry
    at = entry.origin
    if entry.source is not None:
        target = f"{entry.name} ({entry.target})" if entry.target else entry.name
        context.leave_out(WarningCode(entry.source), target, at, local=entry.local)
        return None
    if entry.index is not None and "://" in entry.index:
        entry = replace(entry, index=public_url(entry.index, at, context))
    if not entry.version:
        context.leave_open(f"{entry.name}{entry.target}", at)
        return None
    context.count(at)
    for fault in faults_of(entry):
        refuse(fault.reason, fault.message, fault.at(entry, reader.keys), MAKE_AGAIN)
    return normalised(entry)
