"""Native interfaces: what libraries of a wheel require, and what a machine or an image provides.

An interface is a library, ``libc.so.6``, or one version of its symbols,
``libc.so.6:GLIBC_2.17``: the names that the dynamic loader looks up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from model.measurements.inspection import DocumentId
from model.packages.identity import PackageVersion

#: The generation of analysis documents.
ANALYSIS_SCHEMA = "analysis-1"


@dataclass(frozen=True, slots=True, order=True)
class Interface:
    """A library, or one version of its symbols; ``version`` is empty for the library itself."""

    library: str
    version: str = ""

    @property
    def key(self) -> str:
        """``libc.so.6`` or ``libc.so.6:GLIBC_2.17``."""
        return f"{self.library}:{self.version}" if self.version else self.library


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The dynamic section of one library or program.

    :param path: within the wheel or the root directory
    :param soname: name under which others need it; ``None`` if it has none
    :param architecture: as in platform tags of wheels, such as ``x86_64``
    :param needed: libraries that it loads, in their order
    :param needs: required versions of their symbols
    :param defines: versions of its own symbols
    :param search: its run path
    """

    path: str
    soname: str | None
    architecture: str
    needed: tuple[str, ...] = ()
    needs: tuple[Interface, ...] = ()
    defines: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableLibrary:
    """A file that looks like a library but is invalid; no loader could load it."""

    path: str
    message: str


class EnvironmentKind(StrEnum):
    """Kinds of providers of native interfaces; the values are stored."""

    HOST = "host"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class WheelAnalysis:
    """Analysis of the content of a wheel.

    :param sha256: of the file, hexadecimal digits
    :param tags: compressed tag set of the file name
    :param imports: names that it makes importable, sorted (:mod:`model.packages.import_names`)
    :param bundled: names of bundled shared libraries
    :param needs: required interfaces that it does not bundle, sorted
    :param body: canonical JSON of the analysis; ``document_id`` is its digest
    """

    sha256: str
    filename: str
    package: PackageVersion
    tags: str
    imports: tuple[str, ...]
    bundled: tuple[str, ...]
    needs: tuple[Interface, ...]
    libraries: tuple[NativeLibrary, ...]
    skipped: tuple[UnreadableLibrary, ...]
    document_id: DocumentId
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EnvironmentAnalysis:
    """Analysis of a machine or an image: the interfaces that its loader finds.

    :param digest: of kind, name, architecture, system and interfaces
    :param provides: sorted
    :param body: canonical JSON of the analysis; ``document_id`` is its digest
    """

    digest: str
    kind: EnvironmentKind
    name: str
    architecture: str
    os_name: str | None
    os_version: str | None
    provides: tuple[Interface, ...]
    skipped: tuple[UnreadableLibrary, ...]
    document_id: DocumentId
    body: bytes = field(repr=False)


Analysis = WheelAnalysis | EnvironmentAnalysis

_FAMILY = re.compile(r"([A-Za-z][A-Za-z_]*?)_(\d+(?:\.\d+)*)")
#: Libraries of NVIDIA's toolkit have its major version in their name.
_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|cupti)\.so\.(\d+)(?:\.\d+)*")


def highest_versions(interfaces: Iterable[Interface]) -> dict[str, str]:
    """The newest version of each symbol family, such as ``GLIBC``, sorted by name.

    The version of ``CUDA`` comes from the names of the toolkit's libraries.

    >>> highest_versions([Interface("libc.so.6", "GLIBC_2.9"), Interface("libm.so.6", "GLIBC_2.17"),
    ...                   Interface("libc.so.6", "GLIBC_PRIVATE"), Interface("libcudart.so.12")])
    {'CUDA': '12', 'GLIBC': '2.17'}
    """
    highest: dict[str, tuple[int, ...]] = {}
    for interface in interfaces:
        symbol = _FAMILY.fullmatch(interface.version)
        cuda = _CUDA.fullmatch(interface.library)
        family, text = (symbol[1], symbol[2]) if symbol else ("CUDA", cuda[1]) if cuda else ("", "")
        # Longer texts are not real versions, and are slow to convert.
        if family and len(text) < 40:
            numbers = tuple(map(int, text.split(".")))
            highest[family] = max(highest.get(family, numbers), numbers)
    return {name: ".".join(map(str, numbers)) for name, numbers in sorted(highest.items())}
