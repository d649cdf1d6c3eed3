"""Candidates of the resolver, their requirements, and versions that are excluded with a reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TypeVar

from model.errors import IndexFault, IndexProblem
from model.packages.identity import Purl, version_of


class ExclusionReason(StrEnum):
    """Why a version cannot be installed in an environment; values are stored, never renamed.

    Includes the reasons of :class:`model.packages.wheels.Fit`, with equal values.
    """

    #: Named by a stack or a lock, but its metadata was never read.
    UNREAD = "unread"
    #: Its metadata could not be read from its index, which may pass.
    UNAVAILABLE = "unavailable"
    #: Its requirements are known only after a build.
    UNSOLVABLE = "unsolvable"
    #: Its version or metadata violates the standards.
    UNPARSABLE = "unparsable"
    #: Its ``Requires-Python`` excludes this interpreter.
    REQUIRES_PYTHON = "requires_python"
    #: It requires a package by URL; nothing is known about the package there.
    DIRECT_REFERENCE = "direct_reference"
    #: The marker of a requirement compares values that have no order.
    UNDEFINED_MARKER = "undefined_marker"
    #: Its name or local version names a CUDA release that is newer than the driver supports.
    CUDA_TOO_OLD = "cuda_too_old"
    LIBC_TOO_OLD = "libc_too_old"
    PLATFORM_TAG = "platform_tag"
    ABI_TAG = "abi_tag"
    PYTHON_TAG = "python_tag"
    SDIST_ONLY = "sdist_only"
    #: It would have to be built, and is older than this Python and not pure Python.
    SDIST_TOO_OLD = "sdist_too_old"
    NO_FILES = "no_files"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A requirement of a candidate or of the request, in the environment of the snapshot.

    :param name: normalised name of the required package
    :param specifier: canonical PEP 440 specifier, empty for any version
    :param extras: requested extras of the required package, sorted
    :param extra: the extra of the requiring package that adds this requirement; ``None`` if it
        always applies
    :param url: of a direct reference, which no candidate satisfies; ``extra`` is set then, because
        a version that always needs a direct reference is not a candidate
    :param reason: why the requirement was inferred, or how it was read if its line is not valid;
        empty if the package declares it
    """

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()
    extra: str | None = None
    url: str | None = None
    reason: str = ""

    @property
    def order(self) -> tuple[str, str, str, tuple[str, ...], str]:
        """Sort key: unconditional requirements first, then by extra, name, specifier, extras."""
        others = self.url or self.reason
        return self.extra or "", self.name, self.specifier, self.extras, others


