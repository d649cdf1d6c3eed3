"""Change packages in a ``Pipfile.lock`` or ``pylock.toml``, and keep everything else of it.

A lock that Thoth writes is for one environment. Entries for other environments, markers and tables
of tools exist only in the lock itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

import tomli_w
from packaging.utils import canonicalize_name

from adviser.locks.formats import LockFormat, pipfile_lock_text
from common.formats.file_decoding import json_of, toml_of
from model.packages.identity import VersionChange, same_version

_Table = dict[str, Any]


def with_changed_entries(
    form: LockFormat, old: bytes, new: bytes, changes: Iterable[VersionChange]
) -> bytes:
    """A lock in which only some packages change.

    Changed entries keep their markers.

    :param form: a format with entries: :attr:`LockFormat.PIPFILE_LOCK` or
        :attr:`LockFormat.PYLOCK`
    :param new: a lock of the same format, from which changed and added packages are taken
    :param changes: the packages that differ
    """
    by_name = {it.name: it for it in changes}
    if form is LockFormat.PIPFILE_LOCK:
        return _changed_pipfile_lock(json_of("", old), json_of("", new), by_name)
    comments = takewhile(lambda line: line.startswith("#"), old.decode().splitlines(keepends=True))
    lock, made = toml_of("", old), toml_of("", new)
    lock["packages"] = [*_changed_packages(lock["packages"], made["packages"], by_name)]
    return f"{''.join(comments)}{tomli_w.dumps(lock)}".encode()


def _changed_pipfile_lock(
    lock: _Table, made: _Table, changes: Mapping[str, VersionChange]
) -> bytes:
    sources = lock["_meta"].setdefault("sources", [])
    known = {it.get("name") for it in sources}
    sources += [it for it in made["_meta"]["sources"] if it.get("name") not in known]
    new = {name: entry for key in made if key != "_meta" for name, entry in made[key].items()}
    for section in (lock[it] for it in lock if it != "_meta"):
        for key, entry in list(section.items()):
            change = changes.get(canonicalize_name(key))
            version = str(entry.get("version", "")).removeprefix("==")
            if change is None or not same_version(version, change.old):
                continue
            if change.new is None:
                del section[key]
            else:
                fresh = new[change.name]
                index = {"index": fresh["index"]} if "index" in fresh else {}
                section[key] = {**index, **entry, **{it: fresh[it] for it in ("version", "hashes")}}
    for key in made.keys() - {"_meta"}:
        added = {it: made[key][it] for it in made[key] if it in changes and not changes[it].old}
        lock.setdefault(key, {}).update(added)
    return pipfile_lock_text(lock).encode()


def _changed_packages(
    old: list[_Table], new: list[_Table], changes: Mapping[str, VersionChange]
) -> Iterator[_Table]:
    made = {it["name"]: it for it in new}
    left_out = None if any("dependencies" in it for it in old) else "dependencies"

    def changed(package: _Table) -> _Table | None:
        """What a package of the lock, or a reference to one, becomes."""
        change = changes.get(canonicalize_name(package["name"]))
        if change is None or not same_version(str(package.get("version", "")), change.old):
            return package
        return None if change.new is None else {**package, "version": change.new}

    def of_lock(package: _Table) -> _Table:
        """A package with the keys that this lock has."""
        return {key: it for key, it in package.items() if key != left_out and it is not None}

    for package in old:
        if (kept := changed(package)) is None:
            continue
        if kept is not package:
            kept = {**made[canonicalize_name(package["name"])], "marker": package.get("marker")}
        elif "dependencies" in package:
            needs = map(changed, package["dependencies"])
            kept = {**package, "dependencies": [it for it in needs if it is not None]}
        yield of_lock(kept)
    yield from (
        of_lock(it) for name, it in made.items() if name in changes and not changes[name].old
    )
