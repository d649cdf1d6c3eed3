"""The snapshot of a request as its indexes list it: all versions, with the requirements of a few.

A version whose metadata was not read takes part as if it required nothing. This only enlarges the
set of possible stacks. So if every version of a best stack was read, that stack is best over all
listed versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from packaging.utils import canonicalize_name

from graph.snapshot_reader import Closure, unnamed_snapshot, with_known, with_vulnerabilities
from model.packages.candidate_builder import CandidateBuilder, VersionRecord, has_compiled_wheels
from model.packages.candidates import (
    Absence,
    Candidate,
    Dependency,
    Excluded,
    ExclusionReason,
    KnownVulnerability,
    newest_first,
)
from model.packages.environments import Environment
from model.packages.identity import Purl
from model.packages.project_pages import ListedVersion, ProjectPage, ProjectState
from model.packages.releases import (
    ReleaseMetadata,
    ReleaseProblem,
    ReleaseState,
    fault_of,
    parse_requirement,
    release_identity,
)
from model.packages.snapshot import CandidateTuple, Snapshot

#: Problems whose cause is in one file; the others say everything by themselves.
_OF_FILES = frozenset(
    {ReleaseProblem.BROKEN_METADATA, ReleaseProblem.OTHER_METADATA, ReleaseProblem.TOO_LARGE}
)


@dataclass(slots=True)
class BuiltVersions:
    """The versions of a package, built for some extras.

    :param versions: candidates and excluded versions, newest first
    :param changed: versions that must be built again
    :param candidates: the same object until a version changes, then ``None``
    :param choices: the candidates and the last resorts, newest first
    :param required: requirements of the choices
    """

    versions: dict[str, Candidate | Excluded] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    candidates: tuple[Candidate, ...] | None = None
    excluded: tuple[Excluded, ...] = ()
    choices: tuple[Candidate, ...] = ()
    required: tuple[Dependency, ...] = ()


@dataclass(slots=True)
class ListedPackage:
    """A package on the index that it comes from.

    :param records: by version
    :param metadata: by read version
    :param stored: versions whose metadata the record has, as far as this process knows
    :param extras: that are requested of it
    :param built: by extras that were requested
    :param compiled: whether any of its wheels is for one binary interface of Python
    :param vulnerabilities: by package URL of the affected version
    :param position: position of the record at which the vulnerabilities were read
    """

    page: ProjectPage
    index: str
    records: dict[str, VersionRecord]
    metadata: dict[str, ReleaseMetadata] = field(default_factory=dict)
    stored: set[str] | None = None
    extras: frozenset[str] = frozenset()
    vulnerabilities: Mapping[str, Sequence[KnownVulnerability]] = field(default_factory=dict)
    position: Hashable = None
    built: dict[frozenset[str], BuiltVersions] = field(default_factory=dict)
    compiled: bool = False
    #: Why a version is excluded, by version; names the file and the cause.
    _causes: dict[str, str] = field(default_factory=dict)
    _unavailable: set[str] = field(default_factory=set)

    @classmethod
    def of_page(cls, index: str, page: ProjectPage) -> ListedPackage:
        """The package as a page of an index lists it."""
        purl = _purls(page.name, index)
        records = {
            version: _listed_record(index, purl(version), listed)
            for version, listed in page.listed.items()
        }
        package = cls(page, index, records)
        if page.is_quarantined:
            cause = f"{index} has put the project into quarantine"
            package._causes = dict.fromkeys(records, cause)
        return package

    def learn(
        self, version: str, metadata: ReleaseMetadata, built: ReleaseMetadata | None = None
    ) -> None:
        """Add the metadata of a version.

        :param built: metadata of a build in this environment; valid for this request only
        """
        self.metadata[version] = metadata
        metadata = built or metadata
        lines = list(map(parse_requirement, metadata.requires_dist or ()))
        record, problem = self.records[version], metadata.problem
        requires_python = metadata.requires_python or record.requires_python
        cause = metadata.problem_message if problem in _OF_FILES else None
        if (fault := fault_of(version, lines, requires_python)) is not None:
            problem, cause = fault
        if cause is not None:
            file = metadata.metadata_file or ""
            self._causes[version] = cause if file in cause else f"{file}: {cause}"
        requires = [
            (it.name, it.specifier, it.marker, it.extras, it.url, it.problem) for it in lines
        ]
        self.records[version] = record._replace(
            state=(problem.state if problem else ReleaseState.SOLVED).value,
            problem=problem.value if problem else None,
            requires_python=requires_python,
            extras=tuple(sorted(map(canonicalize_name, metadata.provides_extra))),
            requires=requires,
            metadata_source=metadata.metadata_source,
        )
        self._change(version)

    def drop(self, version: str, cause: str) -> None:
        """Leave out a version whose metadata could not be read from its index now.

        :param cause: names the file and the error
        """
        state = ReleaseState.UNREAD.value
        self.records[version] = self.records[version]._replace(
            state=state, problem=None, requires=()
        )
        self._causes[version] = cause
        self._unavailable.add(version)
        self._change(version)

    def request(self, extras: Iterable[str]) -> None:
        """Add extras that are requested for the package."""
        if not self.extras.issuperset(extras):
            self.extras = self.extras.union(extras)

    def learn_vulnerabilities(
        self, known: Mapping[str, Sequence[KnownVulnerability]], position: Hashable = None
    ) -> None:
        """Replace the known vulnerabilities.

        :param known: by package URL of the affected version; other packages are ignored
        :param position: of the record when they were read
        """
        ours = {it.purl: known[it.purl] for it in self.records.values() if it.purl in known}
        self.position = position
        if ours != self.vulnerabilities:
            affected = ours.keys() | self.vulnerabilities.keys()
            self.vulnerabilities = ours
            self._change(*(it for it, record in self.records.items() if record.purl in affected))

    def build(self, builder: CandidateBuilder) -> BuiltVersions:
        """Candidates, newest first, and excluded versions, for the requested extras."""
        built = self.built.get(self.extras)
        if built is None:
            built = self.built[self.extras] = self._started()
        if built.candidates is not None:
            return built
        extras, name = tuple(sorted(self.extras)), self.page.name
        if built.versions:
            for version in built.changed:
                record = self.records[version]
                built.versions[version] = builder.version(name, record, extras, self.compiled)
        else:
            records = self.records.values()
            self.compiled = has_compiled_wheels(records)
            all_built = [builder.version(name, it, extras, self.compiled) for it in records]
            built.versions = {it.version: it for it in newest_first(all_built)}
        built.changed.clear()
        versions = built.versions.values()
        built.candidates = CandidateTuple(
            with_vulnerabilities(
                (it for it in versions if isinstance(it, Candidate)), self.vulnerabilities
            )
        )
        built.excluded = tuple(self._with_cause(it) for it in versions if isinstance(it, Excluded))
        old = [it.last_resort for it in built.excluded if it.last_resort is not None]
        built.choices = tuple(newest_first([*built.candidates, *old])) if old else built.candidates
        built.required = tuple(
            dict.fromkeys(chain.from_iterable(it.requires for it in built.choices))
        )
        return built

    def _started(self) -> BuiltVersions:
        """Versions to build for further extras.

        Extras select among requirements, and the requirements of unread versions are unknown, so
        unread versions are the same for all extras.
        """
        other = next((it for it in self.built.values() if it.candidates is not None), None)
        if other is None:
            return BuiltVersions()
        changed = {it for it, record in self.records.items() if record.requires}
        return BuiltVersions(dict(other.versions), changed)

    def _with_cause(self, excluded: Excluded) -> Excluded:
        version, reason = excluded.version, excluded.reason
        if version not in self._causes:
            return with_known(excluded, self.vulnerabilities)
        message = f"{excluded.message}: {self._causes[version]}"
        if version in self._unavailable:
            reason = ExclusionReason.UNAVAILABLE
        return replace(excluded, reason=reason, message=message, last_resort=None)

    def _change(self, *versions: str) -> None:
        if versions:
            for built in self.built.values():
                built.changed.update(versions)
                built.candidates = None

    @property
    def is_complete(self) -> bool:
        """Whether the index returned the metadata of every requested version."""
        return not self._unavailable


#: States of projects that count; nothing of a quarantined project can be chosen.
_TOLD_STATES = frozenset({ProjectState.ARCHIVED, ProjectState.DEPRECATED})
#: A page, and the metadata of its versions that was read.
ReadPackage = tuple[ProjectPage, Mapping[str, ReleaseMetadata]]


class IndexSnapshot:
    """Grows with every page and every metadata file that is read; :meth:`freeze` makes a snapshot.

    :param roots: requirements whose markers hold in the environment
    :param kept: the package of this name that was read for an earlier request, if it is still valid
    :param builder: for the environment
    """

    def __init__(
        self,
        roots: Sequence[Dependency],
        environment: Environment,
        kept: Callable[[str], ListedPackage | None] = lambda _name: None,
        builder: CandidateBuilder | None = None,
    ) -> None:
        self._roots = tuple(roots)
        self._environment = environment
        self._kept = kept
        self._builder = builder or CandidateBuilder(environment)
        self.packages: dict[str, ListedPackage] = {}
        #: Packages without a page, by name.
        self.absences: dict[str, Absence] = {}

    def candidates(self, name: str) -> Sequence[Candidate]:
        """The candidates of a package, newest first; none if it is missing.

        Versions that only count as a last resort are included.
        """
        package = self.package(name)
        return package.build(self._builder).choices if package else ()

    def excluded(self, name: str) -> Sequence[Excluded]:
        """The versions of a package that cannot be installed, newest first."""
        package = self.package(name)
        return package.build(self._builder).excluded if package else ()

    def package(self, name: str) -> ListedPackage | None:
        """A package, as it was read for this request or for an earlier one."""
        package = self.packages.get(name)
        if package is None and name not in self.absences:
            package = self._kept(name)
            if package is not None:
                self.packages[name] = package
        return package

    def purls(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The package URL of every listed version, by package name and version."""
        return {
            name: {it.version: it.purl for it in self.packages[name].records.values()}
            for name in names
        }

    def indexes(self) -> set[str]:
        """The indexes that returned a page."""
        return {it.index for it in self.packages.values()}

    def unstored(self) -> dict[str, list[ReadPackage]]:
        """Pages by index, each with the metadata of its read versions.

        Pages and metadata that the record already has, as far as this process knows, are left out.
        """
        unstored: dict[str, list[ReadPackage]] = {}
        for package in self.packages.values():
            stored = package.stored or ()
            metadata = {it: read for it, read in package.metadata.items() if it not in stored}
            if metadata or package.stored is None:
                unstored.setdefault(package.index, []).append((package.page, metadata))
        return dict(sorted(unstored.items()))

    def as_of(self, index: str) -> datetime:
        """The time at which an index sent or confirmed its oldest page."""
        return min(it.page.as_of for it in self.packages.values() if it.index == index)

    def required(self) -> list[Dependency]:
        """The roots, and the requirements of every version that was read.

        They include requirements of extras, because an extra may be requested later.
        """
        while True:
            required = dict.fromkeys(self._roots)
            for listed in self.packages.values():
                required.update(dict.fromkeys(listed.build(self._builder).required))
            # Request the extras that requirements name; return whether any is new.
            new = False
            for dependency in required:
                package = self.package(dependency.name) if dependency.extras else None
                if package is not None and not package.extras.issuperset(dependency.extras):
                    package.request(dependency.extras)
                    new = True
            if not new:
                return [it for it in required if it.url is None]

    def freeze(self) -> Snapshot:
        """The snapshot of everything that can be reached from the roots, without a revision.

        If nothing changed, the candidates of a package are the same object as in the previous
        snapshot.
        """
        closure = Closure()
        pending = closure.request(self._roots)
        while pending:
            names = sorted(pending)
            if first := tuple(name for name in names if name not in closure.revisions):
                closure.layers.append(first)
                closure.revisions.update(dict.fromkeys(first))
            required: dict[Dependency, None] = {}
            for name in names:
                package = self.package(name)
                if package is None:
                    continue
                package.request(closure.extras[name])
                built = package.build(self._builder)
                closure.candidates[name] = built.candidates or ()
                closure.excluded[name] = built.excluded
                if package.page.status.state in _TOLD_STATES:
                    closure.statuses[name] = {package.index: package.page.status}
                required.update(dict.fromkeys(built.required))
            pending = closure.request(required)
        snapshot = unnamed_snapshot(closure, self._roots, self._environment)
        absences = {it: self.absences[it] for it in snapshot.missing if it in self.absences}
        return replace(snapshot, absences=absences)


#: Versions that are normal and need no quoting, which are nearly all.
_PLAIN_VERSION = re.compile(r"[0-9][0-9a-z.]*")


def _purls(name: str, index: str) -> Callable[[str], Purl]:
    """A function that turns a version into a package URL, in most cases without parsing."""
    before, _, after = release_identity(name, "0", index)[0].partition("@0")

    def purl_of(version: str) -> Purl:
        if _PLAIN_VERSION.fullmatch(version):
            return Purl(f"{before}@{version}{after}")
        return release_identity(name, version, index)[0]

    return purl_of


def _listed_record(index: str, purl: Purl, listed: ListedVersion) -> VersionRecord:
    return VersionRecord(
        purl=purl,
        version=listed.version,
        index_name=index,
        state=ReleaseState.UNREAD.value,
        problem=None,
        requires_python=listed.requires_python,
        yanked=listed.yanked,
        yanked_reason=listed.yanked_reason,
        uploaded_at=listed.uploaded_at,
        wheels=listed.wheels,
        has_sdist=listed.has_sdist,
        files_complete=True,
        extras=None,
        requires=None,
    )
