"""Package versions that the store lacks: whole packages, or versions that only the index lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from adviser.advice_request import StackRequest
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Conflict, ConflictStep, FactKind
from adviser.resolver.specifiers import admits, names_prerelease
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.identity import DEFAULT_INDEX, version_of
from model.packages.snapshot import Snapshot
from model.text import counted, first_few

#: Versions on an index whose metadata were not read; newest first, by package and index.
ListedVersions = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class UnfetchedVersions:
    """Unread versions of a package that could resolve a conflict.

    :param count: number of these versions
    :param newest: the newest of them
    :param known: number of versions of the package that were read
    :param wanted: the request's specifier, if no version that was read satisfies it
    """

    name: str
    index: str
    count: int
    newest: str
    known: int
    wanted: str | None = None

    def message(self, fetch: bool | None = None) -> str:
        """A message that names the missing versions and the command that fetches them.

        :param fetch: ``False`` after ``--offline``
        """
        known = counted(self.known, "version that was", "versions that were")
        more = (
            f"1 more, {self.newest}"
            if self.count == 1
            else f"{self.count} more, {self.newest} first"
        )
        covered = f"the conflict covers the {known} read"
        return f"{self.name}: {covered}; {self.index} lists {more}: {self._remedy(fetch)}"

    def _remedy(self, fetch: bool | None) -> str:
        """The command that reads the versions on which the answer depends.

        Reading a number of older versions is never suggested, because it could only make an old
        version win.
        """
        if self.wanted is None:
            return f"{_fetching(fetch)} reads those that decide"
        at = "" if self.index == DEFAULT_INDEX else f" --index {self.index}"
        return f"`thoth packages add '{self.name}{self.wanted}'{at}` or --fetch reads it"


def unfetched_in(
    conflict: Conflict, request: StackRequest, snapshot: Snapshot, listed: ListedVersions
) -> tuple[UnfetchedVersions, ...]:
    """Unread versions that could resolve a conflict.

    A version counts if it satisfies the request and, for each package in the conflict that requires
    it, at least one specifier. If the request sets a minimum upload time, a version does not count
    if the next higher version that was read is too old. Packages are in the order of the conflict's
    accounts.
    """
    rules = request.resolver_request({})
    names = dict.fromkeys(it.name for it in conflict.accounts)
    versions = (_unfetched(name, conflict.steps, rules, snapshot, listed) for name in names)
    return tuple(it for it in versions if it is not None)


def _unfetched(
    name: str,
    steps: Sequence[ConflictStep],
    request: ResolverRequest,
    snapshot: Snapshot,
    listed: ListedVersions,
) -> UnfetchedVersions | None:
    by_index = _versions_read(name, snapshot)
    sources = request.indexes_of(name)
    index = next((it for it in sources if it in by_index), None)
    if index is None:
        return None  # the package is missing altogether; another note says so
    own = list(_request_specifiers(name, steps, request))
    others = _conflict_specifiers(name, steps)
    prereleases = request.all_prereleases or name in request.prereleases
    prereleases |= any(map(names_prerelease, own))
    # Versions that were read and have an upload time, newest first.
    candidates = snapshot.packages.get(name, ())
    dated = [it for it in candidates if it.index == index and it.uploaded_at is not None]
    left = [
        version
        for version in listed.get(name, {}).get(index, ())
        if all(admits(text, version) for text in own)
        and all(any(admits(text, version) for text in texts) for texts in others)
        and (prereleases or not _is_prerelease(version))
        and not _is_too_old(version, dated, request.published_after)
    ]
    if not left:
        return None
    read = by_index[index]
    satisfied = any(
        all(admits(text, it) for text in own) for it in read if version_of(it) is not None
    )
    wanted = None if satisfied else ",".join(filter(None, own))
    return UnfetchedVersions(name, index, len(left), left[0], len(read), wanted)


def _versions_read(name: str, snapshot: Snapshot) -> dict[str, list[str]]:
    """The versions of a package that were read, by index."""
    versions: dict[str, list[str]] = {}
    for it in snapshot.packages.get(name, ()):
        versions.setdefault(it.index, []).append(it.version)
    for out in snapshot.excluded.get(name, ()):
        if out.reason is not ExclusionReason.UNREAD:
            versions.setdefault(out.index, []).append(out.version)
    return versions


def _request_specifiers(
    name: str, steps: Sequence[ConflictStep], request: ResolverRequest
) -> Iterator[str]:
    """Specifiers of the request for a package."""
    yield from (it.specifier for it in steps if it.kind is FactKind.ASKED and it.required == name)
    yield from (it.specifier for it in request.constraints if it.name == name)


def _conflict_specifiers(name: str, steps: Sequence[ConflictStep]) -> list[list[str]]:
    """Specifiers for a package, grouped by the package of the conflict that requires it."""
    specifiers: dict[str, list[str]] = {}
    for step in steps:
        if step.kind is FactKind.REQUIRES and step.required == name:
            specifiers.setdefault(step.name, []).append(step.specifier)
    return list(specifiers.values())


def _is_too_old(text: str, dated: Sequence[Candidate], after: datetime | None) -> bool:
    """Whether the next higher version that was read is already too old.

    The upload time of a version that was not read is unknown. The upload time of the next higher
    version is a good estimate, even for late fixes of an old series.
    """
    version = version_of(text)
    if after is None or version is None:
        return False
    times = [
        it.uploaded_at
        for it in dated
        if (theirs := version_of(it.version)) is not None and theirs > version
    ]
    return bool(times) and times[-1] is not None and times[-1] < after


def _is_prerelease(text: str) -> bool:
    version = version_of(text)
    return version is None or version.is_prerelease


#: Maximum number of names in a message.
_SHOWN = 10


def knows_nothing(snapshot: Snapshot) -> bool:
    """Whether the store has none of the requested packages, for example because it is empty."""
    return bool(snapshot.missing) and not snapshot.packages and not snapshot.absences


@dataclass(frozen=True, slots=True)
class MissingPackages:
    """Required packages that the store lacks.

    :param problem: which packages these are
    :param commands: those that read them; empty if no index for them is configured
    """

    problem: str
    commands: tuple[str, ...]

    def message(self, fetch: bool | None = None) -> str:
        """The problem, with the remedy that fits the options ``--fetch`` and ``--offline``.

        :param fetch: ``True`` after ``--fetch``, which leaves no remedy; ``False`` after
            ``--offline``
        """
        if not self.commands:
            return f"{self.problem}; no index for them is configured here (PACKAGE_INDEXES)"
        if fetch:
            return self.problem
        commands = " and ".join(self.commands)
        return f"{self.problem}: {_fetching(fetch)} reads them first, like {commands}"


def missing_packages(request: StackRequest, snapshot: Snapshot) -> MissingPackages | None:
    """The missing packages; ``None`` if nothing is missing.

    Requirements that name an index are fetched from that index only, if it is configured. Packages
    that were already requested from an index are left out.
    """
    missing = [it for it in snapshot.missing if it not in snapshot.absences]
    if not missing:
        return None
    problem = "the store has none of the required packages"
    if not knows_nothing(snapshot):
        problem = f"not in the store: {first_few(missing, _SHOWN)}"
    return MissingPackages(problem, tuple(_commands(request, missing)))


def _fetching(fetch: bool | None) -> str:
    """The command that reads from indexes, after ``--offline`` if ``fetch`` is ``False``."""
    return "`thoth advise` without `--offline`" if fetch is False else "`thoth advise --fetch`"


def _commands(request: StackRequest, missing: Iterable[str]) -> Iterator[str]:
    rules = request.resolver_request({})
    known = {it.name for it in request.options.indexes if it.known}
    groups: dict[str, list[str]] = {}
    for name in missing:
        # An index that is not configured ends the search.
        if known.issuperset(rules.indexes_of(name)[:1]):
            groups.setdefault(rules.only_index_of(name) or "", []).append(name)
    for index, names in sorted(groups.items()):
        option = f" --index {index}" if index else ""
        shown = " ".join(names[:_SHOWN]) + (" …" if names[_SHOWN:] else "")
        yield f"`thoth packages add {shown}{option}`"
