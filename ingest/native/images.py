"""Opens container images: root folders, OCI layouts, and output of ``save`` and ``export``."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.native.file_trees import (
    FolderTree,
    Tree,
    is_there,
)
from ingest.native.image_blobs import (
    Blobs,
    FolderBlobs,
    TarBlobs,
    TooManyBlobs,
    check_content,
    plain_tar,
    read_json,
)
from ingest.native.image_layers import Layer, LayeredTree
from model.errors import InvalidArgument, InvalidDocument
from model.reasons import Reason
from model.text import first_few, printable

#: Python's names of architectures, by their names in images.
_ARCHITECTURES = {
    "amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l", "loong64": "loongarch64",
}  # fmt: skip
_MOST_LAYERS = 1_000
_DEEPEST_INDEX = 4
_INDEXES = re.compile(
    r"application/vnd\.(?:oci\.image\.index|docker\.distribution\.manifest\.list)\b.*"
)
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
#: Annotations with the name of an index entry: the full name by containerd, or the tag only.
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


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
    with _image_at(Path(wanted)) as image:
        yield image


@contextmanager
def _image_at(path: Path) -> Iterator[OpenedImage]:
    try:
        if path.is_dir():
            blobs = FolderBlobs(path)
            if blobs.has("index.json") and blobs.has("oci-layout"):
                yield _oci(blobs)
            else:
                yield OpenedImage(FolderTree(path))
            return
        with plain_tar(path) as tar:
            yield _in_tar(tar)
    except OSError as error:
        message = error.strerror or str(error)
        raise InvalidDocument(Reason.UNREADABLE, message, place=str(path)) from error


def _in_tar(path: Path) -> OpenedImage:
    try:
        blobs = TarBlobs(path)
    except TooManyBlobs:  # not an image archive, but perhaps an exported root folder
        return _exported(path)
    if blobs.has("manifest.json"):
        return _saved(blobs)
    return _oci(blobs) if blobs.has("index.json") else _exported(path)


def _exported(path: Path) -> OpenedImage:
    return OpenedImage(LayeredTree([Layer(path.name, lambda: path.open("rb"))]))


def _saved(blobs: Blobs) -> OpenedImage:
    """Open the output of ``docker save``."""
    listed = read_json(blobs, "manifest.json")
    if not isinstance(listed, list) or len(listed) != 1:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, "the archive must contain exactly one image",
            place="manifest.json",
        )  # fmt: skip
    manifest = _table(listed[0], "manifest.json")
    names = _list(manifest.get("Layers"), "manifest.json")
    config = read_json(blobs, _text(manifest.get("Config"), "manifest.json"))
    tags = _list(manifest.get("RepoTags") or [""], "RepoTags")
    layers = [_layer(blobs, _text(name, "manifest.json")) for name in names]
    return _image(layers, _table(config, "the configuration"), str(tags[0]))


def _oci(blobs: Blobs) -> OpenedImage:
    """Open an OCI image layout."""
    entry: dict[str, Any] = {}
    index = _table(read_json(blobs, "index.json"), "index.json")
    for _ in range(_DEEPEST_INDEX):
        entry = _chosen(index)
        if not _INDEXES.match(str(entry.get("mediaType", ""))):
            break
        index = _blob_json(blobs, entry)
    manifest = _blob_json(blobs, entry)
    layers = []
    for layer in _list(manifest.get("layers"), "layers"):
        name, sha256 = _blob(_table(layer, "layers"))
        check_content(blobs, name, sha256)
        layers.append(_layer(blobs, name))
    config = _blob_json(blobs, _table(manifest.get("config"), "config"))
    return _image(layers, config, _note(entry, _NAMES[1]))


def _chosen(index: dict[str, Any]) -> dict[str, Any]:
    """Return the image for this machine's architecture, or else the first image for Linux.

    :raises InvalidDocument: if there is no image for Linux, or there are several with different
        names
    """
    listed = [_table(entry, "manifests") for entry in _list(index.get("manifests"), "manifests")]
    entries = [entry for entry in listed if _is_image(entry)]
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


def _is_image(entry: dict[str, Any]) -> bool:
    """Whether a manifest is for Linux; attestations have the operating system ``unknown``."""
    attests = _note(entry, "vnd.docker.reference.type")
    return not attests and _platform(entry).get("os") in (None, "", "linux")


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


def _layer(blobs: Blobs, name: str) -> Layer:
    return Layer(name, lambda: blobs.open(name))


def _blob(descriptor: dict[str, Any]) -> tuple[str, str]:
    """Return the file that a descriptor names, and its digest."""
    match = _SHA256.fullmatch(str(descriptor.get("digest")))
    if match is None:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{str(descriptor.get('digest'))[:80]!r} is not a sha256 digest",
            field="digest",
        )  # fmt: skip
    return f"blobs/sha256/{match[1]}", match[1]


def _blob_json(blobs: Blobs, descriptor: dict[str, Any]) -> dict[str, Any]:
    name, sha256 = _blob(descriptor)
    return _table(read_json(blobs, name, sha256), name)


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocument(Reason.WRONG_TYPE, "not an object", place=where)
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidDocument(Reason.WRONG_TYPE, "not a list", place=where)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidDocument(Reason.WRONG_TYPE, "not a text", place=where)
    return value
