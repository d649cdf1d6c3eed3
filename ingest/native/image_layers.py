"""Combines the layers of an image into one file tree, without unpacking them to disk."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, NamedTuple

from ingest.native.file_trees import (
    BROKEN_STREAM,
    DEEPEST,
    MEBIBYTE,
    TEXT_BYTES,
    copy_bounded,
    open_decompressed,
    resolve,
)
from model.errors import InvalidDocument, Reason

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


class _File(NamedTuple):
    """A file: its layer, its position in the layer, and the beginning of a configuration file."""

    layer: int
    place: int
    text: bytes | None = None


class _Hardlink(NamedTuple):
    target: str


#: A folder by names, the target of a link, a file, or ``None`` for a device or a pipe.
_Entry = dict[str, "_Entry"] | str | _File | None


class LayeredTree:
    """The file tree of a new container with these layers.

    :param layers: the lowest layer first
    :raises InvalidDocument: if a layer is broken or a bomb, or has paths outside its root
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self.root: _Entry = {}
        self._members = 0
        self._steps = 0
        # Folders by path; cleared when an entry is replaced or removed that may be part of a path.
        self._folders: dict[str, dict[str, _Entry]] = {}
        for number in range(len(layers)):
            self._add_layer(number)
        self._folders.clear()

    def enter(self, folder: _Entry, name: str) -> _Entry:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidDocument(
                Reason.ARCHIVE_BOMB, f"its paths and links take more than {_MOST_STEPS} steps"
            )
        return folder.get(name) if isinstance(folder, dict) else None

    def is_file(self, path: str) -> bool:
        return isinstance(self._at(path), _File)

    def names(self, folder: str) -> list[str]:
        entry = self._at(folder)
        return sorted(entry) if isinstance(entry, dict) else []

    def text(self, path: str) -> str | None:
        entry = self._at(path)
        text = entry.text if isinstance(entry, _File) else None
        return None if text is None else text.decode("utf-8", "replace")

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        wanted: dict[int, dict[int, list[str]]] = {}
        for path in paths:
            entry = self._at(path)
            if isinstance(entry, _File):
                wanted.setdefault(entry.layer, {}).setdefault(entry.place, []).append(path)
        for layer, places in wanted.items():
            yield from self._read(layer, places)

    def _at(self, path: str) -> _Entry:
        entry = self.root
        for part in path.split("/") if path else ():
            entry = entry.get(part) if isinstance(entry, dict) else None
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
        """Remove what a layer removes of the layers below it, then add its own entries."""
        removed: list[tuple[str, str]] = []
        added: list[tuple[str, str, _Entry | _Hardlink]] = []
        with _members(self._layers[number]) as members:
            for place, (archive, member) in enumerate(members):
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise InvalidDocument(
                        Reason.ARCHIVE_BOMB, f"more than {_MOST_MEMBERS} files in all layers"
                    )
                path = _clean(member.name, self._layers[number].name)
                folder, _, name = path.rpartition("/")
                if name.startswith(_WHITEOUT):
                    removed.append((folder, name))
                elif name:
                    added.append((folder, name, self._entry(number, place, path, archive, member)))
        for folder, name in removed:
            names = self._folder(folder, number)
            if name == _OPAQUE:
                names.clear()
            else:
                names.pop(name.removeprefix(_WHITEOUT), None)
            self._folders.clear()
        for folder, name, entry in added:
            self._add(self._folder(folder, number), name, entry)

    def _add(self, names: dict[str, _Entry], name: str, entry: _Entry | _Hardlink) -> None:
        if isinstance(entry, _Hardlink):
            target = resolve(self, entry.target)
            entry = None if target is None else self._at(target)
            if not isinstance(entry, _File):
                return
        known = names.get(name)
        if isinstance(known, dict) and isinstance(entry, dict):
            return  # a folder over a folder keeps its entries
        if isinstance(known, dict | str):
            self._folders.clear()
        names[name] = entry

    def _entry(
        self, number: int, place: int, path: str, archive: tarfile.TarFile, member: tarfile.TarInfo
    ) -> _Entry | _Hardlink:
        if member.isdir():
            return {}
        if member.issym():
            return member.linkname[:_LONGEST_PATH]
        if member.islnk():
            return _Hardlink(_clean(member.linkname, self._layers[number].name))
        if not member.isreg() or member.issparse():
            return None  # a device or a pipe hides what was there
        if member.size > _LIBRARY_BYTES:
            raise InvalidDocument(
                Reason.FILE_TOO_LARGE, f"{member.size} bytes", place=member.name[:200]
            )
        content = archive.extractfile(member) if path.startswith(_TEXTS) else None
        return _File(number, place, None if content is None else content.read(TEXT_BYTES))

    def _folder(self, path: str, number: int) -> dict[str, _Entry]:
        """Return the folder at ``path``, following links; create it if it is missing."""
        if path in self._folders:
            return self._folders[path]
        real = resolve(self, path)
        if real is None:
            raise InvalidDocument(
                Reason.ARCHIVE_PATH,
                f"{path[:200]!r} has circular links, or is deeper than {DEEPEST} folders",
                place=self._layers[number].name,
            )
        names = self.root if isinstance(self.root, dict) else {}
        for part in real.split("/") if real else ():
            inner = names.get(part)
            if not isinstance(inner, dict):
                inner = names[part] = {}
            names = inner
        self._folders[path] = names
        return names


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
