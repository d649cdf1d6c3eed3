"""Builds candidates for one environment from the package versions in the graph.

Thousands of versions share a few hundred requirements, and the requirements share a few dozen
markers. Each distinct requirement and marker is therefore evaluated once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion, Version

from model.errors import InvalidArgument
from model.packages.candidates import Candidate, Dependency, Excluded, ExclusionReason, newest_first
from model.packages.environments import Environment, first_release_of
from model.packages.identity import Purl, version_of
from model.packages.releases import (
    SDIST_BUILT,
    SDIST_LIKELY,
    ReleaseProblem,
    ReleaseState,
    Requirement,
    parse_requirement,
    specifier_set,
)
from model.packages.wheels import Compatibility, Fit, compatibility, cuda_of, cuda_runs
from model.redaction import without_secrets

_STATES = {
    ReleaseState.UNREAD: "its metadata was not read",
    ReleaseState.UNSOLVABLE: "its requirements are known only after a build",
    ReleaseState.UNPARSABLE: "its metadata violates the standards",
}
#: Message about a version that could be a candidate after a build.
DYNAMIC_METADATA = "it has only a source distribution with dynamic metadata"
_PROBLEMS: dict[str, str] = {
    ReleaseProblem.DYNAMIC_METADATA: DYNAMIC_METADATA,
    ReleaseProblem.NO_FILES: "no file that could be installed",
    ReleaseProblem.TOO_LARGE: "its metadata was not read, because its file is above a size limit",
    ReleaseProblem.NOT_RECORDED: "the source that listed it did not state its requirements",
    ReleaseProblem.INVALID_VERSION: "its version does not follow PEP 440",
    ReleaseProblem.BROKEN_METADATA: "its metadata or the archive with it is broken",
    ReleaseProblem.OTHER_METADATA: "its metadata belongs to another release",
    ReleaseProblem.INVALID_REQUIREMENT: "one of its requirements does not follow PEP 508",
}


class RequirementRecord(NamedTuple):
    """An edge ``REQUIRES``; ``extras`` are the requested extras of the required package.

    :param problem: how a line that is not valid was read
    """

    name: str
    specifier: str | None
    marker: str | None
    extras: Sequence[str] | None
    url: str | None
    problem: str | None = None


class VersionRecord(NamedTuple):
    """A node ``PackageVersion`` with its requirements; an absent property is ``None``.

    :param uploaded_at: as text, or in UTC
    :param requires: :class:`RequirementRecord` fields of each; ``None`` if the index only lists the
        version and nobody read its metadata, whatever the state
    """

    purl: str
    version: str
    index_name: str
    state: str | None
    problem: str | None
    requires_python: str | None
    yanked: bool | None
    yanked_reason: str | None
    uploaded_at: str | datetime | None
    wheels: Sequence[str] | None
    has_sdist: bool | None
    files_complete: bool | None
    extras: Sequence[str] | None
    requires: Sequence[Sequence[Any]] | None
    metadata_source: str | None = None


#: Its wheels are for this Python, and only their platform differs.
_FOR_THIS_PYTHON = frozenset({ExclusionReason.LIBC_TOO_OLD, ExclusionReason.PLATFORM_TAG})


class NotACandidate(Exception):
    """A version that cannot be installed here; :class:`CandidateBuilder` turns it into a reason."""

    def __init__(self, reason: ExclusionReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CandidateBuilder:
    """Builds the candidates of one environment; caches evaluated markers and requirements."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._markers = dict(environment.markers)
        # Installers compare the release number only: 3.14rc1 and a development build ("3.14+")
        # count as 3.14.
        self._python = Version(Version(environment.python_full_version.rstrip("+")).base_version)
        self._python_began = first_release_of(self._python.minor)
        self._holds: dict[tuple[str, str], bool] = {}
        self._admits: dict[str, bool] = {}
        self._fits: dict[tuple[tuple[str, ...], bool | None, bool], Compatibility] = {}
        self._known: dict[Any, tuple[Dependency, ...]] = {}

    def build(
        self, name: str, records: Iterable[VersionRecord], requested_extras: Sequence[str]
    ) -> tuple[list[Candidate], list[Excluded]]:
        """The candidates and the excluded versions of one package, each newest first.

        :param requested_extras: extras that the closure requests of the package, sorted
        """
        extras, known = tuple(requested_extras), tuple(records)
        compiled = has_compiled_wheels(known)
        versions = [self.version(name, it, extras, compiled) for it in known]
        candidates = [it for it in versions if isinstance(it, Candidate)]
        excluded = [it for it in versions if isinstance(it, Excluded)]
        return newest_first(candidates), newest_first(excluded)

    def version(
        self, name: str, record: VersionRecord, extras: tuple[str, ...], compiled: bool
    ) -> Candidate | Excluded:
        """The candidate for one version, or the reason why the version is not a candidate.

        :param extras: as in :meth:`build`; of an unread version the result is the same for all
        :param compiled: :func:`has_compiled_wheels` of the package
        """
        try:
            candidate = self._candidate(name, record, extras, compiled)
            if self._is_too_old_to_build(candidate):
                return self._too_old_to_build(candidate)
            return candidate
        except NotACandidate as error:
            purl = Purl(record.purl)
            return Excluded(purl, record.version, record.index_name, error.reason, str(error))

    def holds(self, marker: str, extra: str = "") -> bool:
        """Whether a marker is true in the environment, with one extra or without extras.

        :raises NotACandidate: if the marker compares values that have no order
        """
        known = self._holds.get((marker, extra))
        if known is None:
            try:
                known = parsed_marker(marker).evaluate({**self._markers, "extra": extra})
            except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion) as error:
                text = f"the marker {marker!r} cannot be evaluated: {error}"
                raise NotACandidate(ExclusionReason.UNDEFINED_MARKER, text) from error
            self._holds[marker, extra] = known
        return known

    def _candidate(
        self, name: str, record: VersionRecord, extras: tuple[str, ...], compiled: bool
    ) -> Candidate:
        version = self._solved_version(record)
        self._refuse_other_python(record.requires_python)
        self._refuse_newer_cuda(name, record.version)
        fit = self._fit(tuple(record.wheels or ()), record.has_sdist, bool(record.files_complete))
        sdist_only = not fit.installable and bool(record.has_sdist)
        if not fit.installable and not sdist_only:
            raise NotACandidate(ExclusionReason(fit.reason.value), fit.message)
        # A wheel proves that a release is pure Python, whatever Python the wheel names.
        pure = any(it.endswith("-none-any") for it in record.wheels or ())
        own = has_compiled_wheels([record]) if record.wheels else compiled
        return Candidate(
            purl=Purl(record.purl),
            name=name,
            version=record.version,
            index=record.index_name,
            requires=self._requires(record.requires or (), extras),
            requires_python=record.requires_python,
            extras=tuple(record.extras or ()),
            wheel_rank=fit.rank,
            prerelease=version.is_prerelease,
            yanked=bool(record.yanked),
            yanked_reason=record.yanked_reason,
            uploaded_at=_moment(record.uploaded_at),
            sdist_only=sdist_only,
            wheel_mismatch=(
                ExclusionReason(fit.reason.value)
                if sdist_only and fit.reason is not Fit.SDIST_ONLY and not pure
                else None
            ),
            compiled=sdist_only and own and not pure,
            requirements_likely=record.metadata_source == SDIST_LIKELY,
            requirements_built=record.metadata_source == SDIST_BUILT,
            read=record.requires is not None,
        )

    def _fit(
        self, wheels: tuple[str, ...], has_sdist: bool | None, files_complete: bool
    ) -> Compatibility:
        key = wheels, has_sdist, files_complete
        known = self._fits.get(key)
        if known is None:
            known = self._fits[key] = compatibility(*key, self._environment)
        return known

    def _solved_version(self, record: VersionRecord) -> Version:
        if record.requires is not None and record.state != ReleaseState.SOLVED.value:
            state = ReleaseState(record.state or ReleaseState.UNREAD)
            message = _PROBLEMS.get(record.problem or "", _STATES[state])
            if record.problem == ReleaseProblem.NO_FILES:
                raise NotACandidate(ExclusionReason.NO_FILES, message)
            if record.problem == ReleaseProblem.TOO_LARGE:
                raise NotACandidate(ExclusionReason.UNAVAILABLE, message)
            raise NotACandidate(ExclusionReason(state.value), message)
        version = version_of(record.version)
        if version is None:
            raise NotACandidate(
                ExclusionReason.UNPARSABLE, f"{record.version!r} is not a version by PEP 440"
            )
        return version

    def _refuse_other_python(self, text: str | None) -> None:
        if text is None:
            return
        admits = self._admits.get(text)
        if admits is None:
            admits = self._admits[text] = _admits(text, self._python)
        if not admits:
            message = f"requires Python {text}, this environment has {self._python}"
            raise NotACandidate(ExclusionReason.REQUIRES_PYTHON, message)

    def _is_too_old_to_build(self, version: Candidate) -> bool:
        """Whether a version must be built and is older than this Python, unless it is pure Python.

        Compiled code of that age rarely builds. A version whose wheels are for other Pythons
        counts, too, because its publisher has named the Pythons that the version is for.
        """
        began, uploaded = self._python_began, version.uploaded_at
        if not version.sdist_only or uploaded is None or uploaded >= began:
            return False
        if version.wheel_mismatch in _FOR_THIS_PYTHON:
            return False
        return version.wheel_mismatch is not None or version.compiled

    def _too_old_to_build(self, version: Candidate) -> Excluded:
        python = f"Python {self._python.major}.{self._python.minor}"
        reason = ExclusionReason.SDIST_TOO_OLD
        return Excluded(
            version.purl,
            version.version,
            version.index,
            reason,
            f"would have to be built, and was published before {python}",
            replace(version, wheel_mismatch=reason),
        )

    def _refuse_newer_cuda(self, name: str, version: str) -> None:
        """Refuse builds for a newer CUDA; without CUDA, none, because CPU builds may name one."""
        if self._environment.cuda is None:
            return
        needed = cuda_of(name, version)
        if needed is not None and not cuda_runs(needed, self._environment):
            message = f"needs CUDA {needed}, this environment has {self._environment.cuda}"
            raise NotACandidate(ExclusionReason.CUDA_TOO_OLD, message)

    def _requires(
        self, records: Sequence[Sequence[Any]], extras: tuple[str, ...]
    ) -> tuple[Dependency, ...]:
        if not records:
            return ()
        dependencies: dict[Dependency, None] = {}
        errors = []
        for record in records:
            try:
                dependencies.update(dict.fromkeys(self._dependencies(record, extras)))
            except NotACandidate as error:
                errors.append(error)
        if errors:
            # The graph returns edges in no order, and the reason must not depend on it.
            raise min(errors, key=lambda error: (error.reason, str(error)))
        always = {_without_extra(it) for it in dependencies if it.extra is None}
        return tuple(
            sorted(
                (it for it in dependencies if it.extra is None or _without_extra(it) not in always),
                key=_order,
            )
        )

    def _dependencies(
        self, record: Sequence[Any], extras: tuple[str, ...]
    ) -> tuple[Dependency, ...]:
        name, specifier, marker, requested, *others = record
        key = (name, specifier, marker, tuple(requested) if requested else (), *others, extras)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._evaluated(RequirementRecord(*record), extras))
        return known

    def _evaluated(
        self, record: RequirementRecord, extras: tuple[str, ...]
    ) -> Iterable[Dependency]:
        """The requirement, once if its marker is true, or once for each extra that makes it true.

        As in installers, the marker is evaluated with each extra alone.
        """
        requested = tuple(sorted(record.extras or ()))
        dependency = Dependency(
            record.name, record.specifier or "", requested, None, record.url, record.problem or ""
        )
        marker = record.marker
        if marker is None or self.holds(marker):
            if record.url is not None:
                text = f"requires {record.name} by address, which is not followed"
                raise NotACandidate(ExclusionReason.DIRECT_REFERENCE, text)
            yield dependency
        elif "extra" in marker:
            for extra in extras:
                if self.holds(marker, extra):
                    yield replace(dependency, extra=extra)


