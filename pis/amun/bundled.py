"""Reads which libraries the wheels of an environment bundle, without running any of their code.

Sources are SBOMs (PEP 770, CycloneDX or SPDX) and the wheel's native libraries, whose names have
versions, or whose content has one (OpenBLAS). Statically linked libraries without an SBOM are not
found.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from model.packages.identity import version_of
from model.packages.native_libraries import MAX_LENGTH, MAX_LIBRARIES, BundledLibrary

_SUFFIX = ".dist-info"
#: Lines of RECORD that are of interest: SBOMs, and shared libraries.
_FILE = re.compile(
    r'^"?((?:[^/]+\.dist-info/sboms/.+\.json)|(?:.*/)?lib[^/,]*\.so(?:\.[^/,]*)?)"?,', re.MULTILINE
)
_MAX_SBOM_BYTES = 8 << 20
#: Name, hashes of auditwheel, and version of a library's file.
_LIBRARY = re.compile(r"lib(?P<name>.+?)(?:-[0-9a-f]{8})*(?:\.\d[\w.]*)?\.so(?:\.(?P<version>.+))?")
#: Known libraries by a part of the file's name, wherever the file is: title, and the text before
#: the version in the file. Other libraries count only where auditwheel puts them.
_KNOWN: Mapping[str, tuple[str, bytes | None]] = {
    "openblas": ("OpenBLAS", b"OpenBLAS "),
    "mkl_rt": ("oneMKL", None),
    "blis": ("BLIS", None),
    "dnnl": ("oneDNN", None),
    "gomp": ("libgomp", None),
    "iomp5": ("libiomp5", None),
    "tbb": ("oneTBB", None),
}
_VERSION = re.compile(rb"\d[\w.]*")


def bundled_libraries(site_packages: Path) -> dict[str, list[BundledLibrary]]:
    """The libraries of each distribution in a folder, by ``NAME==VERSION``; sorted.

    What cannot be read is left out. Takes milliseconds for each distribution.
    """
    bundled = {}
    for folder in sorted(site_packages.glob(f"*{_SUFFIX}")):
        name, _, version = folder.name.removesuffix(_SUFFIX).partition("-")
        unique = {(it.name, it.version, it.sbom): it for it in _libraries(folder)}
        libraries = sorted(unique.values(), key=lambda it: (it.name, it.version or ""))
        release = f"{canonicalize_name(name)}=={version_of(version) or version}"
        bundled[release] = libraries[:MAX_LIBRARIES]
    return bundled


def _libraries(folder: Path) -> Iterator[BundledLibrary]:
    try:
        record = (folder / "RECORD").read_text("utf-8", errors="replace")
    except OSError:
        return
    for file in _FILE.findall(record):
        path = folder.parent / file
        if len(file) > MAX_LENGTH or ".." in path.parts or file.startswith("/"):
            continue
        if path.suffix == ".json":
            yield from _components(path, file)
        elif (library := _library(path, file)) is not None:
            yield library


def _components(path: Path, source: str) -> Iterator[BundledLibrary]:
    """The components of an SBOM: ``components`` of CycloneDX or ``packages`` of SPDX."""
    try:
        if path.stat().st_size > _MAX_SBOM_BYTES:
            return
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    document = document if isinstance(document, dict) else {}
    listed: Sequence[Any] = document.get("components") or document.get("packages") or ()
    for component in listed if isinstance(listed, list) else ():
        if not isinstance(component, dict):
            continue
        name, version = (
            component.get(key) or component.get(f"{key}Info") for key in ("name", "version")
        )
        if isinstance(name, str) and isinstance(version, str):
            yield BundledLibrary(name[:MAX_LENGTH], version[:MAX_LENGTH], source)


def _library(path: Path, source: str) -> BundledLibrary | None:
    """The library in a file, unless it may be the distribution's own."""
    match = _LIBRARY.fullmatch(path.name)
    if match is None:
        return None
    known = next((it for part, it in _KNOWN.items() if part in match["name"].lower()), None)
    if known is not None:
        title, before = known
        version = _version_in(path, before) if before is not None else match["version"]
        return BundledLibrary(title, version, source)
    if path.parent.suffix != ".libs" and path.parent.name != ".libs":
        return None
    return BundledLibrary(f"lib{match['name']}", match["version"], source)


def _version_in(path: Path, before: bytes) -> str | None:
    """The version behind a text in a file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            place = -1
            while (place := text.find(before, place + 1)) >= 0:
                if match := _VERSION.match(text[place + len(before) : place + len(before) + 40]):
                    return match[0].decode().rstrip(".")
    except (OSError, ValueError):
        pass
    return None
