"""Combines the layers of an image into one file tree, without unpacking them to disk."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO

from ingest.native.file_trees import (
    BROKEN_STREAM,
    DEEPEST,
    MEBIBYTE,
    TEXT_BYTES,
    Walker,
    copy_bounded,
    open_decompressed,
    resolve,
)
from model.errors import InvalidDocument
from model.reasons import Reason

#: Limit for files; large real images have some hundred thousand files.
_MOST_MEMBERS = 2_000_000
#: Limit for steps through parts of paths and links in all layers together, which take some seconds.
#: An image with a million folders needs a tenth of it.
_MOST_STEPS = 10_000_000
_LONGEST_PATH = 4_096
_LAYER_BYTES = 64 * 1024 * MEBIBYTE
_LIBRARY_BYTES = 8 * 1024 * MEBIBYTE
_IN_MEMORY_BYTES = 32 * MEBIBYTE
#: Text files whose content is kept while the layers are listed.
_TEXTS = ("etc/", "usr/lib/os-release", "usr/etc/")

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"  # by the OCI image specification


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an image, optionally compressed.

    :param open: returns a new stream of its bytes
    """

    name: str
    open: Callable[[], BinaryIO]


@dataclass(slots=True)
class _Entry:
    """A file, folder or link at a path of an image.

    :param layer: number of the last layer that contains it
    :param names: entries of a folder; ``None`` otherwise
    :param link: target of a link; ``None`` otherwise
    :param place: layer of a file, and its position in the layer; ``None`` otherwise
    :param text: beginning of a configuration file
    :param cleared: number of the last layer that hid the entries of earlier layers in this folder
    """

    layer: int
    names: dict[str, _Entry] | None = None
    link: str | None = None
    place: tuple[int, int] | None = None
    text: bytes | None = None
    cleared: int = -1


