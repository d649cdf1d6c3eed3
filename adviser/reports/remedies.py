"""What a person can do about packages of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from adviser.asked import Asked
from graph.snapshot import Snapshot

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


def without_remedy(message: str) -> str:
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
