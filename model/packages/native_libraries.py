"""Native libraries: those that wheels bundle, and the interfaces that they need.

What a release changed in its libraries is context of a measurement. An interface is a library,
``libc.so.6``, or one version of its symbols, ``libc.so.6:GLIBC_2.17``: the names that the dynamic
loader looks up. Wheels require interfaces, and machines and images provide them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from packaging.utils import canonicalize_name

from model.json_fields import Fields
from model.measurements.inspection import DocumentId
from model.packages.identity import PackageVersion
from model.text import first_few

#: Limits of a document; the longest lists are those of crates in wheels with Rust code.
MAX_LIBRARIES, MAX_LENGTH = 1_000, 200
#: Libraries whose changes are named first, because many programs spend their time in them.
_FIRST = re.compile(
    r"(lib|one)?(openblas|mkl|blis|lapack|dnn|gomp|i?omp5?$|tbb|llvm|cu(da|blas|dnn))"
)
_MOST_NAMED = 5
#: What a change of bundled libraries says about a change of speed.
CONTEXT = "context, not shown to be the cause"


@dataclass(frozen=True, slots=True)
class BundledLibrary:
    """A library inside a wheel.

    :param version: ``None`` if unknown
    :param source: file of the wheel that says so, an SBOM or the library itself
    """

    name: str
    version: str | None
    source: str

    @property
    def sbom(self) -> str:
        """Name of the SBOM that names it (PEP 770), without a version; empty without an SBOM."""
        file = self.source.rpartition("/")[2] if ".dist-info/" in self.source else ""
        return re.sub(r"-\d.*", "", file)


#: The libraries of releases, each given as ``NAME==VERSION``; empty if a wheel bundles none.
Bundled = Mapping[str, Sequence[BundledLibrary]]
#: The bundled libraries that differ between two versions, by name of the package.
Steps = Mapping[str, str]


def bundled_of(document: Fields) -> Bundled:
    """Read the libraries that an inspection's build recorded.

    :raises InvalidDocument: if an entry has another form
    """
    return {
        release: tuple(
            BundledLibrary(
                library.required_text("name", most=MAX_LENGTH),
                library.text("version", MAX_LENGTH),
                library.required_text("source", most=MAX_LENGTH),
            )
            for library in document.each(release)
        )
        for release in sorted(document)
    }


def bundled_document(bundled: Bundled) -> dict[str, list[dict[str, str | None]]]:
    """The JSON form, which :func:`bundled_of` reads."""
    return {release: [asdict(it) for it in them] for release, them in sorted(bundled.items())}


def with_libraries(bundled: Bundled) -> Bundled:
    """The releases of packages of which some release bundles a library, sorted."""
    names = {release.partition("==")[0] for release, libraries in bundled.items() if libraries}
    return {it: bundled[it] for it in sorted(bundled) if it.partition("==")[0] in names}


def bundled_changes(bundled: Bundled, package: str, ours: str, theirs: str) -> str | None:
    """The bundled libraries that differ between two versions; context, never a cause.

    :param ours: the version that the text describes
    :returns: ``None`` if nothing changed, or if the libraries of a version are unknown

    >>> bundled_changes({
    ...     "numpy==2.3.0": [BundledLibrary("OpenBLAS", "0.3.29", "a")],
    ...     "numpy==2.2.0": [BundledLibrary("OpenBLAS", "0.3.28", "b")],
    ... }, "numpy", "2.3.0", "2.2.0")
    'numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28'
    """
    releases = [f"{package}=={version}" for version in (ours, theirs)]
    if not all(it in bundled for it in releases):
        return None
    # An SBOM may name the package itself.
    here, there = (
        [it for it in bundled[release] if canonicalize_name(it.name) != package]
        for release in releases
    )
    parts = list(_differences(here, there))
    return f"{package} {ours} bundles {first_few(parts, _MOST_NAMED)}" if parts else None


def bundled_steps(
    bundled: Bundled, versions: Iterable[tuple[str, str | None, str | None]]
) -> Steps:
    """:func:`bundled_changes` of the packages that differ between two stacks, by package.

    :param versions: name of each package, and its versions in the described stack and in the
        other one; ``None`` where a stack lacks the package
    """
    texts = (
        (name, bundled_changes(bundled, name, ours, theirs))
        for name, ours, theirs in versions
        if ours and theirs
    )
    return {name: text for name, text in texts if text is not None}


def context_lines(steps: Steps, names: Iterable[str]) -> list[str]:
    """The steps of some packages as lines for people."""
    return [f"{steps[it]} ({CONTEXT})" for it in sorted(steps.keys() & set(names))]


def _differences(ours: Sequence[BundledLibrary], theirs: Sequence[BundledLibrary]) -> Iterator[str]:
    """One text for each library that differs: important ones first, then changed versions.

    If only one release has an SBOM, the other may bundle the same: nothing is added or removed.
    """
    here, there = map(_versions, (ours, theirs))
    both, sboms = here.keys() & there.keys(), [{it.sbom for it in them} for them in (ours, theirs)]
    keys = here.keys() | there.keys() if sboms[0] | {""} == sboms[1] | {""} else both
    for key in sorted(keys, key=lambda it: (not _FIRST.match(it[0].lower()), it not in both, it)):
        name, mine, other = key[0], here.get(key), there.get(key)
        if mine is None:
            yield f"no {name}"
        elif other is None:
            yield f"also {' '.join([name, *mine])}"
        elif mine and other and mine != other:
            yield f"{name} {' and '.join(mine)} instead of {' and '.join(other)}"


def _versions(libraries: Sequence[BundledLibrary]) -> dict[tuple[str, str], list[str]]:
    """The known versions of each library, by its name and its SBOM."""
    versions: dict[tuple[str, str], list[str]] = {}
    for it in sorted(libraries, key=lambda it: it.version or ""):
        versions.setdefault((it.name, it.sbom), []).extend(filter(None, [it.version]))
    return versions


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
