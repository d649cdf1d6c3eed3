"""Analyses the native libraries that a machine or an image provides."""

import logging
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from ingest.native.analysis_documents import environment_analysis
from ingest.native.elf import MAGIC, read_library
from ingest.native.file_trees import FolderTree, Tree, read_text, resolve
from ingest.native.images import open_image
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.packages.environments import machine_family
from model.packages.native_libraries import (
    EnvironmentAnalysis,
    EnvironmentKind,
    Interface,
    NativeLibrary,
    UnreadableLibrary,
)

#: Folders that loaders search without configuration.
_FOLDERS = ("lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib")
#: Debian's loaders also search folders of an architecture, such as ``x86_64-linux-gnu``.
_MULTIARCH = re.compile(r"\w+-linux-\w+")
_MOST_INCLUDES = 64
#: Limit above the number of files in the library folders of any system.
_MOST_LIBRARIES = 200_000


@dataclass(slots=True)
class Libraries:
    """The native libraries in a file tree.

    :param files: libraries with the names that lead to them, in the order of the loader's folders
    """

    files: list[tuple[NativeLibrary, tuple[str, ...]]] = field(default_factory=list)
    skipped: list[UnreadableLibrary] = field(default_factory=list)

    def architecture(self) -> str | None:
        """Architecture of most libraries; ``None`` if there are none."""
        counts = Counter(library.architecture for library, _ in self.files)
        return max(sorted(counts), key=counts.__getitem__, default=None)

    def provides(self, architecture: str) -> Iterator[Interface]:
        """Return the interfaces for ``architecture``; if names repeat, the first library counts."""
        seen = set()
        family = machine_family(architecture)
        for library, names in self.files:
            if machine_family(library.architecture) != family:
                continue
            for name in names:
                if name in seen:
                    continue
                seen.add(name)
                yield Interface(name)
                # Programs request versions by the soname of the library.
                if name == (library.soname or name):
                    yield from (Interface(name, version) for version in library.defines)


def libraries_of(tree: Tree, environ: Mapping[str, str]) -> Libraries:
    """Read every library that a loader finds without the run path of a program.

    :param environ: environment variables of programs; only ``LD_LIBRARY_PATH`` matters
    :raises InvalidDocument: if there are more libraries than in any real system
    """
    candidates: dict[str, list[str]] = {}
    for folder in library_folders(tree, environ):
        for name in tree.names(folder):
            real = resolve(tree, f"{folder}/{name}") if ".so" in name else None
            if real is not None and tree.is_file(real):
                candidates.setdefault(real, []).append(name)
        if len(candidates) > _MOST_LIBRARIES:
            raise InvalidDocument(Reason.ARCHIVE_BOMB, f"more than {_MOST_LIBRARIES} libraries")
    skipped: list[UnreadableLibrary] = []
    read = {library.path: library for library in _read_all(tree, candidates, skipped)}
    # The loader's cache lists libraries by their sonames.
    files = [
        (library, tuple(dict.fromkeys(filter(None, (library.soname, *names)))))
        for real, names in candidates.items()
        if (library := read.get(real)) is not None
    ]
    return Libraries(files, skipped)


def _read_all(
    tree: Tree, paths: Mapping[str, list[str]], skipped: list[UnreadableLibrary]
) -> Iterator[NativeLibrary]:
    for path, stream in tree.open_all(paths):
        if stream.read(len(MAGIC)) != MAGIC:  # a linker's script, such as libc.so
            continue
        stream.seek(0)
        try:
            library = read_library(stream, path)
        except InvalidDocument as error:
            skipped.append(UnreadableLibrary(path, error.message))
            continue
        if library is not None:
            yield library