class LayeredTree:
    """The file tree of a new container with these layers.

    :param layers: the lowest layer first
    :raises InvalidDocument: if a layer is broken or a bomb, or has paths outside its root
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._root = _Entry(0, names={})
        self._members = 0
        self._steps = 0
        # Folders by path; cleared when an entry is replaced or removed that may be part of a path.
        self._folders: dict[str, _Entry] = {}
        for number in range(len(layers)):
            self._add_layer(number)
        self._folders.clear()

    def walker(self) -> Walker:
        return _LayeredWalker(self._root, self._step)

    def is_file(self, path: str) -> bool:
        entry = self._at(path)
        return entry is not None and entry.place is not None

    def names(self, folder: str) -> list[str]:
        entry = self._at(folder)
        return [] if entry is None else sorted(entry.names or ())

    def text(self, path: str) -> str | None:
        entry = self._at(path)
        if entry is None or entry.text is None:
            return None
        return entry.text.decode("utf-8", "replace")

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        wanted: dict[int, dict[int, list[str]]] = {}
        for path in paths:
            entry = self._at(path)
            if entry is not None and entry.place is not None:
                layer, place = entry.place
                wanted.setdefault(layer, {}).setdefault(place, []).append(path)
        for layer, places in wanted.items():
            yield from self._read(layer, places)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidDocument(
                Reason.ARCHIVE_BOMB, f"its paths and links take more than {_MOST_STEPS} steps"
            )

    def _at(self, path: str) -> _Entry | None:
        entry: _Entry | None = self._root
        for part in path.split("/") if path else ():
            entry = None if entry is None or entry.names is None else entry.names.get(part)
        return entry

    def _read(self, number: int, places: dict[int, list[str]]) -> Iterator[tuple[str, IO[bytes]]]:
        left = len(places)
        with _members(self._layers[number]) as members:
            for place, (archive, member) in enumerate(members):
                if place not in places:
                    continue
                content = archive.extractfile(member)
                with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as stream:
                    if content is not None:
                        copy_bounded(content, stream, member.size)
                    for path in places[place]:  # several if there are hard links to it
                        stream.seek(0)
                        yield path, stream
                left -= 1
                if not left:
                    return

    def _add_layer(self, number: int) -> None:
        with _members(self._layers[number]) as members:
            for place, (archive, member) in enumerate(members):
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise InvalidDocument(
                        Reason.ARCHIVE_BOMB, f"more than {_MOST_MEMBERS} files in all layers"
                    )
                self._add((number, place), archive, member)

    def _add(
        self, place: tuple[int, int], archive: tarfile.TarFile, member: tarfile.TarInfo
    ) -> None:
        """Add one member of a layer."""
        path = _clean(member.name, self._layers[place[0]].name)
        folder, _, name = path.rpartition("/")
        if not name:
            return
        parent = self._folder(folder, place[0])
        names = parent.names if parent.names is not None else {}
        known = names.get(name)
        if name == _OPAQUE:
            self._folders.clear()
            _clear(parent, place[0])
        elif name.startswith(_WHITEOUT):
            self._folders.clear()
            _hide(names, name.removeprefix(_WHITEOUT), place[0])
        elif entry := self._entry(place, member, known):
            if known is not None and known is not entry and known.place is None:
                self._folders.clear()
            if member.isreg() and path.startswith(_TEXTS):
                content = archive.extractfile(member)
                entry.text = None if content is None else content.read(TEXT_BYTES)
            names[name] = entry

    def _entry(
        self, place: tuple[int, int], member: tarfile.TarInfo, known: _Entry | None
    ) -> _Entry | None:
        layer = place[0]
        if member.isdir():
            if known is None or known.names is None:
                return _Entry(layer, names={})
            known.layer = layer  # a folder over a folder keeps its entries
            return known
        if member.issym():
            return _Entry(layer, link=member.linkname[:_LONGEST_PATH])
        if member.islnk():
            target = resolve(self, _clean(member.linkname, self._layers[layer].name))
            known = None if target is None else self._at(target)
            return _Entry(layer, place=known.place, text=known.text) if known else None
        if member.isreg() and not member.issparse():
            if member.size > _LIBRARY_BYTES:
                raise InvalidDocument(
                    Reason.FILE_TOO_LARGE, f"{member.size} bytes", place=member.name[:200]
                )
            return _Entry(layer, place=place)
        return _Entry(layer)  # a device or a pipe hides what was there

    def _folder(self, path: str, layer: int) -> _Entry:
        """Return the folder at ``path``, following links; create it if it is missing."""
        if path in self._folders:
            return self._folders[path]
        real = resolve(self, path)
        if real is None:
            raise InvalidDocument(
                Reason.ARCHIVE_PATH,
                f"{path[:200]!r} has circular links, or is deeper than {DEEPEST} folders",
                place=self._layers[layer].name,
            )
        entry = self._root
        for part in real.split("/") if real else ():
            names = entry.names if entry.names is not None else {}
            inner = names.get(part)
            if inner is None or inner.names is None:
                inner = names[part] = _Entry(layer, names={})
            entry = inner
        self._folders[path] = entry
        return entry


class _LayeredWalker:
    """A walker that keeps its path, so that each step starts where the last step ended."""

    def __init__(self, root: _Entry, on_step: Callable[[], None]) -> None:
        self._path: list[_Entry | None] = [root]
        self._on_step = on_step

    def enter(self, name: str) -> str | None:
        self._on_step()
        folder = self._path[-1]
        entry = None if folder is None or folder.names is None else folder.names.get(name)
        if entry is not None and entry.link is not None:
            return entry.link
        self._path.append(entry)
        return None

    def leave(self) -> None:
        self._on_step()
        self._path.pop()

    def restart(self) -> None:
        del self._path[1:]


def _hide(names: dict[str, _Entry], name: str, layer: int) -> None:
    """Remove the entries of lower layers at ``name``; keep the entries of ``layer`` itself."""
    entry = names.get(name)
    if entry is None:
        return
    _clear(entry, layer)
    if entry.layer < layer and not entry.names:
        del names[name]


def _clear(folder: _Entry, layer: int) -> None:
    """Remove a folder's entries, at any depth, that come from layers below ``layer``."""
    folders: list[dict[str, _Entry]] = []
    remaining = [folder]
    while remaining:
        entry = remaining.pop()
        if entry.names is not None and entry.cleared != layer:
            entry.cleared = layer  # a layer clears a folder only once
            folders.append(entry.names)
            remaining += entry.names.values()
    for names in reversed(folders):  # inner folders first
        for name, inner in list(names.items()):
            if inner.layer < layer and not inner.names:
                del names[name]


def _clean(name: str, layer: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or len(name) > _LONGEST_PATH or len(parts) > DEEPEST or "\0" in name:
        raise InvalidDocument(
            Reason.ARCHIVE_PATH, f"a file leaves the layer: {name[:200]!r}", place=layer
        )
    return "/".join(parts)


@contextmanager
def _members(layer: Layer) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    """Yield the members of a layer in order; a broken layer raises ``InvalidDocument``."""
    try:
        with layer.open() as packed:
            stream = open_decompressed(packed, _LAYER_BYTES, layer.name)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                yield _each(archive)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *BROKEN_STREAM) as error:
        message = str(error)[:200] or "the archive is truncated"
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=layer.name) from error


def _each(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    while (member := archive.next()) is not None:
        yield archive, member
        # Otherwise tarfile keeps every header. typeshed does not know the attribute.
        archive.members = []  # type: ignore[attr-defined]
