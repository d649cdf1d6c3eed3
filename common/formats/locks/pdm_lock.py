"""``pdm.lock`` of PDM.

With the strategy ``inherit_metadata``, each package names the groups that need it and the marker of
that need. Without it, the lock is followed from the ``pyproject.toml`` beside it. For PDM, extras
are groups, too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from common.formats.file_decoding import FileTable, refuse, value_text
from common.formats.locks.entries import (
    MAKE_AGAIN,
    NO_MANIFEST,
    Edge,
    LockContent,
    LockEntry,
    LockGraph,
    LockRequest,
    LockTable,
    Node,
    git_target,
    locked_file,
    pins_of,
    readable,
    require_known,
)
from common.formats.poetry_constraints import allows, python_marker
from common.formats.requirements_files import SourceKind
from model.errors import Reason
from model.packages.identity import version_of
from model.packages.releases import parse_requirement
from model.text import first_few

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"name": "name", "version": "version", "marker": "marker"}
_MAJOR = 4
#: The group of the dependencies of the project itself.
_DEFAULT = "default"
#: ``sys_platform`` by the start of the platform of a target, and machines by their names there.
_SYSTEMS = {"linux": "linux", "manylinux": "linux", "musllinux": "linux", "macos": "darwin",
            "windows": "win32"}  # fmt: skip
_WINDOWS_MACHINES = {"amd64": "AMD64", "arm64": "ARM64"}


def read_pdm_lock(lock: LockTable, request: LockRequest) -> LockContent:
    """Read the packages that a lock installs for its project and the selected extras and groups.

    Like ``pdm export --prod``, a lock has no default groups for development. Without an
    environment, the entries of all groups of the lock are read, too, as ``dev``.

    :raises InvalidFile: if anything except a package has the wrong type, the version of the format
        is unknown, or the lock lacks a selected name
    """
    metadata = lock.nested("metadata")
    form = metadata.text("lock_version") or ""
    if (parsed := version_of(form)) is None or parsed.major != _MAJOR:
        message = f"version {value_text(form)} of pdm.lock is not known, only 4"
        refuse(Reason.UNKNOWN_SCHEMA, message, metadata.at / "lock_version", MAKE_AGAIN)
    selection = request.selection
    groups = frozenset(map(canonicalize_name, metadata.texts("groups"))) | {_DEFAULT}
    lines = {} if request.manifest is None else _lines_of(request.manifest)
    for kind, chosen in (("extra", selection.extras), ("group", selection.groups)):
        require_known(kind, chosen, groups | lines.keys(), metadata.at / "groups")
    project = (request.manifest or FileTable({}, lock.at)).nested("project")
    needed = {_DEFAULT} | selection.extras | selection.groups
    optional = {*map(canonicalize_name, project.nested("optional-dependencies"))}
    wanted = set() if request.markers else groups - optional - needed
    packages = list(lock.each("package"))
    graph, uncovered = None, []
    if missing := sorted((selection.extras | selection.groups) - groups):
        uncovered.append(f"was made without {first_few(missing, 5)}, which therefore adds nothing")
    if "inherit_metadata" not in metadata.texts("strategy"):
        graph = _Graph(lock, packages, lines, request)
        if request.manifest is None:
            uncovered.append(f"{NO_MANIFEST}: every package counts")
    installed: list[tuple[LockTable, str | None, bool]] = []
    for names, dev in ((needed, False), (wanted, True)):
        if graph is not None:
            installed += [(packages[it], marker, dev) for it, marker in graph.installed(names)]
            continue
        for package in packages:
            if not names.isdisjoint(map(canonicalize_name, package.texts("groups"))):
                installed.append((package, package.text("marker"), dev))
    files = metadata.nested("files")
    return LockContent(
        tuple(readable(_entry, ((package, files, *rest) for package, *rest in installed))),
        requires_python=project.text("requires-python"),
        environments=tuple(filter(None, map(_environment, metadata.each("targets")))),
        uncovered=tuple(uncovered),
        pins=pins_of(packages),
    )


def _environment(target: LockTable) -> str:
    """The marker of a target of the lock."""
    python = python_marker(target.text("requires_python") or "*", target.at / "requires_python")
    parts = [python] if python else []
    system, _, machine = (target.text("platform") or "").partition("_")
    if system in _SYSTEMS:
        parts.append(f"sys_platform == '{_SYSTEMS[system]}'")
        # manylinux_2_17_x86_64 has a version before the machine.
        while machine and machine.partition("_")[0].isdecimal():
            machine = machine.partition("_")[2]
        if machine:
            machine = _WINDOWS_MACHINES.get(machine, machine) if system == "windows" else machine
            parts.append(f"platform_machine == '{machine}'")
    if implementation := target.text("implementation"):
        parts.append(f"implementation_name == '{implementation.lower()}'")
    return " and ".join(parts)


class _Graph(LockGraph):
    """The packages of a lock. Entries of a package with extras are apart from its own."""

    def __init__(
        self,
        lock: LockTable,
        packages: Sequence[LockTable],
        lines: Mapping[str, list[str]],
        request: LockRequest,
    ) -> None:
        super().__init__(lock, packages, request)
        self._manifest, self._lines = request.manifest, lines

    def _starts(self, groups: Collection[str]) -> Iterator[Edge]:
        if self._manifest is None and _DEFAULT in groups:
            yield from (((it, ""), None) for it in range(len(self._packages)))
        for group in sorted(groups, key=lambda it: it != _DEFAULT):
            for line in self._lines.get(group, ()):
                yield from self._targets(line, frozenset({group}))

    def _edges(self, node: Node) -> Iterator[Edge]:
        for line in self._packages[node[0]].texts("dependencies"):
            yield from self._targets(line)

    def _targets(self, line: str, within: frozenset[str] = frozenset()) -> Iterator[Edge]:
        """The entries that a requirement leads to.

        :param within: groups of the project that lead here, each of which may name others
        """
        parsed = parse_requirement(line)
        if parsed.name is None:
            return
        project = self._manifest and self._manifest.nested("project").text("name")
        if within and project and parsed.name == canonicalize_name(project):
            for extra in map(canonicalize_name, parsed.extras or ()):
                for inner in self._lines.get(extra, ()) if extra not in within else ():
                    for node, marker in self._targets(inner, within | {extra}):
                        both = [f"({it})" for it in (parsed.marker, marker) if it]
                        yield node, " and ".join(both) or None
            return
        extras = frozenset(map(canonicalize_name, parsed.extras or ()))
        specifier = SpecifierSet("" if parsed.url else parsed.specifier or "")
        compatible = [
            it for it in self._named.get(parsed.name, ())
            if specifier.contains(self._version(it), prereleases=True) and self._runs_here(it)
        ]  # fmt: skip
        versions = [self._version(it) for it in compatible[:1]]
        for place in compatible:
            own = frozenset(map(canonicalize_name, self._packages[place].texts("extras")))
            if self._version(place) in versions and own <= extras:
                yield (place, ""), parsed.marker

    def _runs_here(self, place: int) -> bool:
        package = self._packages[place]
        constraint = package.text("requires_python")
        if self._markers is None or constraint is None:
            return True
        python = Version(self._markers["python_full_version"])
        return allows(constraint, python, package.at / "requires_python")


def _lines_of(manifest: FileTable) -> dict[str, list[str]]:
    """Requirements of a project by group; ``default`` has the project's own requirements."""
    project, groups = manifest.nested("project"), manifest.nested("dependency-groups")
    lines = {_DEFAULT: project.texts("dependencies")}
    settings = manifest.nested("tool").nested("pdm").nested("dev-dependencies")
    for table in (project.nested("optional-dependencies"), settings):
        for key in table:
            lines.setdefault(canonicalize_name(key), []).extend(table.texts(key))
    named: dict[str, str] = {canonicalize_name(key): key for key in groups}

    def members(group: str, path: frozenset[str]) -> Iterator[str]:
        for member in groups.sequence(named[group]):
            if isinstance(member, str):
                yield member
            elif isinstance(member, dict):
                inner = canonicalize_name(str(member.get("include-group")))
                if inner in named and inner not in path:
                    yield from members(inner, path | {inner})

    for group in named:
        lines.setdefault(group, []).extend(dict.fromkeys(members(group, frozenset({group}))))
    return lines