def has_compiled_wheels(records: Iterable[VersionRecord]) -> bool:
    """Whether a package has a wheel for a particular binary interface of Python."""
    return any(tags.split("-")[1:2] != ["none"] for it in records for tags in it.wheels or ())


@lru_cache(maxsize=16_384)
def parsed_marker(text: str) -> Marker:
    """A PEP 508 marker; requirements with an invalid marker are never stored."""
    return Marker(text)


@lru_cache(maxsize=4_096)
def _admits(text: str, python: Version) -> bool:
    """Whether ``Requires-Python`` admits an interpreter.

    An invalid specifier admits every interpreter, because installers ignore specifiers that they
    cannot parse.
    """
    try:
        return specifier_set(text).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True


def _moment(moment: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(moment).astimezone(UTC) if isinstance(moment, str) else moment


def _order(dependency: Dependency) -> tuple[str, str, str, tuple[str, ...], str]:
    return dependency.order


def _without_extra(dependency: Dependency) -> tuple[str, str, tuple[str, ...], str | None]:
    return dependency.name, dependency.specifier, dependency.extras, dependency.url


def roots_of(
    requirements: Iterable[Requirement | str], environment: Environment
) -> tuple[Dependency, ...]:
    """Requirements of a request whose markers are true in the environment, sorted and unique.

    :raises InvalidArgument: if one is not a valid requirement, or is a direct reference
    """
    builder = CandidateBuilder(environment)
    roots = set()
    for text in requirements:
        requirement = parse_requirement(text) if isinstance(text, str) else text
        raw = without_secrets(requirement.raw)
        if requirement.name is None:
            problem = without_secrets(requirement.problem or "")
            raise InvalidArgument(f"{raw!r} is not a requirement: {problem}")
        if requirement.url is not None:
            raise InvalidArgument(f"{raw!r} names an address; packages are asked for by name")
        try:
            if requirement.marker is None or builder.holds(requirement.marker):
                roots.add(Dependency(requirement.name, requirement.specifier, requirement.extras))
        except NotACandidate as error:
            raise InvalidArgument(str(error)) from error
    return tuple(sorted(roots, key=_order))
