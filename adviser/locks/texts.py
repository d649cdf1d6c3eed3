"""Requirements with hashes, and constraints, as pip and uv read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adviser.locks.files import hashes_of
from adviser.locks.stacks import Chosen, LockOptions, NoLock
from adviser.projects.indexes import public_text
from common.packages import DEFAULT_INDEX

#: Both formats, and what made them; a digest of the file tells two of them apart, no date.
_HEADER = "# Made by thoth for {label}."


def requirements_text(stack: Sequence[Chosen], options: LockOptions) -> str:
    """``requirements.txt`` in which every file is named by its hash.

    An address of the default index is not written: each machine has its own. Hashes make sure
    that a package of the same name on another index is never taken.

    :raises NoLock: if a package has no file that can be locked, or its index no address
    """
    lines = [_HEADER.format(label=options.environment.label), *_index_options(stack, options)]
    for it in stack:
        hashes = [f"    --hash={value}" for value in hashes_of(it, options)]
        lines.append(" \\\n".join([_pinned(it, extras=True), *hashes]))
    return "\n".join(lines) + "\n"


def constraints_text(stack: Sequence[Chosen], options: LockOptions) -> str:
    """``constraints.txt``: versions without hashes, for whatever of them is installed."""
    lines = [_HEADER.format(label=options.environment.label)]
    lines += [_pinned(it, extras=False) for it in stack]
    return "\n".join(lines) + "\n"


def _pinned(chosen: Chosen, *, extras: bool) -> str:
    named = f"[{','.join(sorted(chosen.extras))}]" if extras and chosen.extras else ""
    marker = f" ; {chosen.marker}" if chosen.marker else ""
    return f"{chosen.name}{named}=={chosen.version}{marker}"


def _index_options(stack: Sequence[Chosen], options: LockOptions) -> Iterator[str]:
    used = {it.index for it in stack}
    order = [name for name in options.indexes if name in used]
    if missing := sorted(used - set(order) - {DEFAULT_INDEX}):
        raise NoLock(
            f"the index {missing[0]} has no address here",
            "`PACKAGE_INDEXES` or uv's configuration gives it one",
        )
    main = next(iter(order), None) if DEFAULT_INDEX not in used else None
    for name in order:
        url = public_text(options.indexes[name])
        if url.startswith("file:"):
            yield f"--find-links {url}"
        elif name == main:
            yield f"--index-url {url}"
        elif name != DEFAULT_INDEX:
            yield f"--extra-index-url {url}"
