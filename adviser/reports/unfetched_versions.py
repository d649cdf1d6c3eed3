"""What the store does not have yet: missing packages, and listed versions that were not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from adviser.asked import Asked
from adviser.resolver.requests import Request
from adviser.resolver.results import Conflict, Step
from adviser.resolver.specifiers import admits, names_prerelease
from common.packages import DEFAULT_INDEX, version_of
from graph.candidates import Candidate, ExclusionReason
from graph.snapshot import Snapshot

#: Versions that nobody has read, newest first, by package and index.
ListedVersions = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class UnfetchedVersions:
    """A package of a conflict with versions that nobody has read and that the conflict's steps
    leave open.

    :param count: how many
    :param newest: of them
    :param known: versions of it that were read
    :param wanted: what the request asks of it, if no version that was read is that
    """

    name: str
    index: str
    count: int
    newest: str
    known: int
    wanted: str | None = None

    @property
    def message(self) -> str:
        """What is not known, and what to do about it."""
        more = f"{self.count} more that nobody has read, {self.newest} the newest"
        if self.count == 1:
            more = f"one more that nobody has read, {self.newest}"
        known = "the one known version" if self.known == 1 else f"the {self.known} known versions"
        return f"{self.name}: infeasible among {known}; {self.index} lists {more}: {self._remedy}"

    @property
    def _remedy(self) -> str:
        at = "" if self.index == DEFAULT_INDEX else f" --index {self.index}"
        if self.wanted is not None:
            return f"`thoth packages add '{self.name}{self.wanted}'{at}`, or --fetch, reads it"
        every = self.known + self.count
        return f"`thoth packages add {self.name} --max-versions {every}{at}` reads them"


def unfetched_in(
    conflict: Conflict, asked: Asked, snapshot: Snapshot, listed: ListedVersions
) -> tuple[UnfetchedVersions, ...]:
    """What of a conflict's packages may be otherwise, in the order of its accounts.

    A version counts that is within all that the request says of its package, and within
    something that each requiring package of the conflict asks of it. Where the request takes only
    what is newer than a date, none counts below a version that is older than that.
    """
    request = asked.resolver_request({})
    names = dict.fromkeys(it.name for it in conflict.accounts)
    found = (_unfetched(name, conflict.steps, request, snapshot, listed) for name in names)
    return tuple(it for it in found if it is not None)


def _unfetched(
    name: str, steps: Sequence[Step], request: Request, snapshot: Snapshot, listed: ListedVersions
) -> UnfetchedVersions | None:
    by_index = _read(name, snapshot)
    sources = (request.index_of[name],) if name in request.index_of else request.indexes
    index = next((it for it in sources if it in by_index), None)
    if index is None:
        return None  # nothing at all is known of it, which is told elsewhere
    own = list(_own(name, steps, request))
    others = _required(name, steps)
    welcome = request.all_prereleases or name in request.prereleases
    welcome |= any(map(names_prerelease, own))
    dated = _dated(name, index, snapshot)
    left = [
        it
        for it in listed.get(name, {}).get(index, ())
        if all(admits(text, it) for text in own)
        and all(any(admits(text, it) for text in texts) for texts in others)
        and (welcome or not _is_prerelease(it))
        and not _is_too_old(it, dated, request.published_after)
    ]
    if not left:
        return None
    read = by_index[index]
    met = any(all(admits(text, it) for text in own) for it in read if version_of(it) is not None)
    wanted = None if met else ",".join(filter(None, own))
    return UnfetchedVersions(name, index, len(left), left[0], len(read), wanted)


def _read(name: str, snapshot: Snapshot) -> dict[str, list[str]]:
    """The versions that were read, by index."""
    found: dict[str, list[str]] = {}
    for it in snapshot.packages.get(name, ()):
        found.setdefault(it.index, []).append(it.version)
    for out in snapshot.excluded.get(name, ()):
        if out.reason is not ExclusionReason.UNREAD:
            found.setdefault(out.index, []).append(out.version)
    return found


def _own(name: str, steps: Sequence[Step], request: Request) -> Iterator[str]:
    """What the request says of a package."""
    yield from (it.specifier for it in steps if it.kind == "asked" and it.required == name)
    yield from (it.specifier for it in request.constraints if it.name == name)


def _required(name: str, steps: Sequence[Step]) -> list[list[str]]:
    """What each other package of the conflict asks of one."""
    found: dict[str, list[str]] = {}
    for it in steps:
        if it.kind == "requires" and it.required == name:
            found.setdefault(it.name, []).append(it.specifier)
    return list(found.values())


def _dated(name: str, index: str, snapshot: Snapshot) -> list[Candidate]:
    """The versions that were read and whose time is known, newest first."""
    read = snapshot.packages.get(name, ())
    return [it for it in read if it.index == index and it.uploaded_at is not None]


def _is_too_old(text: str, dated: Sequence[Candidate], after: datetime | None) -> bool:
    """Whether the next higher version that was read is too old already.

    Of what was not read no time is known; what mends an old series is next to its like.
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


#: Where what to do begins.
_REMEDY = ": `thoth advise --fetch` reads it"

#: Names in a message: ``--fetch`` needs none of them.
_SHOWN = 10


def knows_nothing(snapshot: Snapshot) -> bool:
    """Whether something is asked for and nothing at all is known of it, as in an empty store."""
    return bool(snapshot.missing) and not snapshot.packages


def missing_message(asked: Asked, snapshot: Snapshot) -> str | None:
    """What is not known and how it gets known, in one line; ``None`` if nothing is missing.

    Packages that name an index are looked for there alone, and only if this machine knows it.
    """
    if not snapshot.missing:
        return None
    told = "nothing is known yet of what is asked for"
    if not knows_nothing(snapshot):
        told = f"not known yet: {_some(snapshot.missing, ', ')}"
    commands = " and ".join(_commands(asked, snapshot.missing))
    if not commands:
        return f"{told}; no index that it comes from is configured here (PACKAGE_INDEXES)"
    return f"{told}{_REMEDY} from the indexes first, as {commands} would"


def without_fetch_hint(message: str) -> str:
    """The same where ``--fetch`` was given and did not bring it.

    >>> without_remedy("not known yet: web: `thoth advise --fetch` reads it from …")
    'not known yet: web'
    """
    return message.partition(_REMEDY)[0]


def _commands(asked: Asked, missing: Iterable[str]) -> Iterator[str]:
    own = {it.name: asked.index_named(it.index) for it in asked.requirements if it.index}
    known = {it.name for it in asked.options.indexes if it.known}
    groups: dict[str, list[str]] = {}
    for name in missing:
        groups.setdefault(own.get(name, ""), []).append(name)
    for index, names in sorted(groups.items()):
        if not index or index in known:
            option = f" --index {index}" if index else ""
            yield f"`thoth packages add {_some(names, ' ')}{option}`"


def _some(names: Sequence[str], between: str) -> str:
    return between.join(names[:_SHOWN]) + (" …" if names[_SHOWN:] else "")
