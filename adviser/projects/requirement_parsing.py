"""Parse single requirements, for all formats of manifests and locks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from adviser.projects.project import (
    KINDS_OF_REFERENCES,
    MissingPath,
    NonIndexPackage,
    ProjectRequirement,
    ProjectWarning,
    WarningCode,
)
from common.formats.file_decoding import MAX_REQUIREMENTS, FileTable, refuse, value_text
from common.formats.locks.entries import marker_fault
from common.formats.requirements_files import (
    has_variable,
    is_remote,
    kind_of_reference,
    local_path,
    without_name,
)
from model.errors import Reason
from model.packages.releases import parse_requirement
from model.redaction import holds_user, without_secrets
from model.text import counted, first_few

_MARKER_HINT = "see PEP 508 for the operators of markers"

#: Whether a path exists, for the name of the project's file that has it.
PathExists = Callable[[str, str], bool]


@dataclass(slots=True)
class ParseContext:
    """State of reading a project's files: warnings and number of requirements.

    :param elsewhere: every requirement that does not come from an index
    :param path_exists: whether a path in a file of the project exists; ``None`` if unknown
    :param missing_paths: paths in requirements for which it is false
    """

    path_exists: PathExists | None = None
    warnings: list[ProjectWarning] = field(default_factory=list)
    elsewhere: list[NonIndexPackage] = field(default_factory=list)
    missing_paths: list[MissingPath] = field(default_factory=list)
    _optional: bool = False
    _seen: set[ProjectWarning] = field(default_factory=set)
    _count: int = 0

    @contextmanager
    def optional(self, optional: bool = True) -> Iterator[None]:
        """Within the block, requirements count as not needed by every installation."""
        before, self._optional = self._optional, optional or self._optional
        try:
            yield
        finally:
            self._optional = before

    def warn(self, code: WarningCode, message: str, at: str) -> None:
        """Add a warning, once for each place; secrets in URLs are removed."""
        self._add(code, without_secrets(message), at)

    def _add(self, code: WarningCode, public: str, at: str) -> None:
        warning = ProjectWarning(code, public, at)
        if warning not in self._seen:
            self._seen.add(warning)
            self.warnings.append(warning)

    def leave_out(
        self,
        code: WarningCode,
        what: str,
        at: str,
        *,
        local: bool | None = None,
        path: str | None = None,
        marker: str | None = None,
    ) -> None:
        """Record a requirement that does not come from an index, with a warning.

        :param local: whether it is a file or a folder beside the project; derived from ``what`` if
            unset
        :param path: of that file or folder, if known
        :param marker: when the requirement applies; ``None`` for always
        """
        public = without_secrets(what)
        if path and self.path_exists and not self.path_exists(path, at.partition(":")[0]):
            self.missing_paths.append(MissingPath(public, path, marker, self._optional, at))
        beside = _is_local(code, what) if local is None else local
        self.elsewhere.append(NonIndexPackage(public[:200], code, beside, at))
        # The text is already public; a second pass would treat the quote as part of the URL.
        self._add(
            code,
            f"{value_text(public)} is {KINDS_OF_REFERENCES[code]}: it is left as it is, and "
            "neither it nor its dependencies are part of the advice",
            at,
        )
        if holds_user(what) and public != what:
            self.warn_of_credentials(public, at)

    def warn_of_credentials(self, public: str, at: str) -> None:
        """Warn about credentials in a URL.

        :param public: the URL without them
        """
        self._add(
            WarningCode.CREDENTIALS_REMOVED,
            f"credentials in the URL {value_text(public)} were removed: keep them in variables "
            "or a keyring",
            at,
        )

    def warn_of_host(self, host: str, at: str) -> None:
        """Warn about a host whose certificate is not verified."""
        self.warn(
            WarningCode.UNVERIFIED_HOST,
            f"the certificate of {value_text(without_secrets(host))} is not verified: downloads "
            "may be replaced in transit",
            at,
        )

    def leave_open(self, what: str, at: str) -> None:
        """Record an entry of a lock that pins no single version, with a warning."""
        self.elsewhere.append(NonIndexPackage(what[:200], WarningCode.LOCK_INCOMPLETE, False, at))
        self.warn(WarningCode.LOCK_INCOMPLETE, f"{value_text(what)} pins no version", at)

    def leave_out_conda(self, names: Sequence[str], at: str) -> None:
        """Record packages of conda, with one warning."""
        self.elsewhere += [NonIndexPackage(it[:200], WarningCode.CONDA, False, at) for it in names]
        if names:
            number = counted(len(names), "conda package")
            which = "which is" if len(names) == 1 else "which are"
            message = f"lists {number}, {which} not covered: {first_few(names, 2)}"
            self.warn(WarningCode.CONDA, message, at)

    def count(self, at: str) -> None:
        """Count a requirement.

        :raises InvalidFile: if the project has too many
        """
        self._count += 1
        if self._count > MAX_REQUIREMENTS:
            refuse(
                Reason.OUT_OF_RANGE,
                f"more than {MAX_REQUIREMENTS} requirements",
                at,
                "check the included files: real projects have fewer",
            )


def parse_project_requirement(
    text: str, at: str, context: ParseContext
) -> ProjectRequirement | None:
    """Parse a requirement of PEP 508; for a direct reference, warn and return ``None``.

    :raises InvalidFile: if it is invalid
    """
    context.count(at)
    parsed = parse_requirement(text.strip())
    if parsed.name is None:
        hint = "use the form of PEP 508, such as `flask[async]>=3,<4; python_version < '3.13'`"
        if has_variable(parsed.raw):
            hint = "variables are not expanded: write the value"
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(parsed.raw)} is not a requirement: {(parsed.problem or '')[:200]}",
            at,
            hint,
        )
    if parsed.problem is not None:
        context.warn(WarningCode.OLD_SPECIFIER, parsed.problem, at)
    check_marker(parsed.marker, at)
    if parsed.url is not None:
        code = WarningCode(kind_of_reference(parsed.url))
        path = local_path(parsed.url)
        context.leave_out(code, parsed.raw, at, path=path, marker=parsed.marker)
        return None
    return ProjectRequirement(
        parsed.name, parsed.specifier, parsed.extras, parsed.marker, origin=at
    )


def parse_requirement_list(
    table: FileTable, key: str, context: ParseContext
) -> tuple[ProjectRequirement, ...]:
    """Parse the requirements in a list of a table; direct references are left out.

    :raises InvalidFile: at an invalid requirement
    """
    parsed = (
        parse_project_requirement(text, table.at / key / number, context)
        for number, text in enumerate(table.texts(key))
    )
    return tuple(it for it in parsed if it is not None)


def parse_marker(text: str, at: str) -> str | None:
    """The canonical text of a marker.

    :raises InvalidFile: if it is invalid
    """
    parsed = parse_requirement(f"name ; {text}")
    if parsed.name is None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(text)} is not a marker: {(parsed.problem or '')[:200]}",
            at,
            _MARKER_HINT,
        )
    check_marker(parsed.marker, at)
    return parsed.marker


def check_marker(marker: str | None, at: str) -> None:
    """Refuse a marker that can be parsed but not evaluated, such as ``os_name ~= "nt"``."""
    fault = None if marker is None else marker_fault(marker)
    if fault is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"the marker {value_text(marker)} cannot be evaluated: {fault}",
            at,
            _MARKER_HINT,
        )


def _is_local(code: WarningCode, what: str) -> bool:
    if code is not WarningCode.EDITABLE:
        return code is WarningCode.LOCAL_PATH
    return not is_remote(without_name(what))