@dataclass(frozen=True, slots=True)
class KnownVulnerability:
    """A vulnerability that affects a version.

    :param severity: ``none``, ``low``, ``medium``, ``high`` or ``critical``; ``None`` if unknown
    :param score: of CVSS, 0 to 10
    """

    id: str
    severity: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version on one index that can be installed in the environment of the snapshot.

    :param requires: requirements whose marker is true, unique, in :attr:`Dependency.order`;
        requirements of extras only if the closure requests the extra
    :param wheel_rank: position of its best wheel in ``Environment.tags``, 0 is best; ``None`` if
        no known wheel fits and not all files are known
    :param sdist_only: whether no wheel fits, so that its source distribution has to be built
    :param wheel_mismatch: why none of its wheels fits; ``None`` if one fits, if it has none, or if
        one proves that it is pure Python
    :param compiled: whether its build compiles code, judged by its wheels or, if it has none, by
        the wheels of other versions
    :param requirements_likely: whether a build of its source distribution may change its
        requirements (:data:`model.packages.releases.SDIST_LIKELY`)
    :param requirements_built: whether its requirements come from a build in this environment
        (:data:`model.packages.releases.SDIST_BUILT`)
    :param extras: all extras that it defines, sorted
    :param vulnerabilities: sorted by identifier
    :param read: whether its metadata was read; otherwise its index only lists it, ``requires`` and
        ``extras`` are unknown and empty, and it takes part as if it required nothing
    """

    purl: Purl
    name: str
    version: str
    index: str
    requires: tuple[Dependency, ...] = ()
    requires_python: str | None = None
    extras: tuple[str, ...] = ()
    wheel_rank: int | None = None
    prerelease: bool = False
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    vulnerabilities: tuple[KnownVulnerability, ...] = ()
    sdist_only: bool = False
    wheel_mismatch: ExclusionReason | None = None
    compiled: bool = False
    requirements_likely: bool = False
    requirements_built: bool = False
    read: bool = True

    def requirements(self, extras: Iterable[str] = ()) -> tuple[Dependency, ...]:
        """The requirements with the given extras, and with the extras that these request.

        A requirement on the package itself (``name[all]`` requires ``name[a,b]``) requests further
        extras. Such a requirement is part of the result only if it restricts the version.

        >>> a = Dependency("other", extra="a")
        >>> both = Dependency("demo", extras=("a",), extra="all")
        >>> demo = Candidate(Purl("pkg:pypi/demo@1"), "demo", "1", "pypi", (a, both))
        >>> [dependency.name for dependency in demo.requirements(["all"])]
        ['other']
        """
        active, pending = set[str](), set(extras)
        while pending:
            active |= pending
            nested = (it for it in self.requires if it.name == self.name and it.extra in active)
            pending = {extra for it in nested for extra in it.extras} - active
        return tuple(
            it
            for it in self.requires
            if (it.extra is None or it.extra in active)
            and (it.name != self.name or it.specifier or it.url)
        )


@dataclass(frozen=True, slots=True)
class Excluded:
    """A version that cannot be installed in the environment.

    :param message: the reason in words, such as ``needs glibc 2.34, this environment has 2.28``
    :param last_resort: the candidate that it becomes if nothing else meets a request
        (:meth:`model.packages.snapshot.Snapshot.with_old_sdists`); documents omit it
    """

    purl: Purl
    version: str
    index: str
    reason: ExclusionReason
    message: str
    last_resort: Candidate | None = field(default=None, compare=False)


class AbsenceReason(StrEnum):
    """Why nothing is known about a required package; values are stored, never renamed."""

    #: Every index of the request answered that it does not have the package.
    NOT_FOUND = "not_found"
    #: An index did not give the page of the package, so the package may exist.
    UNAVAILABLE = "unavailable"
    #: The index that the package comes from is not configured on this machine.
    NOT_CONFIGURED = "not_configured"


@dataclass(frozen=True, slots=True)
class Absence:
    """The answer of a request's indexes about a package without versions.

    :param message: about the package as ``it``, such as ``pypi does not have it``
    """

    reason: AbsenceReason
    message: str


class IndexesSilent(IndexProblem):
    """No index returned a page for any package that the request itself requires.

    :ivar absences: by package
    """

    def __init__(self, absences: Mapping[str, Absence]) -> None:
        message = "; ".join(f"{name}: {it.message}" for name, it in absences.items())
        super().__init__(IndexFault.UNREACHABLE, message, retryable=True)
        self.absences = absences


CandidateOrExcluded = TypeVar("CandidateOrExcluded", Candidate, Excluded, Candidate | Excluded)


def newest_first(versions: list[CandidateOrExcluded]) -> list[CandidateOrExcluded]:
    """Sort by version, newest first and invalid versions last; then by index."""
    known = [(version_of(it.version), it) for it in versions]
    valid = [(version, it) for version, it in known if version is not None]
    # Pages are mostly in order, so this takes one comparison for each version.
    valid.sort(key=itemgetter(0), reverse=True)
    if any(one[0] == other[0] for one, other in pairwise(valid)):
        valid.sort(key=lambda it: _index_order(it[1]))
        valid.sort(key=itemgetter(0), reverse=True)
    invalid = sorted([it for version, it in known if version is None], key=_index_order)
    return [it for _, it in valid] + sorted(invalid, key=attrgetter("version"), reverse=True)


def _index_order(version: Candidate | Excluded) -> tuple[str, str, str]:
    return version.index, version.version, version.purl
