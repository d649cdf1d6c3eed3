"""Resolves a request over all versions that its indexes list, and reads the metadata of a few.

The first pass needs no solver. It reads the page of each required package, the metadata of the
newest version that meets the known requirements, and the pages of the packages that this version
requires, all concurrently. Then rounds begin: each finds the best stack and reads the versions in
it that are still unread. The rounds end when every version of the best stack was read; then no
other listed version can make a better stack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Annotated, TypeVar

from adviser.advice_request import StackRequest
from adviser.advise import Advice, Resolver, SnapshotAndEvidence, UnreadVersions, advise_listed
from adviser.answering.answers import text_of
from adviser.answering.index_clients import IndexReader, ReadingEnded, opened_clients, urls_of
from adviser.answering.index_memory import EarlierReads, IndexMemory, PackageReads, RequestMemory
from adviser.answering.index_snapshot import IndexSnapshot, ListedPackage
from adviser.resolver.listed_versions import AllCandidates, Known, NeededReads, ReadingRounds
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution
from adviser.resolver.specifiers import admits, names_prerelease
from adviser.resolver.universe import Universe
from common.index.release_metadata import metadata_files, read_release
from common.settings import Settings
from model.declared_fields import Field
from model.errors import IndexFault, IndexProblem
from model.packages.candidates import (
    Absence,
    AbsenceReason,
    Candidate,
    Dependency,
    Excluded,
    ExclusionReason,
    IndexesSilent,
)
from model.packages.project_pages import IndexFile
from model.packages.releases import ReleaseMetadata, ReleaseProblem
from model.packages.wheels import installed_rank

if TYPE_CHECKING:
    from adviser.answering.sdist_builds import SdistBuilder


@dataclass(slots=True)
class ResolutionProgress:
    """Progress of a resolution."""

    packages: Annotated[int, Field("Packages whose page was read.", 132)] = 0
    listed: Annotated[int, Field("Releases on these pages.", 9133)] = 0
    read: Annotated[int, Field("Releases whose metadata was read.", 166)] = 0
    rounds: Annotated[int, Field("How often the best stack was searched for.", 3)] = 0
    requests: Annotated[int, Field("Requests to the indexes.", 298)] = 0
    bytes_received: Annotated[int, Field("Bytes from the indexes, as transferred.", 5_210_334)] = 0


T = TypeVar("T")
OnProgress = Callable[[ResolutionProgress], None]
#: Called with the name and the version of a package before its metadata is built.
OnBuild = Callable[[str, str], None]
#: Evidence, and the snapshot with known vulnerabilities, for what is listed.
KnowledgeOfListed = Callable[[IndexSnapshot], SnapshotAndEvidence]


class IndexResolution:
    """One request: each round reads and resolves, until every chosen version was read.

    :param readers: indexes by name
    :param knowledge: adds data of the record to the read data
    :param more: requirements whose packages are read besides those of the request
    :param builder: builds metadata that is uncertain without a build; ``None`` to build none
    :param memory: data that earlier requests read
    :param earlier: versions that an earlier run of this request read, by package; read first
    """

    def __init__(  # noqa: PLR0913 - parts of one resolution
        self,
        request: StackRequest,
        readers: Mapping[str, IndexReader],
        knowledge: KnowledgeOfListed,
        resolver: Resolver,
        on_progress: OnProgress = lambda _progress: None,
        more: Iterable[Dependency] = (),
        *,
        builder: SdistBuilder | None = None,
        memory: RequestMemory | None = None,
        earlier: Callable[[], Mapping[str, PackageReads]] = dict,
    ) -> None:
        self._request = request
        self._builder = builder
        self._roots = (*request.roots, *more)
        self._rules = request.resolver_request({})
        self._readers = readers
        self._knowledge = knowledge
        self._resolver = resolver
        self._on_progress = on_progress
        self._earlier = earlier
        self._memory = memory or IndexMemory().for_request(request, {})
        self.listed = IndexSnapshot(
            self._roots, request.environment, self._kept, self._memory.builder
        )
        self.progress = ResolutionProgress()
        self._pages: dict[str, asyncio.Task[None]] = {}
        self._reads: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._wanted: dict[str, set[str]] = {}
        self._locked = request.locked or {}
        #: What a person should know about the indexes, although there is an answer.
        self.warnings: tuple[str, ...] = ()
        #: Releases whose requirements are those of another file than would be installed.
        self.other_files: dict[tuple[str, str], str] = {}
        #: Why nothing more is read; ``None`` before that.
        self._ended: ReadingEnded | None = None

    async def advise(self, threads: int = 1) -> Advice:
        """The advice over all listed versions.

        :raises IndexesSilent: if no index gave a page
        """
        # What earlier requests read needs no search for what is likely to be chosen.
        unknown = [it for it in self._roots if self.listed.package(it.name) is None]
        if unknown:
            await self._read_earlier()
        await self._follow(unknown)
        locked = [name for name in self._locked if self.listed.package(name) is not None]
        await asyncio.gather(*map(self._read_locked, locked))
        await self._read_required_pages()
        self._require_pages()
        rounds = advise_listed(
            self._request, *self._known(), resolver=self._resolver, threads=threads,
            reuse=self._memory.reuse,
        )  # fmt: skip
        try:
            reads = next(rounds)
            while True:
                await self._read_all(reads)
                reads = rounds.send(self._known())
        except StopIteration as end:
            advice: Advice = end.value
            return advice

    async def _read_earlier(self) -> None:
        """Read the versions of an earlier run, so that the first round is likely the last."""

        async def read(name: str, reads: PackageReads) -> None:
            await self._page(name)
            package = self.listed.packages.get(name)
            if package is None or package.index != reads.index:
                return
            listed = [it for it in reads.metadata if it in package.records]
            if package.page.source.fingerprint != reads.page:
                await asyncio.gather(*(self._read(name, it) for it in listed))
                return
            for version in listed:
                if version not in package.metadata:
                    package.learn(version, reads.metadata[version])
                    self.progress.read += 1

        await asyncio.gather(*(read(name, it) for name, it in self._earlier().items()))

    def reads(self) -> dict[str, PackageReads]:
        """The read versions by package, without files above a limit, which may be raised."""

        def lasting(package: ListedPackage) -> dict[str, ReleaseMetadata]:
            too_large = ReleaseProblem.TOO_LARGE
            return {at: it for at, it in package.metadata.items() if it.problem is not too_large}

        return {
            name: PackageReads(it.index, it.page.source.fingerprint, lasting(it))
            for name, it in sorted(self.listed.packages.items())
        }

    async def explain(self, explain: Callable[[Advice, Resolver], T]) -> T:
        """The result of ``explain`` over all listed versions.

        :param explain: gets the advice, and the resolver that it is to use
        :raises IndexesSilent: if no index gave a page
        """

        async def advised() -> tuple[Advice, AllCandidates]:
            advice = await self.advise()
            return advice, advice.snapshot.packages

        return await self._until_read(advised, explain)

    async def search(self, search: Callable[[SnapshotAndEvidence, Resolver], T]) -> T:
        """The result of ``search`` over all listed versions, without an advice.

        :param search: gets the known snapshot, and the resolver that it is to use
        :raises IndexesSilent: if no index gave a page
        """
        if any(self.listed.package(it.name) is None for it in self._roots):
            await self._read_earlier()
        await asyncio.gather(*(self._page(it.name) for it in self._roots if it.url is None))
        locked = [name for name in self._locked if self.listed.package(name) is not None]
        await asyncio.gather(*map(self._read_locked, locked))
        await self._read_required_pages()
        self._require_pages()

        async def listed() -> tuple[SnapshotAndEvidence, AllCandidates]:
            known = self._known()
            return known, known[0].packages

        return await self._until_read(listed, search)

    async def _until_read(
        self,
        prepared: Callable[[], Awaitable[tuple[Known, AllCandidates]]],
        use: Callable[[Known, Resolver], T],
    ) -> T:
        """The result of ``use``, which is repeated until it needs no unread version."""
        reading = ReadingRounds()
        while True:
            known, candidates = await prepared()
            needed: list[NeededReads] = []

            def noting(
                universe: Universe, budget: Budget | None = None, *, count: int = 1,
                candidates: AllCandidates = candidates, needed: list[NeededReads] = needed,
            ) -> Resolution:  # fmt: skip
                resolution = self._resolver(universe, budget, count=count)
                needed.append(reading.needed(universe, resolution, candidates))
                return resolution

            try:
                result = use(known, noting)
                if not any(needed):
                    return result
            except UnreadVersions as unread:
                needed.append(unread.reads)
            for reads in needed:
                await self._read_all(reads)

    async def read_versions(self, versions: Iterable[Dependency]) -> None:
        """Read the metadata of pinned versions, but not of the packages that they require.

        :param versions: such as ``flask==3.1.2``
        :raises IndexesSilent: if no index gave a page
        """

        async def read(pinned: Dependency) -> None:
            await self._page(pinned.name)
            package = self.listed.packages.get(pinned.name)
            listed = package.records if package else ()
            admitted = [it for it in listed if admits(pinned.specifier, it)]
            await asyncio.gather(*(self._read(pinned.name, it) for it in admitted))

        await asyncio.gather(*map(read, versions))
        self._require_pages()

    async def read_down(self, packages: Iterable[Dependency]) -> None:
        """Read all admitted versions of packages, and for each the newest versions it requires.

        These are read in turn with the newest versions that they require, and so on.

        :raises IndexesSilent: if no index gave a page
        """

        async def read(wanted: Dependency) -> None:
            await self._page(wanted.name)
            admitted = [
                it.version
                for it in self.listed.candidates(wanted.name)
                if admits(wanted.specifier, it.version)
                and not (it.yanked or it.prerelease or _is_last_resort(it))
            ]
            await asyncio.gather(*(self._read_down(wanted.name, it) for it in admitted))

        await asyncio.gather(*map(read, packages))
        self._require_pages()

    def _require_pages(self) -> None:
        """:raises IndexesSilent: if no index gave a page, and one failed to answer"""
        absences = dict(sorted(self.listed.absences.items()))
        if not self.listed.packages and any(
            it.reason is AbsenceReason.UNAVAILABLE for it in absences.values()
        ):
            raise IndexesSilent(absences)

    def _known(self) -> SnapshotAndEvidence:
        self.progress.rounds += 1
        # Nothing is on its way meanwhile, so this may hold the event loop.
        known = self._knowledge(self.listed)
        self._count_packages()
        self._on_progress(self.progress)
        return known

    async def _read_all(self, reads: NeededReads) -> None:
        """Read versions, and the pages of all packages that a read version requires."""
        if self._ended is None:
            await asyncio.gather(
                *(self._read(it.name, it.version) for it in reads.versions),
                *(self._read_down(it.name, it.version) for it in reads.chosen),
                *map(self._page, reads.packages),
            )
        if self._ended is not None:
            self._drop_unread(self._ended)
            await asyncio.gather(*map(self._page, reads.packages))
        await self._read_required_pages()

    async def _read_required_pages(self) -> None:
        """Read the pages of all packages that a read version requires.

        Packages from the memory bring versions that were read for earlier requests.
        """
        pages: set[str] = set()
        while new := {it.name for it in self.listed.required()} - pages:
            await asyncio.gather(*map(self._page, new))
            pages |= new

    def _drop_unread(self, ended: ReadingEnded) -> None:
        """Leave out all unread versions, because reading has ended."""
        for name, package in self.listed.packages.items():
            for candidate in self.listed.candidates(name):
                if not candidate.read:
                    package.drop(candidate.version, ended.message)

    async def _read_down(self, name: str, version: str) -> None:
        """Read a version, the newest versions that meet its requirements, and so on."""
        await self._read(name, version)
        for candidate in self.listed.candidates(name):
            if candidate.version == version:
                await asyncio.gather(*map(self._read_newest, candidate.requires))

    async def _read_newest(self, required: Dependency) -> None:
        if required.url is not None:
            return
        await self._page(required.name)
        roots = [it.specifier for it in self._roots if it.name == required.name]
        newest = self._newest(required.name, [self._specifier(required), *roots])
        if newest is not None and not newest.read and not newest.sdist_only:
            await self._read_down(newest.name, newest.version)

    def unbuilt(self) -> dict[tuple[str, str], str]:
        """The reasons of failed builds, by name and version."""
        return {} if self._builder is None else dict(sorted(self._builder.failures.items()))

    @property
    def required(self) -> frozenset[str]:
        """Names of the packages that the request itself requires."""
        return frozenset(it.name for it in self._roots)

    def unmet(self) -> dict[str, str]:
        """Why no index can provide a package that the request or a read version requires."""
        reasons = {name: it.message for name, it in self.listed.absences.items()}
        for dependency in self._roots:
            package = self.listed.packages.get(dependency.name)
            if package is not None and not any(
                admits(dependency.specifier, one.version)
                for one in self.listed.candidates(dependency.name)
            ):
                excluded = self.listed.excluded(dependency.name)
                reasons[dependency.name] = _unmet_text(dependency, package.index, excluded)
        return dict(sorted(reasons.items()))

    async def _follow(self, required: Iterable[Dependency]) -> None:
        """Read each package's newest version that meets the known requirements, and follow it."""
        await asyncio.gather(*map(self._want, required))

    async def _want(self, dependency: Dependency) -> None:
        if dependency.url is not None:
            return
        name = dependency.name
        wanted = self._wanted.setdefault(name, set())
        specifier = self._specifier(dependency)
        first = specifier not in wanted
        wanted.add(specifier)
        await self._page(name)
        package = self.listed.packages.get(name)
        if package is None:
            return
        new_extras = not package.extras.issuperset(dependency.extras)
        package.request(dependency.extras)
        if first or new_extras:
            await asyncio.gather(self._read_locked(name), self._follow_newest(name))

    async def _read_locked(self, name: str) -> None:
        """Read the version that the user's lock has, so that its requirements are known."""
        locked = self._locked.get(name)
        if locked is not None and locked in self.listed.packages[name].records:
            await self._read(name, locked)

    async def _follow_newest(self, name: str) -> None:
        # A version that was read and cannot be used is no longer a candidate. Once the time for
        # reading has ended, reading would fail for each further version.
        while self._ended is None:
            newest = self._newest(name, self._wanted[name])
            if newest is None:
                return
            await self._read(name, newest.version)
            for candidate in self.listed.candidates(name):
                if candidate.version == newest.version:
                    await self._follow(candidate.requires)
                    return

    def _specifier(self, required: Dependency) -> str:
        return self._rules.overrides.get(required.name, required.specifier)

    def _newest(self, name: str, specifiers: Iterable[str]) -> Candidate | None:
        """The newest candidate that meets specifiers and the rules of the request."""
        rules = self._rules
        texts = [*specifiers]
        texts += [it.specifier for it in rules.constraints if it.name == name]
        early = (
            rules.all_prereleases or name in rules.prereleases or any(map(names_prerelease, texts))
        )
        excluded = [it.specifier for it in rules.exclusions if it.name == name]
        prerelease = None
        for candidate in self.listed.candidates(name):
            if (
                candidate.yanked
                or (candidate.sdist_only and not rules.may_build(name))
                or _is_last_resort(candidate)
                or not all(admits(text, candidate.version) for text in texts)
                or any(admits(text, candidate.version) for text in excluded)
            ):
                continue
            if early or not candidate.prerelease:
                return candidate
            prerelease = prerelease or candidate
        return prerelease

    async def _page(self, name: str) -> None:
        """Read the page of a package, once."""
        if self.listed.package(name) is not None:
            return
        if name not in self._pages:
            self._pages[name] = asyncio.create_task(self._read_page(name))
        await self._pages[name]

    def _sources(self, name: str) -> tuple[str, ...]:
        """The indexes that a package may come from, in search order."""
        return self._rules.indexes_of(name)

    def _kept(self, name: str) -> ListedPackage | None:
        """The package from the memory, if its first index has it."""
        sources = self._sources(name)
        return self._memory.take(sources[0], name) if sources else None

    def keep(self) -> None:
        """Keep the data that was read, for later requests; call this after storing the data."""
        self._memory.keep(self.listed.packages)

    async def _read_page(self, name: str) -> None:
        sources = self._sources(name)
        for place, index in enumerate(sources):
            reader = self._readers.get(index)
            if reader is None:
                message = f"the index {index} is not configured here (PACKAGE_INDEXES)"
                if self._rules.owner_of(name) is not None:
                    message = f"only {index} may have it (INDEX_NAMESPACES), but {message}"
                self.listed.absences[name] = Absence(AbsenceReason.NOT_CONFIGURED, message)
                return
            try:
                page = await reader.project(name)
            except IndexProblem as problem:
                if problem.code == IndexFault.NOT_FOUND:
                    self.listed.absences[name] = _not_found(sources[: place + 1])
                    continue
                self._ended = problem if isinstance(problem, ReadingEnded) else self._ended
                message = f"it was not read from {index}: {problem}"
                self.listed.absences[name] = Absence(AbsenceReason.UNAVAILABLE, message)
                return
            self.listed.packages[name] = ListedPackage.of_page(index, page)
            self.listed.absences.pop(name, None)
            self._count_packages()
            self._on_progress(self.progress)
            return

    def _count_packages(self) -> None:
        packages = self.listed.packages.values()
        self.progress.packages = len(packages)
        self.progress.listed = sum(len(it.records) for it in packages)

    async def _read(self, name: str, version: str) -> None:
        """Read the metadata of a version, once."""
        if version in self.listed.packages[name].metadata:
            return
        key = name, version
        if key not in self._reads:
            self._reads[key] = asyncio.create_task(self._read_metadata(name, version))
        await self._reads[key]

    async def _read_metadata(self, name: str, version: str) -> None:
        package = self.listed.packages[name]
        reader = self._readers[package.index]
        files = package.page.files_of(version)
        try:
            environment = self._request.environment
            tried = metadata_files(files, environment)
            read = built = await read_release(reader.metadata, name, version, tried, environment)
            self._note_other_file(name, version, tried, read.metadata_file)
            if self._builder is not None:
                built = await self._builder.improved(
                    name, version, read, files, package.index, reader
                )
            package.learn(version, read, built)
            self.progress.read += 1
        except IndexProblem as problem:
            self._ended = problem if isinstance(problem, ReadingEnded) else self._ended
            package.drop(version, problem.message)
        self._on_progress(self.progress)

    def _note_other_file(
        self, name: str, version: str, tried: Sequence[IndexFile], read: str | None
    ) -> None:
        """Note a release whose wheel for this environment could not be read, but another one."""
        chosen = next(iter(tried), None)
        if read is None or chosen is None or read == chosen.filename:
            return
        if installed_rank(chosen.filename, self._request.environment)[0] < inf:
            self.other_files[name, version] = (
                f"{chosen.filename}, which would be installed, was not read: the requirements of"
                f" {name} {version} are those of {read}"
            )


