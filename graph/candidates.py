"""What a resolver chooses among: candidates, what they require, and why others are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from packaging.version import Version

from common.packages import Purl, version_of


class ExclusionReason(StrEnum):
    """Why a version is no candidate in an environment; the value is stored, never renamed.

    The reasons of :class:`common.wheels.Fit` are among them, by the same values.
    """

    #: Known by name only: a stack or a lock names it, and nobody has read its metadata.
    UNREAD = "unread"
    #: Its requirements cannot be known without building it.
    UNSOLVABLE = "unsolvable"
    #: Its version or its metadata is not what the standards say.
    UNPARSABLE = "unparsable"
    #: It refuses this version of Python.
    REQUIRES_PYTHON = "requires_python"
    #: It requires a package by address; what is there is not known.
    DIRECT_REFERENCE = "direct_reference"
    #: Whether it requires something cannot be said: its marker compares what has no order.
    UNDEFINED_MARKER = "undefined_marker"
    #: Its name or its local version says that it is built for a newer CUDA than the driver runs.
    CUDA_TOO_OLD = "cuda_too_old"
    LIBC_TOO_OLD = "libc_too_old"
    PLATFORM_TAG = "platform_tag"
    ABI_TAG = "abi_tag"
    PYTHON_TAG = "python_tag"
    SDIST_ONLY = "sdist_only"
    NO_FILES = "no_files"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a candidate, or a request, requires in the snapshot's environment.

    :param name: of the required package, normalised
    :param specifier: canonical text by PEP 440, empty for any version
    :param extras: asked of the required package, sorted
    :param extra: of the requiring package that brings this; ``None`` if it always holds
    :param url: of a direct reference, which nothing in a snapshot can satisfy; then ``extra``
        is set, for a version that always needs one is no candidate
    """

    name: str
    specifier: str = ""
    extras: tuple[str, ...] = ()
    extra: str | None = None
    url: str | None = None

    @property
    def order(self) -> tuple[str, str, str, tuple[str, ...], str]:
        """What always holds first, then by extra; by name, specifier and extras within."""
        return self.extra or "", self.name, self.specifier, self.extras, self.url or ""


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
    """A version that can be installed in the snapshot's environment, as one index serves it.

    :param requires: markers are evaluated, and of requirements by extra only those are here
        whose extra somebody in the closure asks for; in :attr:`Dependency.order`, none twice
    :param wheel_rank: place of its best wheel among ``Environment.tags``, 0 the best;
        ``None`` where no wheel is known to fit and not all its files are known
    :param extras: all that it offers, sorted
    :param vulnerabilities: by identifier
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

    def requirements(self, extras: Iterable[str] = ()) -> tuple[Dependency, ...]:
        """What it requires with some of its extras; those that they bring in turn included.

        A requirement of itself (``name[all]`` requires ``name[a,b]``) brings those extras, and
        is itself among the answers only if it names versions.

        >>> a = Dependency("one", extra="a")
        >>> both = Dependency("it", extras=("a",), extra="all")
        >>> it = Candidate(Purl("pkg:pypi/it@1"), "it", "1", "pypi", (a, both))
        >>> [dependency.name for dependency in it.requirements(["all"])]
        ['one']
        """
        active, pending = set[str](), set(extras)
        while pending:
            active |= pending
            brought = (it for it in self.requires if it.name == self.name and it.extra in active)
            pending = {extra for it in brought for extra in it.extras} - active
        return tuple(
            it
            for it in self.requires
            if (it.extra is None or it.extra in active)
            and (it.name != self.name or it.specifier or it.url)
        )


@dataclass(frozen=True, slots=True)
class Excluded:
    """A version that is no candidate here.

    :param message: for a person, such as ``needs glibc 2.34, this environment has 2.28``
    """

    purl: Purl
    version: str
    index: str
    reason: ExclusionReason
    message: str


CandidateOrExcluded = TypeVar("CandidateOrExcluded", Candidate, Excluded)


def newest_first(versions: list[CandidateOrExcluded]) -> list[CandidateOrExcluded]:
    """By version, newest first, what is no version last; then by index."""
    return sorted(sorted(versions, key=_place), key=_age, reverse=True)


def _place(version: Candidate | Excluded) -> tuple[str, str, str]:
    return version.index, version.version, version.purl


def _age(version: Candidate | Excluded) -> tuple[bool, Version | str]:
    parsed = version_of(version.version)
    return (False, version.version) if parsed is None else (True, parsed)