def library_folders(tree: Tree, environ: Mapping[str, str]) -> list[str]:
    """Return the folders in the order in which a loader searches them, resolved and unique."""
    wanted = [path for path in environ.get("LD_LIBRARY_PATH", "").split(":") if path[:1] == "/"]
    wanted += _configured(tree, "etc/ld.so.conf", [_MOST_INCLUDES])
    for _, name in _entries(tree, "etc"):
        if fnmatchcase(name, "ld-musl-*.path"):
            paths = re.split(r"[:\n]", read_text(tree, f"etc/{name}") or "")
            wanted += [path for path in paths if path[:1] == "/"]
    wanted += _FOLDERS
    for parent in ("lib", "usr/lib"):
        names = [name for _, name in _entries(tree, parent)]
        wanted += [f"{parent}/{name}" for name in names if _MULTIARCH.fullmatch(name)]
    return list(dict.fromkeys(filter(None, (resolve(tree, path) for path in wanted))))


def _configured(tree: Tree, path: str, budget: list[int]) -> list[str]:
    """Return the folders in glibc's configuration, which may include other files.

    :param budget: a list with the number of files that may still be read, because files can include
        each other
    """
    budget[0] -= 1
    text = read_text(tree, path) if budget[0] >= 0 else None
    folders: list[str] = []
    for line in (text or "").splitlines():
        parts = line.partition("#")[0].split()
        if parts[:1] == ["include"]:
            for pattern in parts[1:]:  # a relative one starts at ``/etc``
                absolute = pattern if pattern.startswith("/") else f"/etc/{pattern}"
                folder, _, last = absolute.rpartition("/")
                for real, name in _entries(tree, folder):
                    if fnmatchcase(name, last):
                        folders += _configured(tree, f"{real}/{name}", budget)
        elif parts and parts[0].startswith("/"):
            folders.append(parts[0])
    return folders


def _entries(tree: Tree, folder: str) -> list[tuple[str, str]]:
    """The resolved folder with each name in it."""
    real = resolve(tree, folder)
    return [] if real is None else [(real, name) for name in tree.names(real)]


def os_release(tree: Tree) -> dict[str, str]:
    """Read ``os-release``, with values such as ``ID``; return nothing if the file is missing."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        text = read_text(tree, path)
        if text is not None:
            pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
            return {key.strip(): value.strip().strip("\"'")[:200] for key, _, value in pairs}
    return {}


logger = logging.getLogger(__name__)

_LONGEST_NAME = 200


def analyze_host(name: str | None = None, root: Path = Path("/")) -> EnvironmentAnalysis:
    """Analyse this machine; takes about a millisecond for each library.

    :param name: name of the environment; by default name and version of the system, never the host
        name
    """
    return _analyzed(EnvironmentKind.HOST, name, FolderTree(root), platform.machine(), os.environ)


def analyze_image(path: str, name: str | None = None) -> EnvironmentAnalysis:
    """Analyse an image in a folder or a file.

    :param name: name of the environment; by default the name in the image, or the last part of its
        path
    :raises InvalidArgument: if there is no such image
    :raises InvalidDocument: if the image is broken
    """
    with open_image(path) as image:
        label = name or image.name or Path(path).name or "root"
        return _analyzed(
            EnvironmentKind.IMAGE, label, image.tree, image.architecture, image.environ
        )


def _analyzed(
    kind: EnvironmentKind, name: str | None, tree: Tree, architecture: str | None,
    environ: Mapping[str, str],
) -> EnvironmentAnalysis:  # fmt: skip
    libraries = libraries_of(tree, environ)
    system = os_release(tree)
    machine = architecture or libraries.architecture() or "unknown"
    provides = tuple(libraries.provides(machine))
    if libraries.files and not provides:
        logger.warning(
            "native_libraries_of_other_machines",
            extra={"wanted": [machine], "found": [libraries.architecture()]},
        )
    parts = (system.get("ID", "unknown"), system.get("VERSION_ID", ""), machine)
    label = name or "-".join(filter(None, parts))
    if not label.isprintable() or len(label) > _LONGEST_NAME:
        raise InvalidArgument(f"{label[:80]!r} cannot name an environment: use --name")
    return environment_analysis(
        kind=kind,
        name=label,
        architecture=machine,
        os_release=(system.get("ID"), system.get("VERSION_ID")),
        provides=provides,
        skipped=libraries.skipped,
    )
