"""``Pipfile.lock`` of pipenv."""

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from common.formats.locks.entries import (
    DEFAULT_REQUEST,
    LockContent,
    LockEntry,
    LockRequest,
    LockTable,
    pin_of,
    readable,
    require_known,
)
from common.formats.requirements_files import SOURCE_KEYS, SourceKind, is_remote
from model.errors import InvalidDocument

#: Keys of an entry, by field of :class:`LockEntry`.
KEYS = {"version": "version", "hashes": "hashes", "marker": "markers", "extras": "extras",
        "index": "index", **{it: it for it in SOURCE_KEYS}}  # fmt: skip
_PYTHONS = ("python_full_version", "python_version")


def read_pipfile_lock(lock: LockTable, request: LockRequest = DEFAULT_REQUEST) -> LockContent:
    """Read a whole lock; its default groups are the development groups.

    :raises InvalidFile: if anything except an entry has the wrong type, or a selected group is not
        there
    """
    meta = lock.nested("_meta")
    requires = meta.nested("requires")
    every = others = sorted(lock.keys() - {"_meta", "default"})
    selection = request.selection
    known = {canonicalize_name(it) for it in others} | {"dev"}
    require_known("group", selection.groups, known, lock.at)
    require_known("extra", selection.extras, (), lock.at)
    if not selection.default_groups:
        wanted = selection.groups | ({"develop"} if "dev" in selection.groups else set())
        others = [it for it in others if canonicalize_name(it) in wanted]
    return LockContent(
        tuple(it for key in ("default", *others) for it in entries_of(lock, key)),
        sources=tuple(meta.each("sources")),
        manifest_hash=meta.nested("hash").text("sha256"),
        python=next(filter(None, map(requires.text, _PYTHONS)), None),
        pins=frozenset(
            pin_of(it.name, it.version)
            for key in ("default", *every)
            for it in entries_of(lock, key)
            if isinstance(it, LockEntry) and it.version
        ),
    )


def entries_of(lock: LockTable, section: str) -> Iterator[LockEntry | InvalidDocument]:
    """Read one section; sections other than ``default`` are for development."""
    table = lock.nested(section)
    return readable(_entry, ((table, name, section != "default") for name in table))


def _entry(section: LockTable, name: str, dev: bool) -> LockEntry:
    entry = section.nested(name)
    for key, source in SOURCE_KEYS.items():
        if target := entry.get(key):
            return LockEntry(
                name, "", dev=dev, origin=entry.at, source=source, source_key=key,
                target="" if target is True else str(target), local=_is_beside_lock(entry),
            )  # fmt: skip
    specifier = entry.text("version") or ""
    version = pinned_version(specifier) or ""
    is_open = not version or version.endswith("*")
    return LockEntry(
        name,
        "" if is_open else version,
        tuple(entry.texts("hashes")),
        entry.text("markers"),
        entry.text("index"),
        tuple(entry.texts("extras")),
        dev,
        origin=entry.at,
        target=specifier if is_open else "",
    )


def _is_beside_lock(entry: LockTable) -> bool:
    kinds = {SOURCE_KEYS[key] for key in SOURCE_KEYS if entry.get(key)}
    targets = [it for it in (entry.get("path"), entry.get("file")) if it]
    if SourceKind.REPOSITORY in kinds or not targets:
        return False
    return not any(is_remote(str(it)) for it in targets)


def pinned_version(specifier: str | None) -> str | None:
    """The version after ``==``, as it is written; ``None`` if the specifier pins no version.

    >>> pinned_version("== 1.0RC1"), pinned_version(">=1")
    ('1.0RC1', None)
    """
    pins = specifier is not None and specifier.startswith("==")
    return specifier.lstrip("=").strip() if specifier and pins else None
