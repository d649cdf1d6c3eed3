"""Requirements and constraints files of a project, with the files that they include."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from adviser.projects.foreign_files import refuse_foreign
from adviser.projects.indexes import index_named
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import (
    ParseContext,
    parse_marker,
    parse_project_requirement,
)
from common.formats import conda_environment
from common.formats.file_decoding import refuse, requirements_text_of, value_text
from common.formats.locks.entries import MAKE_AGAIN, LockEntry, hash_fault, normalised_hashes
from common.formats.requirements_files import (
    Line,
    exact_version,
    has_variable,
    is_remote,
    lines_of,
    local_path,
    reference_without_name,
    split_marker,
)
from model.errors import Reason

#: How locks begin that Thoth writes as requirements or constraints.
MADE_BY_THOTH = "# Made by thoth for "
#: Options about hashes, which need no warning.
_NO_EFFECT = frozenset({"--require-hashes", "--no-require-hashes"})
#: What to do instead of an option without effect.
_REMEDIES = {
    "--prefer-binary": "`--only-wheels` leaves out versions that must be built",
    "--no-binary": "wheels may be advised; `--exclude` leaves out versions that cannot be built",
}


@dataclass(slots=True)
class RequirementList:
    """Content of requirements files.

    :param pins: lock entries of the ``requirements`` that pin one version
    :param places: URLs of files outside of indexes (``--find-links``)
    :param wheels_of: packages that are never built (``--only-binary``), or ``:all:``
    :param builds_of: packages of ``--no-binary``, which are exceptions
    """

    requirements: list[ProjectRequirement] = field(default_factory=list)
    constraints: list[ProjectRequirement] = field(default_factory=list)
    pins: list[LockEntry] = field(default_factory=list)
    default: list[ProjectIndex] = field(default_factory=list)
    further: list[ProjectIndex] = field(default_factory=list)
    places: list[ProjectIndex] = field(default_factory=list)
    prereleases: set[str] = field(default_factory=set)
    all_prereleases: bool = False
    wheels_of: set[str] = field(default_factory=set)
    builds_of: set[str] = field(default_factory=set)

    @property
    def indexes(self) -> tuple[ProjectIndex, ...]:
        """The additional indexes, then the last default index, as in uv.

        pip takes the best version of all indexes. If the default index came first, a foreign
        package there could replace a private package of the same name.
        """
        return (*{it.url: it for it in self.further}.values(), *self.default[-1:])

    @property
    def is_lock(self) -> bool:
        """Whether every requirement pins one version."""
        return bool(self.pins) and len(self.pins) == len(self.requirements)


def read_requirements(
    name: str, files: Mapping[str, bytes], context: ParseContext, *, constraint: bool = False
) -> RequirementList:
    """Read a requirements file and all files that it includes with ``-r`` and ``-c``.

    A file that is included several times is read once.

    :param constraint: read it as constraints
    :raises InvalidFile: with file and line, also for include cycles and missing files
    """
    reader = _Reader(files, context)
    reader.read(name, constraint, ())
    return reader.listed


class _Reader:
    def __init__(self, files: Mapping[str, bytes], context: ParseContext) -> None:
        self._files, self._context = files, context
        self._done: set[tuple[str, bool]] = set()
        self.listed = RequirementList()

    def read(self, name: str, constraint: bool, path: tuple[str, ...]) -> None:
        """Read one file; ``path`` lists the files that include it."""
        if name in path:
            refuse(
                Reason.INCLUDE_CYCLE,
                f"files include each other: {' → '.join([*path[path.index(name) :], name])}",
                f"{path[-1]}:$",
                "remove one of these includes",
            )
        if (name, constraint) in self._done:
            return
        self._done.add((name, constraint))
        text = requirements_text_of(name, self._files[name])
        refuse_foreign(name)
        if conda_environment.is_environment(name):
            environment = conda_environment.read_environment(text, name)
            text = environment.pip
            self._context.leave_out_conda(environment.conda, f"{name}:dependencies")
        else:
            refuse_foreign(name, text)
        if constraint and text.startswith(MADE_BY_THOTH):
            code, effect = WarningCode.ALL_PINNED, "pins all of its packages"
            if not path:
                code, effect = WarningCode.FILE_IGNORED, "restricts this advice only with `-c`"
            self._context.warn(code, f"a lock of `thoth advise -o`: it {effect}", f"{name}:$")
            if not path:
                return
        for line in lines_of(text, name):
            at = f"{name}:{line.number}"
            if line.ignored:
                text = f"{value_text(line.ignored)} has no effect here, as in pip"
                self._context.warn(WarningCode.OPTION_IGNORED, text, at)
            if line.requirement:
                with self._context.optional(constraint):
                    self._read_requirement(line, constraint, at)
            else:
                self._options(line, constraint, at, (*path, name))

    def _read_requirement(self, line: Line, constraint: bool, at: str) -> None:
        elsewhere = reference_without_name(line.requirement)
        if elsewhere is not None:
            self._leave_out(WarningCode(elsewhere), line.requirement, at)
            return
        for option in ("--config-settings", "--global-option", "--install-option"):
            if line.values(option):
                self._ignored(option, at)
        requirement = parse_project_requirement(line.requirement, at, self._context)
        if requirement is None:
            return
        if constraint:
            self._constraint(requirement, at)
            return
        self.listed.requirements.append(requirement)
        hashes = line.values("--hash")
        if (fault := hash_fault(hashes)) is not None:
            refuse(Reason.OUT_OF_RANGE, fault, at, MAKE_AGAIN)
        if (version := exact_version(requirement.specifier)) is not None:
            self.listed.pins.append(
                LockEntry(
                    requirement.name, version, normalised_hashes(hashes), requirement.marker,
                    extras=requirement.extras, origin=at,
                )
            )  # fmt: skip
        elif hashes:
            self._context.warn(
                WarningCode.OPTION_IGNORED,
                "--hash has no effect on advice unless the requirement pins one version",
                at,
            )

    def _leave_out(self, code: WarningCode, reference: str, at: str) -> None:
        text = split_marker(reference)[1]
        marker = None if text is None else parse_marker(text, at)
        path = local_path(reference)
        self._context.leave_out(code, reference, at, path=path, marker=marker)

    def _constraint(self, constraint: ProjectRequirement, at: str) -> None:
        if constraint.extras:
            refuse(
                Reason.INVALID_REQUIREMENT,
                f"a constraint with extras: {value_text(constraint.text)}",
                at,
                "constraints install nothing: list extras in the requirements",
            )
        self.listed.constraints.append(constraint)

    def _options(self, line: Line, constraint: bool, at: str, path: tuple[str, ...]) -> None:
        for option, value in line.options:
            if option in ("--requirement", "--constraint"):
                # Files that a constraints file includes by -r are requirements, as in pip.
                name = included(value, path[-1], at)
                if name not in self._files:
                    message = (
                        f"{option} names {value_text(name)}, which is not among the project's files"
                    )
                    hint = "add the file, or remove the line"
                    refuse(Reason.INCLUDE_MISSING, message, at, hint)
                self.read(name, option == "--constraint", path)
            elif option == "--editable":
                self._leave_out(WarningCode.EDITABLE, value, at)
            else:
                self._option(option, value, at)

    def _option(self, option: str, value: str, at: str) -> None:
        listed = self.listed
        if option == "--index-url":
            listed.default.append(index_named("index-url", value, at, self._context, default=True))
        elif option == "--extra-index-url":
            number = len(listed.further) + 1
            listed.further.append(index_named(f"extra-{number}", value, at, self._context))
        elif option == "--trusted-host":
            self._context.warn_of_host(value, at)
        elif option == "--find-links":
            self._ignored(option, at)
            if is_remote(value):
                number = len(listed.places) + 1
                listed.places.append(index_named(f"find-links-{number}", value, at, self._context))
        elif option == "--pre":
            listed.all_prereleases = True
        elif option == "--all-releases":
            names = {it.strip() for it in value.split(",")}
            listed.all_prereleases |= ":all:" in names
            listed.prereleases |= {canonicalize_name(it) for it in names - {":all:", ":none:"}}
        elif option == "--only-binary":
            _name_formats(value, listed.wheels_of, listed.builds_of)
        elif option not in _NO_EFFECT:
            if option == "--no-binary":
                _name_formats(value, listed.builds_of, listed.wheels_of)
            self._ignored(option, at)

    def _ignored(self, option: str, at: str) -> None:
        remedy = f": {_REMEDIES[option]}" if option in _REMEDIES else ""
        text = f"{option} has no effect on advice{remedy}"
        self._context.warn(WarningCode.OPTION_IGNORED, text, at)


def _name_formats(value: str, names: set[str], others: set[str]) -> None:
    """Add the packages of ``--only-binary`` or ``--no-binary``; the last option counts, as in pip.

    :param others: the packages of the other option
    """
    for name in map(str.strip, value.split(",")):
        if name == ":none:":
            names.clear()
        elif name == ":all:":
            names.clear()
            others.clear()
            names.add(name)
        else:
            names.add(canonicalize_name(name))
            others.discard(canonicalize_name(name))


def included(value: str, includer: str, at: str) -> str:
    """The name of an included file, relative to the folder of the project.

    :raises InvalidFile: if it lies outside that folder, or is a URL

    >>> included("../base.txt", "requirements/dev.txt", "")
    'base.txt'
    """
    name = posixpath.normpath(posixpath.join(posixpath.dirname(includer), value))
    outside = name.startswith(("../", "/")) or name == ".." or "\\" in value
    if outside or "://" in value or has_variable(value):
        refuse(
            Reason.INCLUDE_MISSING,
            f"includes {value_text(value)}, which is not a file of the project",
            at,
            "only files inside the project's folder are read: copy it there",
        )
    return name
