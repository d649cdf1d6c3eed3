"""Versions as the graph has them to candidates of one environment.

Thousands of versions share a few hundred requirements, and these a few dozen markers; so each
distinct one is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from common.environments import Environment
from common.packages import Purl, version_of
from common.releases import ReleaseProblem, ReleaseState
from common.wheels import compatibility, cuda_of, cuda_runs
from graph.candidates import (
    Candidate,
    Dependency,
    Excluded,
    ExclusionReason,
    newest_first,
)
from graph.queries.closure import RequirementRecord, VersionRecord

_STATES = {
    ReleaseState.UNREAD: "nobody has read its metadata",
    ReleaseState.UNSOLVABLE: "its requirements cannot be known without building it",
    ReleaseState.UNPARSABLE: "its metadata is not what the standards say",
}
_PROBLEMS: dict[str, str] = {
    ReleaseProblem.DYNAMIC_METADATA: "only a source distribution, whose metadata is not static",
    ReleaseProblem.NO_FILES: "no file that could be installed",
    ReleaseProblem.NOT_RECORDED: "where it was read, its requirements were unknown",
    ReleaseProblem.INVALID_VERSION: "its version is not one by PEP 440",
    ReleaseProblem.BROKEN_METADATA: "its metadata, or the archive it is in, is broken",
    ReleaseProblem.OTHER_METADATA: "its metadata is that of another release",
    ReleaseProblem.INVALID_REQUIREMENT: "it asks for what is not a requirement by PEP 508",
}


class Refused(Exception):
    """A version is no candidate; private to the compilation, and turned into its reason."""

    def __init__(self, reason: ExclusionReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Compiler:
    """Makes candidates of one environment; keeps what it worked out."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._markers = dict(environment.markers)
        # Installers compare the release alone: a candidate of 3.14 is 3.14 to them, and so is
        # what is built between releases, which ends with a "+".
        self._python = Version(Version(environment.python_full_version.rstrip("+")).base_version)
        self._holds: dict[tuple[str, str], bool] = {}
        self._admits: dict[str, bool] = {}
        self._known: dict[Any, tuple[Dependency, ...]] = {}

    def compiled(
        self, name: str, records: Iterable[VersionRecord], asked: Sequence[str]
    ) -> tuple[list[Candidate], list[Excluded]]:
        """Candidates and the others of one package, each newest first.

        :param asked: extras that are asked of the package, sorted
        """
        extras = tuple(asked)
        candidates: list[Candidate] = []
        excluded: list[Excluded] = []
        for record in records:
            try:
                candidates.append(self._candidate(name, record, extras))
            except Refused as why:
                purl = Purl(record.purl)
                excluded.append(
                    Excluded(purl, record.version, record.index_name, why.reason, str(why))
                )
        return newest_first(candidates), newest_first(excluded)

    def holds(self, marker: str, extra: str = "") -> bool:
        """Whether a marker holds in the environment with one extra, or with none.

        :raises Refused: if it compares what cannot be compared
        """
        known = self._holds.get((marker, extra))
        if known is None:
            try:
                known = parsed_marker(marker).evaluate({**self._markers, "extra": extra})
            except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion) as error:
                text = f"the marker {marker!r} cannot be evaluated: {error}"
                raise Refused(ExclusionReason.UNDEFINED_MARKER, text) from error
            self._holds[marker, extra] = known
        return known

    def _candidate(self, name: str, record: VersionRecord, extras: tuple[str, ...]) -> Candidate:
        version = self._solved_version(record)
        self._refuse_other_python(record.requires_python)
        self._refuse_newer_cuda(name, record.version)
        fit = compatibility(
            record.wheels or (), record.has_sdist, bool(record.files_complete), self._environment
        )
        if not fit.installable:
            raise Refused(ExclusionReason(fit.reason.value), fit.message)
        return Candidate(
            purl=Purl(record.purl),
            name=name,
            version=record.version,
            index=record.index_name,
            requires=self._requires(record.requires, extras),
            requires_python=record.requires_python,
            extras=tuple(record.extras or ()),
            wheel_rank=fit.rank,
            prerelease=version.is_prerelease,
            yanked=bool(record.yanked),
            yanked_reason=record.yanked_reason,
            uploaded_at=_moment(record.uploaded_at),
        )

    def _solved_version(self, record: VersionRecord) -> Version:
        state = ReleaseState(record.state or ReleaseState.UNREAD)
        if state is not ReleaseState.SOLVED:
            told = _PROBLEMS.get(record.problem or "", _STATES[state])
            raise Refused(ExclusionReason(state.value), told)
        version = version_of(record.version)
        if version is None:
            raise Refused(
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
            raise Refused(ExclusionReason.REQUIRES_PYTHON, message)

    def _refuse_newer_cuda(self, name: str, version: str) -> None:
        """Where no CUDA is stated nothing is refused: what runs on a CPU may name one too."""
        if self._environment.cuda is None:
            return
        needed = cuda_of(name, version)
        if needed is not None and not cuda_runs(needed, self._environment):
            message = f"needs CUDA {needed}, this environment has {self._environment.cuda}"
            raise Refused(ExclusionReason.CUDA_TOO_OLD, message)

    def _requires(
        self, records: Sequence[Sequence[Any]], extras: tuple[str, ...]
    ) -> tuple[Dependency, ...]:
        if not records:
            return ()
        found: dict[Dependency, None] = {}
        refusals = []
        for record in records:
            try:
                found.update(dict.fromkeys(self._dependencies(record, extras)))
            except Refused as why:
                refusals.append(why)
        if refusals:
            # Edges come in no order, and the reason must not depend on it.
            raise min(refusals, key=lambda why: (why.reason, str(why)))
        if len(found) < 2:
            return tuple(found)
        always = {_what(it) for it in found if it.extra is None}
        return tuple(
            sorted(
                (it for it in found if it.extra is None or _what(it) not in always),
                key=_order,
            )
        )

    def _dependencies(
        self, record: Sequence[Any], extras: tuple[str, ...]
    ) -> tuple[Dependency, ...]:
        name, specifier, marker, asked, url = record
        key = (name, specifier, marker, tuple(asked) if asked else (), url, extras)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._evaluated(RequirementRecord(*record), extras))
        return known

    def _evaluated(
        self, record: RequirementRecord, extras: tuple[str, ...]
    ) -> Iterable[Dependency]:
        """The requirement, if it holds; else once for each extra that it holds with.

        What holds with an extra is what installers ask: the marker with that extra alone.
        """
        asked = tuple(sorted(record.extras or ()))
        found = Dependency(record.name, record.specifier or "", asked, None, record.url)
        marker = record.marker
        if marker is None or self.holds(marker):
            if record.url is not None:
                text = f"requires {record.name} by address, which is not followed"
                raise Refused(ExclusionReason.DIRECT_REFERENCE, text)
            yield found
        elif "extra" in marker:
            for extra in extras:
                if self.holds(marker, extra):
                    yield Dependency(found.name, found.specifier, found.extras, extra, found.url)


@lru_cache(maxsize=16_384)
def parsed_marker(text: str) -> Marker:
    """A marker by PEP 508; requirements whose marker is none are never stored."""
    return Marker(text)


@lru_cache(maxsize=4_096)
def _admits(text: str, python: Version) -> bool:
    """Whether a ``Requires-Python`` admits an interpreter; one that is none by PEP 440 does.

    Installers take no notice of what they cannot read there either.
    """
    try:
        return SpecifierSet(text).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _order(dependency: Dependency) -> tuple[str, str, str, tuple[str, ...], str]:
    return dependency.order


def _what(dependency: Dependency) -> tuple[str, str, tuple[str, ...], str | None]:
    """A requirement but for the extra that brings it."""
    return dependency.name, dependency.specifier, dependency.extras, dependency.url
