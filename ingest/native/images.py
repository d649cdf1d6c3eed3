"""Opens container images: root folders, OCI layouts, and output of ``save`` and ``export``.

Layers are combined into one file tree without unpacking them to disk.
"""

import hashlib
import platform
import posixpath
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast

import orjson

from ingest.native.file_trees import (
    BROKEN_STREAM,
    DEEPEST,
    MEBIBYTE,
    TEXT_BYTES,
    FolderTree,
    Tree,
    copy_bounded,
    is_there,
    open_decompressed,
    resolve,
)
from ingest.sources.archives import BoundedReads
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.text import first_few, printable

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
    with _reading(layer.name), layer.open() as packed:
        stream = open_decompressed(packed, _LAYER_BYTES, layer.name)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            yield _each(archive)


def _each(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    while (member := archive.next()) is not None:
        yield archive, member
        # Otherwise tarfile keeps every header. typeshed does not know the attribute.
        archive.members = []  # type: ignore[attr-defined]


#: Python's names of architectures, by their names in images.
_ARCHITECTURES = {
    "amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l", "loong64": "loongarch64",
}  # fmt: skip
_JSON_BYTES = 4 * MEBIBYTE
_ARCHIVE_BYTES = 128 * 1024 * MEBIBYTE
#: An image has few files for each of its layers; the tar file of a root folder has far more.
_MOST_BLOBS = 20_000
_MOST_LAYERS = 1_000
_DEEPEST_INDEX = 4
_INDEXES = re.compile(
    r"application/vnd\.(?:oci\.image\.index|docker\.distribution\.manifest\.list)\b.*"
)
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
#: Annotations with the name of an index entry: the full name by containerd, or the tag only.
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")

#: Opens a file of an image archive by its name; ``None`` if there is no such file.
_Blobs = Callable[[str], BinaryIO | None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An opened image.

    :param name: name in the image; empty if the image has no name
    :param architecture: in Python's notation; ``None`` if the image does not contain it
    :param environ: environment variables of its programs
    """

    tree: Tree
    name: str = ""
    architecture: str | None = None
    environ: dict[str, str] = field(default_factory=dict)


@contextmanager
def open_image(wanted: str) -> Iterator[OpenedImage]:
    """Open an image in a folder or a file.

    :raises InvalidArgument: if there is none
    :raises InvalidDocument: if it is not an image, is broken, or contains several images
    """
    if not is_there(wanted):
        raise InvalidArgument(
            f"no file or folder {wanted[:80]!r}: write the image to a file first, such as with"
            f" `podman save -o image.tar {wanted[:80]}`"
        )
    path = Path(wanted)
    try:
        if not path.is_dir():
            with _plain_tar(path) as tar, _tar_blobs(tar) as files:
                if files is not None and _has(files, "manifest.json"):
                    yield _saved(files)
                elif files is not None and _has(files, "index.json"):
                    yield _oci(files)
                else:
                    yield OpenedImage(LayeredTree([Layer(tar.name, lambda: tar.open("rb"))]))
            return
        tree = FolderTree(path)

        def blobs(name: str) -> BinaryIO | None:
            real = resolve(tree, name)
            if real is None or not tree.is_file(real):
                return None
            return cast(BinaryIO, tree.open(real))

        is_layout = _has(blobs, "index.json") and _has(blobs, "oci-layout")
        yield _oci(blobs) if is_layout else OpenedImage(tree)
    except OSError as error:
        message = error.strerror or str(error)
        raise InvalidDocument(Reason.UNREADABLE, message, place=str(path)) from error


@contextmanager
def _plain_tar(path: Path) -> Iterator[Path]:
    """Yield ``path`` itself, or an unpacked temporary copy."""
    with path.open("rb") as stream, tempfile.NamedTemporaryFile(prefix="thoth-image-") as copy:
        with _reading(path.name):
            packed = stream.read(4)[:2] in (b"\x1f\x8b", b"\x28\xb5")
            stream.seek(0)
            if packed:
                plain = open_decompressed(stream, _ARCHIVE_BYTES, path.name)
                copy_bounded(plain, copy, _ARCHIVE_BYTES)
                copy.flush()
        yield Path(copy.name) if packed else path


@contextmanager
def _tar_blobs(path: Path) -> Iterator[_Blobs | None]:
    """Files of a tar file, links within it followed; ``None`` for more files than images have."""
    with path.open("rb") as stream:
        members: dict[str, tarfile.TarInfo] = {}
        with _reading(path.name):
            plain = cast(BinaryIO, BoundedReads(stream))
            archive = tarfile.open(fileobj=plain, mode="r:")  # noqa: SIM115 - closes nothing
            while len(members) <= _MOST_BLOBS and (member := archive.next()) is not None:
                members[posixpath.normpath(member.name)] = member

        def blob(name: str) -> BinaryIO | None:
            member = members.get(posixpath.normpath(name))
            try:
                with _reading(name):
                    return None if member is None else cast(BinaryIO, archive.extractfile(member))
            except KeyError:  # a link that leads nowhere
                return None

        yield blob if len(members) <= _MOST_BLOBS else None


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *BROKEN_STREAM) as error:
        message = str(error)[:200] or "the archive is truncated"
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=name) from error


def _saved(blobs: _Blobs) -> OpenedImage:
    """Open the output of ``docker save``."""
    listed = _json(blobs, "manifest.json")
    if not isinstance(listed, list) or len(listed) != 1:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, "the archive must contain exactly one image", place="manifest.json"
        )
    manifest = _checked(listed[0], dict, "manifest.json")
    names = _checked(manifest.get("Layers"), list, "manifest.json")
    config = _checked(manifest.get("Config"), str, "manifest.json")
    content = _checked(_json(blobs, config), dict, "the configuration")
    tags = _checked(manifest.get("RepoTags") or [""], list, "RepoTags")
    layers = [_layer(blobs, _checked(name, str, "manifest.json")) for name in names]
    return _image(layers, content, str(tags[0]))


def _oci(blobs: _Blobs) -> OpenedImage:
    """Open an OCI image layout."""
    entry: dict[str, Any] = {}
    index = _checked(_json(blobs, "index.json"), dict, "index.json")
    for _ in range(_DEEPEST_INDEX):
        entry = _chosen(index)
        if not _INDEXES.match(str(entry.get("mediaType", ""))):
            break
        index = _described_json(blobs, entry)
    manifest = _described_json(blobs, entry)
    layers = []
    for described in _checked(manifest.get("layers"), list, "layers"):
        name, sha256 = _blob_of(_checked(described, dict, "layers"))
        _check_digest(blobs, name, sha256)
        layers.append(_layer(blobs, name))
    config = _described_json(blobs, _checked(manifest.get("config"), dict, "config"))
    return _image(layers, config, _note(entry, _NAMES[1]))


def _chosen(index: dict[str, Any]) -> dict[str, Any]:
    """Return the image for this machine's architecture, or else the first image for Linux."""
    listed = [
        _checked(it, dict, "manifests")
        for it in _checked(index.get("manifests"), list, "manifests")
    ]
    # Attestations have the operating system ``unknown``.
    entries = [
        it
        for it in listed
        if not _note(it, "vnd.docker.reference.type")
        and _platform(it).get("os") in (None, "", "linux")
    ]
    if not entries:
        message = "it contains no image for Linux" if listed else "it contains no image"
        raise InvalidDocument(Reason.MISSING_FIELD, message, field="manifests")
    _refuse_several(entries)
    for entry in entries:
        if _machine(_platform(entry).get("architecture")) == platform.machine():
            return entry
    return entries[0]


def _platform(entry: dict[str, Any]) -> dict[str, Any]:
    value = entry.get("platform")
    return value if isinstance(value, dict) else {}


def _note(entry: dict[str, Any], name: str) -> str:
    notes = entry.get("annotations")
    return str(notes.get(name) or "") if isinstance(notes, dict) else ""


def _refuse_several(entries: list[dict[str, Any]]) -> None:
    """Refuse entries that differ in both their names and their digests.

    Several tags of one image are accepted. Images of several architectures that share one tag are
    accepted, too.
    """
    named = {
        name: str(entry.get("digest"))
        for entry in entries
        if (name := next(filter(None, (_note(entry, it) for it in _NAMES)), ""))
    }
    if len(set(named.values())) > 1:
        names = first_few([printable(name[:80]) for name in sorted(named)], 20)
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, f"it must contain one image, but contains {names}",
            field="manifests",
        )  # fmt: skip


def _image(layers: list[Layer], config: dict[str, Any], name: str) -> OpenedImage:
    if len(layers) > _MOST_LAYERS:
        raise InvalidDocument(Reason.ARCHIVE_BOMB, f"{len(layers)} layers")
    inner = config.get("config")
    listed = inner.get("Env") if isinstance(inner, dict) else None
    pairs = (str(item).partition("=") for item in (listed if isinstance(listed, list) else ()))
    return OpenedImage(
        LayeredTree(layers), name, _machine(config.get("architecture")),
        {key: value for key, _, value in pairs},
    )  # fmt: skip


def _machine(name: object) -> str | None:
    return _ARCHITECTURES.get(name, name) if isinstance(name, str) and name else None


def _layer(blobs: _Blobs, name: str) -> Layer:
    return Layer(name, lambda: _open(blobs, name))


def _has(blobs: _Blobs, name: str) -> bool:
    stream = blobs(name)
    if stream is not None:
        stream.close()
    return stream is not None


def _open(blobs: _Blobs, name: str) -> BinaryIO:
    stream = blobs(name)
    if stream is None:
        raise InvalidDocument(Reason.UNREADABLE, "it is not in the image", place=name[:200])
    return stream


def _blob_of(descriptor: dict[str, Any]) -> tuple[str, str]:
    """Return the file that a descriptor names, and its digest."""
    match = _SHA256.fullmatch(str(descriptor.get("digest")))
    if match is None:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{str(descriptor.get('digest'))[:80]!r} is not a sha256 digest",
            field="digest",
        )  # fmt: skip
    return f"blobs/sha256/{match[1]}", match[1]


