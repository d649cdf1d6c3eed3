"""One requirement of a manifest, whatever kind of file it stands in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from packaging.markers import UndefinedComparison

from adviser.projects.documents import MAX_REQUIREMENTS
from adviser.projects.project import (
    NonIndexPackage,
    ProjectRequirement,
    ProjectWarning,
    WarningCode,
)
from common.formats.file_fields import refuse, shown
from common.formats.locks import marker_holds
from common.formats.requirements_files import has_variable, is_remote, kind_of_reference
from common.reasons import Reason
from common.redaction import holds_user, without_secrets
from common.releases import Requirement, parse_requirement

_HASH = re.compile(r"[a-z0-9_]{2,16}:[0-9a-f]{2,128}\Z")
_WHAT = {
    WarningCode.EDITABLE: "an editable install",
    WarningCode.LOCAL_PATH: "a path",
    WarningCode.REPOSITORY: "a repository",
    WarningCode.ADDRESS: "an address",
}
#: What markers are asked with to see that they can be asked at all.
_ANYWHERE = {
    "implementation_name": "cpython", "implementation_version": "3.11.0", "os_name": "posix",
    "platform_machine": "x86_64", "platform_python_implementation": "CPython",
    "platform_release": "6.1", "platform_system": "Linux", "platform_version": "#1",
    "python_full_version": "3.11.0", "python_version": "3.11", "sys_platform": "linux",
}  # fmt: skip


@dataclass(slots=True)
class ParseContext:
    """What readers of a project's files add up: warnings, and how much was read.

    :param elsewhere: what comes from no index, each time that something asks for it
    """

    warnings: list[ProjectWarning] = field(default_factory=list)
    elsewhere: list[NonIndexPackage] = field(default_factory=list)
    _seen: set[tuple[WarningCode, str]] = field(default_factory=set)
    _count: int = 0

    def warn(self, code: WarningCode, message: str, at: str) -> None:
        """Tell it once a place; secrets of addresses that it quotes are taken out."""
        self._tell(code, without_secrets(message), at)

    def _tell(self, code: WarningCode, public: str, at: str) -> None:
        if (code, at) not in self._seen:
            self._seen.add((code, at))
            self.warnings.append(ProjectWarning(code, public, at))

    def leave_out(
        self, code: WarningCode, what: str, at: str, *, local: bool | None = None
    ) -> None:
        """Tell of a requirement that no index could meet.

        :param local: whether it is a file or a folder beside the project, if ``what`` cannot say
        """
        public = without_secrets(what)
        beside = _is_local(code, what) if local is None else local
        self.elsewhere.append(NonIndexPackage(public[:200], code, beside, at))
        # What is public already: cleaning it anew would take the quote for part of the address.
        self._tell(
            code,
            f"{shown(public)} is {_WHAT[code]}: it stays as it is and is not "
            "advised on, nor is what it needs",
            at,
        )
        if holds_user(what) and public != what:
            self.warn_of_credentials(public, at)

    def warn_of_credentials(self, public: str, at: str) -> None:
        """Tell that an address held what is for nobody else.

        :param public: the address without it
        """
        self._tell(
            WarningCode.CREDENTIALS_REMOVED,
            f"credentials in the address of {shown(public)} were taken out: keep them in variables "
            "or a keyring",
            at,
        )

    def warn_of_host(self, host: str, at: str) -> None:
        """Tell of a host whose certificate is not verified."""
        self.warn(
            WarningCode.UNVERIFIED_HOST,
            f"the certificate of {shown(without_secrets(host))} is not verified: who is between "
            "may replace what is downloaded",
            at,
        )

    def leave_open(self, what: str, at: str) -> None:
        """Tell of an entry of a lock that names no single version."""
        self.elsewhere.append(NonIndexPackage(what[:200], WarningCode.LOCK_INCOMPLETE, False, at))
        self.warn(WarningCode.LOCK_INCOMPLETE, f"{shown(what)} pins no version", at)

    def count(self, at: str) -> None:
        """Bound how many requirements a project has."""
        self._count += 1
        if self._count > MAX_REQUIREMENTS:
            refuse(
                Reason.OUT_OF_RANGE,
                f"more than {MAX_REQUIREMENTS} requirements",
                at,
                "no real project has so many; check what is included",
            )


def parse_asked(text: str, at: str, context: ParseContext) -> ProjectRequirement | None:
    """A requirement by PEP 508, or ``None`` for one that leads to no index, with a warning.

    :raises InvalidFile: if it is neither
    """
    context.count(at)
    parsed = parse_requirement(text.strip())
    if parsed.name is None:
        _refuse(parsed, at)
    if parsed.url is not None:
        context.leave_out(WarningCode(kind_of_reference(parsed.url)), parsed.raw, at)
        return None
    check_marker(parsed.marker, at)
    return ProjectRequirement(
        parsed.name, parsed.specifier, parsed.extras, parsed.marker, origin=at
    )


def check_marker(marker: str | None, at: str) -> None:
    """Refuse a marker that can be written and not be asked, such as ``os_name ~= "nt"``."""
    told = None if marker is None else _wrong_with(marker)
    if told is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"the marker {shown(marker)} cannot be asked of an environment: {told}",
            at,
            "see PEP 508 for what markers compare",
        )


@lru_cache(maxsize=16_384)
def _wrong_with(marker: str) -> str | None:
    """Asked once of each: a file may be read as a manifest and as a lock."""
    try:
        marker_holds(marker, _ANYWHERE)
    except (UndefinedComparison, KeyError, ValueError, RecursionError) as error:
        return (str(error) or type(error).__name__).splitlines()[0][:200]
    return None


def checked_hashes(hashes: Sequence[str], at: str) -> tuple[str, ...]:
    """``algorithm:digits``, sorted, none twice.

    :raises InvalidFile: at one that is no hash
    """
    # Who reads them out of a requirements file may keep the space before the end of the line.
    hashes = [it.strip() for it in hashes]
    for value in hashes:
        if not _HASH.match(value):
            refuse(
                Reason.OUT_OF_RANGE,
                f"{shown(value)} is not a hash",
                at,
                "write it as `sha256:` and 64 hexadecimal digits",
            )
    return tuple(sorted(set(hashes)))


def _is_local(code: WarningCode, what: str) -> bool:
    if code is not WarningCode.EDITABLE:
        return code is WarningCode.LOCAL_PATH
    return not is_remote(what.rpartition(" @ ")[2].strip())


def _refuse(parsed: Requirement, at: str) -> NoReturn:
    hint = "write it as PEP 508 says, such as `flask[async]>=3,<4; python_version < '3.13'`"
    if has_variable(parsed.raw):
        hint = "variables are not expanded here: write what is meant"
    refuse(
        Reason.INVALID_REQUIREMENT,
        f"{shown(parsed.raw)} is not a requirement: {(parsed.problem or '')[:200]}",
        at,
        hint,
    )