def _entry(package: LockTable, table: LockTable, marker: str | None, dev: bool) -> LockEntry:
    name, version = package.required_text("name"), package.text("version") or ""
    parsed = map(parse_requirement, package.texts("dependencies"))
    own = canonicalize_name(name)
    entry = LockEntry(
        name,
        version,
        marker=marker,
        dev=dev,
        extras=tuple(package.texts("extras")),
        dependencies=tuple(sorted({it.name for it in parsed if it.name and it.name != own})),
        origin=package.at,
    )
    path = package.text("path")
    if (git := package.text("git")) is not None:
        revision = package.text("revision") or package.text("ref") or ""
        target = git_target(git, revision, package.text("subdirectory"))
        return replace(entry, version="", source=SourceKind.REPOSITORY, target=target)
    if path is not None:
        kind = SourceKind.EDITABLE if package.flag("editable") else SourceKind.LOCAL_PATH
        return replace(entry, version="", source=kind, target=path, local=True)
    if (url := package.text("url")) is not None:
        return replace(entry, version="", source=SourceKind.ADDRESS, target=url)
    files = [*package.each("files")] or [*table.each(f"{name} {version}")]
    hashes = tuple(sorted(filter(None, {it.text("hash") for it in files})))
    return replace(entry, hashes=hashes, files=tuple(map(locked_file, files)))