def _described_json(blobs: _Blobs, descriptor: dict[str, Any]) -> dict[str, Any]:
    name, sha256 = _blob_of(descriptor)
    value = _json(blobs, name)
    _check_digest(blobs, name, sha256)
    return _checked(value, dict, name)


def _check_digest(blobs: _Blobs, name: str, sha256: str) -> None:
    digest = hashlib.sha256()
    with _open(blobs, name) as stream, _reading(name):
        while chunk := stream.read(MEBIBYTE):
            digest.update(chunk)
    if digest.hexdigest() != sha256:
        message = "its content does not match its digest"
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=name[:200])


def _json(blobs: _Blobs, name: str) -> Any:
    with _open(blobs, name) as stream, _reading(name):
        data = stream.read(_JSON_BYTES + 1)
    if len(data) > _JSON_BYTES:
        raise InvalidDocument(Reason.FILE_TOO_LARGE, "more than 4 MiB of JSON", place=name[:200])
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(Reason.INVALID_JSON, str(error), place=name[:200]) from error


def _checked(value: object, kind: type[_T], where: str) -> _T:
    if not isinstance(value, kind):
        message = (
            "not an object" if kind is dict else "not a list" if kind is list else "not a text"
        )
        raise InvalidDocument(Reason.WRONG_TYPE, message, place=where)
    return value
