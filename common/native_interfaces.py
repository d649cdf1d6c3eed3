"""Native interfaces: required by the libraries of a wheel, provided by a machine or an image.

An interface is a library, ``libc.so.6``, or one version of its symbols,
``libc.so.6:GLIBC_2.17``: the names that the dynamic loader looks up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from common.inspection import DocumentId
from common.packages import PackageVersion

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
    """What the dynamic section of one library or program says.

    :param path: within the wheel or the root
    :param soname: what others call it; ``None`` if it does not say
    :param architecture: as wheels' platform tags say it, such as ``x86_64``
    :param needed: libraries that it asks for, in its order
    :param needs: versions of their symbols without which it is not loaded
    :param defines: versions of its own symbols
    :param search: where it looks first: its run path
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
    """A file that looks like a library and cannot be read as one; no loader could load it."""

    path: str
    message: str


class EnvironmentKind(StrEnum):
    """What provides native interfaces; the value is stored."""

    HOST = "host"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class WheelAnalysis:
    """A wheel by its content.

    :param sha256: of the file, hexadecimal digits
    :param tags: the compressed tag set of its name
    :param imports: top-level names that can be imported, sorted
    :param bundled: shared libraries that it brings along, by the name that others ask for
    :param needs: interfaces that it needs and does not bring along, sorted
    :param body: canonical JSON of all this; ``document_id`` is its digest
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
    """A machine or an image, by what its loader finds.

    :param digest: of kind, name, architecture, system and interfaces
    :param provides: sorted
    :param body: canonical JSON of all this; ``document_id`` is its digest
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
#: NVIDIA's libraries of the toolkit name its major version in their own.
_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|cupti)\.so\.(\d+)(?:\.\d+)*")


def highest_versions(interfaces: Iterable[Interface]) -> dict[str, str]:
    """The newest version of each family of symbols, such as ``GLIBC``; in name order.

    ``CUDA`` is the toolkit's, by the names of its libraries.

    >>> highest_versions([Interface("libc.so.6", "GLIBC_2.9"), Interface("libm.so.6", "GLIBC_2.17"),
    ...                   Interface("libc.so.6", "GLIBC_PRIVATE"), Interface("libcudart.so.12")])
    {'CUDA': '12', 'GLIBC': '2.17'}
    """
    highest: dict[str, tuple[int, ...]] = {}
    for interface in interfaces:
        found = _FAMILY.fullmatch(interface.version)
        cuda = _CUDA.fullmatch(interface.library)
        family, text = (found[1], found[2]) if found else ("CUDA", cuda[1]) if cuda else ("", "")
        # A number of a hundred digits is nobody's version.
        if family and len(text) < 40:
            numbers = tuple(map(int, text.split(".")))
            highest[family] = max(highest.get(family, numbers), numbers)
    return {name: ".".join(map(str, numbers)) for name, numbers in sorted(highest.items())}