def _is_last_resort(candidate: Candidate) -> bool:
    return candidate.wheel_mismatch is ExclusionReason.SDIST_TOO_OLD


def _not_found(indexes: Sequence[str]) -> Absence:
    verb = "does" if len(indexes) == 1 else "do"
    return Absence(AbsenceReason.NOT_FOUND, f"{' and '.join(indexes)} {verb} not have it")


def _unmet_text(required: Dependency, index: str, excluded: Iterable[Excluded]) -> str:
    """Why a requirement is unmet: no version is listed, none was read, or none can be installed."""
    text = f"version that is {text_of(required)}" if required.specifier else "version of it"
    out = [it for it in excluded if admits(required.specifier, it.version)]
    unread = [it for it in out if it.reason is ExclusionReason.UNAVAILABLE]
    if not out:
        return f"{index} has no {text}"
    what = "was read" if unread else "can be installed here"
    first = (unread or out)[0]
    return f"no {text} {what}; {first.version}: {first.message}"


def over_indexes(  # noqa: PLR0913 - parts of one resolution
    settings: Settings,
    recorded: Callable[[IndexMemory], KnowledgeOfListed],
    request: StackRequest,
    use: Callable[[IndexResolution], Awaitable[T]],
    resolver: Resolver,
    *,
    on_progress: OnProgress = lambda _progress: None,
    on_build: OnBuild = lambda _name, _version: None,
    more: Iterable[Dependency] = (),
    memory: IndexMemory | None = None,
    parse_elsewhere: bool = False,
) -> tuple[T, IndexResolution]:
    """The result of ``use`` over all versions that the indexes of a request list.

    Nothing is stored.

    :param recorded: knows vulnerabilities and measurements, such as :meth:`IndexMemory.knowledge`
    :param use: such as :meth:`IndexResolution.advise`
    :param on_build: called before the metadata of a release is built
    :param more: requirements whose packages are read besides those of the request
    :param memory: data that earlier requests read; :meth:`IndexResolution.keep` adds to it
    :param parse_elsewhere: whether pages are parsed in a fork of this process
    :raises IndexesSilent: if no index gave a page
    :raises CannotBuild: if the request wants builds, and this machine cannot build
    """
    options, more = request.options, tuple(more)
    # What a build says counts for requests that want builds, and for no others.
    memory = IndexMemory() if memory is None or options.build else memory
    knowledge = recorded(memory)
    # The same text for requests that mostly read the same versions.
    roots = sorted(repr(it) for it in (*request.roots, *more))
    earlier = EarlierReads(
        settings.index_cache,
        repr((roots, request.kind, request.environment, request.options.indexes)),
    )
    builder = _builder(settings, request, on_build) if options.build else None
    outcome: list[tuple[T, IndexResolution]] = []

    async def run() -> None:
        names = (it.name for it in options.indexes)
        async with opened_clients(settings, names, parse_elsewhere=parse_elsewhere) as clients:

            def count(progress: ResolutionProgress) -> ResolutionProgress:
                traffic = [it.traffic for it in clients.values()]
                progress.requests = sum(it.requests for it in traffic)
                progress.bytes_received = sum(it.bytes_received for it in traffic)
                return progress

            resolution = IndexResolution(
                request, clients, knowledge, resolver,
                lambda progress: on_progress(count(progress)), more, builder=builder,
                memory=memory.for_request(request, urls_of(clients), more),
                earlier=dict if options.build else earlier.load,
            )  # fmt: skip
            result = await use(resolution)
            count(resolution.progress)
            warnings = (warning for it in clients.values() for warning in it.warnings())
            resolution.warnings = (*dict.fromkeys(warnings), *resolution.other_files.values())
            outcome.append((result, resolution))

    # In the main thread, asyncio.run formats the result of its task, which takes half a second for
    # an advice; so this task has none.
    asyncio.run(run())
    result, resolution = outcome[0]
    # A worker's memory often has everything; then no file is worth its time.
    if resolution.progress.read and not options.build:
        earlier.keep(resolution.reads())
    return result, resolution


def _builder(settings: Settings, request: StackRequest, on_build: OnBuild) -> SdistBuilder:
    # The executor is imported only where something is built.
    from adviser.answering.sdist_builds import SdistBuilder

    return SdistBuilder(settings, request.environment, on_build)
