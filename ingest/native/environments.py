"""Analyses what the dynamic loader of a machine or an image provides."""

from __future__ import annotations

import logging
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from common.environments import machine_family
from common.errors import InvalidArgument, InvalidDocument
from common.native_interfaces import (
    EnvironmentAnalysis,
    EnvironmentKind,
    Interface,
    NativeLibrary,
    UnreadableLibrary,
)
from common.reasons import Reason
from ingest.native.documents import environment_analysis
from ingest.native.elf import MAGIC, read_library
from ingest.native.file_trees import (
    FolderTree,
    Tree,
    read_text,
    resolve,
)
from ingest.native.images import open_image

#: Folders that loaders know without being told.
_FOLDERS = ("lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib")
#: Debian's loaders know those of their machine too, such as ``x86_64-linux-gnu``.
_MULTIARCH = re.compile(r"\w+-linux-\w+")
_MOST_INCLUDES = 64
#: More files than in the library folders of any system.
_MOST_LIBRARIES = 200_000


@dataclass(slots=True)
class Libraries:
    """The libraries of a root.

    :param files: each with the names that find it, in the order of the loader's folders
    """

    files: list[tuple[NativeLibrary, tuple[str, ...]]] = field(default_factory=list)
    skipped: list[UnreadableLibrary] = field(default_factory=list)

    def architecture(self) -> str | None:
        """Architecture of most libraries; ``None`` if there are none."""
        counts = Counter(library.architecture for library, _ in self.files)
        return max(sorted(counts), key=counts.__getitem__, default=None)

    def provides(self, architecture: str) -> Iterator[Interface]:
        """Return the interfaces for ``architecture``; the first library of a name counts."""
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
                # Versions are asked for by the name that the library goes by.
                if name == (library.soname or name):
                    yield from (Interface(name, version) for version in library.defines)


def libraries_of(tree: Tree, environ: Mapping[str, str]) -> Libraries:
    """Read every library that a loader finds without a run path.

    :param environ: what programs start with; ``LD_LIBRARY_PATH`` is looked at
    :raises InvalidDocument: if there are more than in any system
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
    # The system's cache of libraries goes by what each says of itself.
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
    """Return the folders that a loader searches in order, without links and repetitions."""
    wanted = [path for path in environ.get("LD_LIBRARY_PATH", "").split(":") if path[:1] == "/"]
    wanted += _configured(tree, "etc/ld.so.conf", [_MOST_INCLUDES])
    wanted += _configured_by_musl(tree)
    wanted += _FOLDERS
    for parent in ("lib", "usr/lib"):
        real = resolve(tree, parent)
        names = [] if real is None else tree.names(real)
        wanted += [f"{parent}/{name}" for name in names if _MULTIARCH.fullmatch(name)]
    return list(dict.fromkeys(filter(None, (resolve(tree, path) for path in wanted))))


def _configured(tree: Tree, path: str, budget: list[int]) -> list[str]:
    """Yield the folders in glibc's configuration, which may include other files.

    :param budget: how many files may still be read; they can include one another
    """
    budget[0] -= 1
    text = read_text(tree, path) if budget[0] >= 0 else None
    folders: list[str] = []
    for line in (text or "").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            for pattern in words[1:]:
                for included in _matching(tree, pattern):
                    folders += _configured(tree, included, budget)
        elif words and words[0].startswith("/"):
            folders.append(words[0])
    return folders


def _matching(tree: Tree, pattern: str) -> list[str]:
    """Return files by a pattern in the last part of their path, relative to ``/etc``."""
    folder, _, last = (pattern if pattern.startswith("/") else f"/etc/{pattern}").rpartition("/")
    real = resolve(tree, folder)
    names = [] if real is None else tree.names(real)
    return [f"{real}/{name}" for name in names if fnmatchcase(name, last)]


def _configured_by_musl(tree: Tree) -> list[str]:
    etc = resolve(tree, "etc")
    names = [] if etc is None else tree.names(etc)
    texts = (read_text(tree, f"etc/{it}") for it in names if fnmatchcase(it, "ld-musl-*.path"))
    return [path for text in texts for path in re.split(r"[:\n]", text or "") if path[:1] == "/"]


def os_release(tree: Tree) -> dict[str, str]:
    """Read ``os-release``, such as ``ID`` and ``VERSION_ID``; empty if there is none."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        text = read_text(tree, path)
        if text is not None:
            pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
            return {key.strip(): value.strip().strip("\"'")[:200] for key, _, value in pairs}
    return {}


logger = logging.getLogger(__name__)

_LONGEST_NAME = 200


def analyze_host(name: str | None = None, root: Path = Path("/")) -> EnvironmentAnalysis:
    """Read the libraries of this machine; takes about a millisecond each.

    :param name: what to call it; the system's name and version if unset, never the host's
    """
    return _analyzed(EnvironmentKind.HOST, name, FolderTree(root), platform.machine(), os.environ)


def analyze_image(wanted: str, name: str | None = None) -> EnvironmentAnalysis:
    """Read the libraries of an image, by the path of its files or by its name.

    :param name: what to call it; what it calls itself, or the last part of its path, if unset
    :raises InvalidArgument: if there is no such image
    :raises InvalidDocument: if it is broken
    """
    with open_image(wanted) as image:
        called = name or image.name or Path(wanted).name or "root"
        return _analyzed(
            EnvironmentKind.IMAGE, called, image.tree, image.architecture, image.environ
        )


def _analyzed(
    kind: EnvironmentKind, name: str | None, tree: Tree, architecture: str | None,
    environ: Mapping[str, str],
) -> EnvironmentAnalysis:  # fmt: skip
    found = libraries_of(tree, environ)
    system = os_release(tree)
    machine = architecture or found.architecture() or "unknown"
    provides = tuple(found.provides(machine))
    if found.files and not provides:
        logger.warning(
            "native_libraries_of_other_machines",
            extra={"wanted": [machine], "found": [found.architecture()]},
        )
    words = (system.get("ID", "unknown"), system.get("VERSION_ID", ""), machine)
    called = name or "-".join(filter(None, words))
    if not called.isprintable() or len(called) > _LONGEST_NAME:
        raise InvalidArgument(f"an environment cannot be called {called[:80]!r}: use --name")
    return environment_analysis(
        kind=kind,
        name=called,
        architecture=machine,
        os_release=(system.get("ID"), system.get("VERSION_ID")),
        provides=provides,
        skipped=found.skipped,
    )
