"""Downloads and analyses wheels: native interfaces, compared with environments, and modules."""

import asyncio
import hashlib
import logging
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version
from sqlalchemy import Connection

from common.index.client import IndexClient
from common.index.configuration import Index, index_of
from common.settings import Settings
from graph.engine import Stores
from graph.migrate import migrated_stores
from graph.projection import sync
from graph.record.native import (
    KnownArtifact,
    KnownEnvironment,
    MissingInterface,
    add_analysis,
    artifacts_by_hash,
    artifacts_of,
    environments_called,
    missing_interfaces,
)
from ingest.native.analysis_documents import WheelContent, wheel_analysis
from ingest.native.elf import MAGIC, read_library
from ingest.native.file_trees import MEBIBYTE, copy_bounded
from ingest.sources.bounded_reads import bomb
from model.errors import InvalidArgument, InvalidDocument, ProjectError, Reason, StoreUnavailable
from model.packages.environments import Environment, machine_family
from model.packages.identity import package_version, version_of
from model.packages.import_names import names_in_wheel
from model.packages.native_libraries import (
    Analysis,
    Interface,
    NativeLibrary,
    UnreadableLibrary,
    WheelAnalysis,
)
from model.packages.project_pages import IndexFile
from model.packages.wheels import compatibility, parse_wheel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WheelLimits:
    """Limits for reading a wheel; the largest real wheels need less than a quarter of each.

    :param members: members of the archive
    :param unpacked_bytes: unpacked size of all members
    :param library_bytes: size of one library, which is unpacked to a temporary file
    :param ratio: ratio of unpacked to packed bytes; tables of numbers have about 60
    """

    members: int = 200_000
    unpacked_bytes: int = 32 * 1024 * MEBIBYTE
    library_bytes: int = 8 * 1024 * MEBIBYTE
    ratio: float = 200.0


#: Wheels that unpack to fewer bytes are accepted whatever their ratio.
_RATIO_FLOOR_BYTES = 256 * MEBIBYTE
#: Larger libraries are unpacked to a file instead of memory.
_IN_MEMORY_BYTES = 32 * MEBIBYTE
_SMALLEST_ELF_BYTES = 52
#: Suffixes of files that are never native code, so most files of a wheel are not even opened.
_TEXTS = (".py", ".pyi", ".pyc", ".h", ".hpp", ".cuh", ".inc", ".txt", ".md", ".json", ".csv")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    OverflowError,
)  # fmt: skip
#: Suffixes of extension modules.
_EXTENSION = re.compile(r"\.(?:cpython-[^.]+|abi3t?|pypy[^.]*|graalpy[^.]*)\.so$")
_NAMESPACES = re.compile(r"[^/]+\.dist-info/namespace_packages\.txt")
#: Maximum bytes of the list of namespace packages.
_LONGEST_LIST = 64 << 10


def analyze_wheel(
    path: Path, *, filename: str | None = None, index: str | None = None,
    limits: WheelLimits | None = None,
) -> WheelAnalysis:  # fmt: skip
    """Analyse a wheel without running its code; leaves no files behind.

    :param filename: file name of the wheel, if ``path`` has another name
    :param index: name of the index that served it; the default index if unset
    :raises InvalidArgument: if the file name is not the name of a wheel
    :raises InvalidDocument: if the file is not a wheel, or larger than any real one
    """
    wheel = parse_wheel(filename or path.name)
    try:
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            stream.seek(0)
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, stream.seek(0, 2), limits or WheelLimits())
                reader = _Libraries(archive, members, limits or WheelLimits())
                libraries = list(reader)
                shared = next((it for it in members if _NAMESPACES.fullmatch(it.filename)), None)
                listed = b""
                if shared is not None:
                    with archive.open(shared) as text:
                        listed = text.read(_LONGEST_LIST)
                namespaces = listed.decode("utf-8", "replace").split()
                imports = names_in_wheel((it.filename for it in members), namespaces).names
    except _BROKEN as error:
        message = str(error)[:200] or type(error).__name__
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, message, place=wheel.filename) from error
    except OSError as error:
        message = error.strerror or str(error)
        raise InvalidDocument(Reason.UNREADABLE, message, place=str(path)) from error
    except InvalidDocument as error:
        error.place = "/".join(filter(None, (wheel.filename, error.place)))
        raise
    content = WheelContent(
        imports=imports,
        bundled={it.soname or _file_name(it) for it in libraries if _is_shared(it)},
        needs=needs_of(libraries, architectures_of(wheel.tags)),
        libraries=libraries,
        skipped=reader.skipped,
    )
    return wheel_analysis(wheel, index, sha256, content)


def _members(archive: zipfile.ZipFile, packed: int, limits: WheelLimits) -> list[zipfile.ZipInfo]:
    members = [member for member in archive.infolist() if not member.is_dir()]
    unpacked = sum(member.file_size for member in members)
    if len(members) > limits.members:
        raise bomb(f"{len(members)} members, more than {limits.members}", "")
    if unpacked > limits.unpacked_bytes:
        raise bomb(f"unpacks to {unpacked} bytes, more than {limits.unpacked_bytes}", "")
    if unpacked > _RATIO_FLOOR_BYTES and unpacked > limits.ratio * packed:
        raise bomb(f"{packed} bytes claim to unpack to {unpacked}", "")
    for name in (member.filename.replace("\\", "/") for member in members):
        if name.startswith("/") or name[1:3] == ":/" or ".." in name.split("/"):
            raise InvalidDocument(Reason.ARCHIVE_PATH, "leaves the archive", place=name[:200])
    if not any(re.fullmatch(r"[^/]+\.dist-info/WHEEL", it.filename) for it in members):
        raise InvalidDocument(Reason.ARCHIVE_BROKEN, "not a wheel: it has no .dist-info/WHEEL")
    return members


class _Libraries:
    """Reads the libraries of an archive one by one."""

    def __init__(
        self, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], limits: WheelLimits
    ) -> None:
        self._archive = archive
        self._members = members
        self._limits = limits
        self.skipped: list[UnreadableLibrary] = []

    def __iter__(self) -> Iterator[NativeLibrary]:
        for member in self._members:
            if self._is_elf(member):
                try:
                    library = self._read(member)
                except InvalidDocument as error:
                    if error.reason != Reason.ELF_BROKEN:
                        raise
                    self.skipped.append(UnreadableLibrary(member.filename, error.message))
                    continue
                if library is not None:
                    yield library

    def _is_elf(self, member: zipfile.ZipInfo) -> bool:
        if member.file_size < _SMALLEST_ELF_BYTES or member.filename.endswith(_TEXTS):
            return False
        if member.compress_type not in _METHODS:
            raise InvalidDocument(
                Reason.ARCHIVE_BROKEN, "only stored and deflated members are read",
                place=member.filename,
            )  # fmt: skip
        with self._archive.open(member) as stream:
            return stream.read(len(MAGIC)) == MAGIC

    def _read(self, member: zipfile.ZipInfo) -> NativeLibrary | None:
        if member.file_size > self._limits.library_bytes:
            raise bomb(f"a library of {member.file_size} bytes", member.filename)
        with (
            self._archive.open(member) as packed,
            tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as unpacked,
        ):
            copy_bounded(packed, unpacked, member.file_size)
            unpacked.seek(0)
            return read_library(unpacked, member.filename)


def needs_of(libraries: list[NativeLibrary], architectures: frozenset[str]) -> set[Interface]:
    """Return the interfaces that the libraries need and the wheel does not provide.

    :param architectures: architectures of the wheel, empty for all; libraries for other
        architectures are ignored, because some wheels contain code that they send to other machines
    """
    own = {name for it in libraries for name in (it.soname, _file_name(it)) if name}
    families = {machine_family(it) for it in architectures}
    loaded = [it for it in libraries if not families or machine_family(it.architecture) in families]
    if libraries and not loaded:
        others = sorted({it.architecture for it in libraries})
        logger.warning(
            "native_libraries_of_other_machines",
            extra={"wanted": sorted(architectures), "found": others},
        )
    needed = {Interface(name) for it in loaded for name in it.needed}
    needed |= {version for it in loaded for version in it.needs}
    return {interface for interface in needed if interface.library not in own}


def architectures_of(tags: str) -> frozenset[str]:
    """Return the architectures of Linux platforms such as ``manylinux_2_17_x86_64``."""
    platforms = tags.rpartition("-")[2].split(".")
    matches = (re.fullmatch(r"(?:(?:many|musl)linux\w*?|linux)_((?:x86_|i|[a-z])\w+)", it)
               for it in platforms)  # fmt: skip
    return frozenset(match[1] for match in matches if match)


def _file_name(library: NativeLibrary) -> str:
    return library.path.rpartition("/")[2]


def _is_shared(library: NativeLibrary) -> bool:
    """Whether a file is a shared library, rather than an extension module or a program."""
    name = _file_name(library)
    if _EXTENSION.search(name) or ".so" not in name:
        return False
    return name.startswith("lib") or ".so." in name or ".libs/" in library.path


@dataclass(frozen=True, slots=True)
class Pinned:
    """One version of one package.

    >>> parse_pin("Flask==3.0")
    Pinned(name='Flask', version=<Version('3.0')>)
    """

    name: str
    version: Version


def parse_pin(text: str) -> Pinned:
    """Parse ``NAME==VERSION``.

    :raises InvalidArgument: if ``text`` has another form
    """
    try:
        wanted = Requirement(text)
        ((operator, version),) = [(it.operator, it.version) for it in wanted.specifier]
        if operator == "==" and wanted.marker is None and wanted.url is None:
            return Pinned(wanted.name, Version(version))
    except (InvalidRequirement, InvalidVersion, ValueError):
        pass
    raise InvalidArgument(f"{text!r} is neither a file nor has the form NAME==VERSION")


@contextmanager
def fetched_wheel(
    settings: Settings, wanted: Pinned, index_name: str | None, environment: Environment
) -> Iterator[tuple[Path, str]]:
    """Yield the wheel that an installer would choose, and the name of its index.

    :raises InvalidArgument: if no wheel fits, with the reason
    :raises IndexProblem: if the index does not serve the wheel, or its hash differs
    """
    index = index_of(settings, index_name)
    with tempfile.TemporaryDirectory(prefix="thoth-wheel-") as folder:
        yield asyncio.run(_fetch(settings, index, wanted, environment, Path(folder))), index.name


async def _fetch(
    settings: Settings, index: Index, wanted: Pinned, environment: Environment, folder: Path
) -> Path:
    async with IndexClient(settings, index) as client:
        page = await client.project(wanted.name)
        file = best_wheel(page.files, wanted, environment)
        target = folder / parse_wheel(file.filename).filename
        await client.download(file, target)
    return target


def best_wheel(files: Sequence[IndexFile], wanted: Pinned, environment: Environment) -> IndexFile:
    """Return the version's wheel whose tag ranks first in the environment.

    :raises InvalidArgument: if none fits, with the reason
    """
    fitting: list[tuple[int, str, IndexFile]] = []
    tags: list[str] = []
    sdist = False
    for file in files:
        if version_of(file.version) != wanted.version:
            continue
        sdist = sdist or file.kind == "sdist"
        if file.kind == "wheel":
            tags.append(parse_wheel(file.filename).tags)
            rank = compatibility(tags[-1:], None, True, environment).rank
            if rank is not None:
                fitting.append((rank, file.filename, file))
    if fitting:
        return min(fitting, key=lambda it: it[:2])[2]
    name = f"{wanted.name} {wanted.version}"
    if not tags and not sdist:
        raise InvalidArgument(f"the index has no {name}")
    reason = compatibility(tags, sdist, True, environment).message
    raise InvalidArgument(f"no wheel of {name} for {environment.label}: {reason}")


_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")


@dataclass(frozen=True, slots=True)
class RecordedAnalysis:
    """Result of storing an analysis.

    :param new: ``False`` if the analysis was in the record already
    :param graph_error: why the projection to the graph failed, if it did
    """

    new: bool
    graph_error: ProjectError | None = None


@dataclass(frozen=True, slots=True)
class InterfaceDifference:
    """Interfaces that a wheel needs and an environment lacks.

    :param architectures: architectures of the wheel if the environment has another architecture,
        otherwise empty
    """

    artifact: KnownArtifact
    environment: KnownEnvironment
    missing: tuple[MissingInterface, ...]
    architectures: tuple[str, ...] = ()


def record_analysis(settings: Settings, analysis: Analysis, source: str) -> RecordedAnalysis:
    """Store an analysis and project it to the graph."""
    with migrated_stores(settings, graph=False) as stores:
        with stores.engine.begin() as connection:
            new = add_analysis(connection, settings, analysis, source)
        try:
            with migrated_stores(settings, relational=False) as opened:
                sync(stores.engine, opened.driver, database=opened.database)
        except ProjectError as error:
            return RecordedAnalysis(new, error)
    return RecordedAnalysis(new)


def differences(
    settings: Settings, wheel: str, environment: str, index: str | None = None
) -> list[InterfaceDifference]:
    """Return the interfaces that recorded wheels need and a recorded environment lacks.

    :param wheel: package URL, ``NAME==VERSION``, or a prefix of the SHA-256
    :param environment: name, or prefix of the digest; if several environments have the name, the
        newest counts
    :raises InvalidArgument: if the wheel or the environment is not recorded
    """
    with migrated_stores(settings) as stores:
        with stores.engine.connect() as connection:
            artifacts = _artifacts(connection, wheel, index)
            providers = environments_called(connection, environment)
        if not providers:
            raise InvalidArgument(
                f"no environment {environment!r} is recorded: `thoth analyze host --ingest` or "
                "`thoth analyze image … --ingest` records one"
            )
        return [_difference(stores, artifact, providers[0]) for artifact in artifacts]


def _artifacts(connection: Connection, wheel: str, index: str | None) -> list[KnownArtifact]:
    if match := _HASH.fullmatch(wheel):
        known = artifacts_by_hash(connection, match[1])
    elif wheel.startswith("pkg:"):
        known = artifacts_of(connection, wheel)
    else:
        wanted = parse_pin(wheel)
        purl = package_version(wanted.name, str(wanted.version), index).purl
        known = artifacts_of(connection, purl)
    if not known:
        raise InvalidArgument(
            f"no wheel {wheel!r} is recorded: `thoth analyze wheel … --ingest` records one"
        )
    return known


def _difference(
    stores: Stores, artifact: KnownArtifact, environment: KnownEnvironment
) -> InterfaceDifference:
    with stores.driver.session(database=stores.database) as session:
        missing = session.execute_read(missing_interfaces, artifact.sha256, environment.digest)
    if missing is None:
        raise StoreUnavailable(
            "the graph", "it does not show the analyses yet", "run `thoth graph sync`"
        )
    machines = architectures_of(parse_wheel(artifact.filename).tags)
    family = machine_family(environment.architecture)
    others = () if family in map(machine_family, machines) else machines
    return InterfaceDifference(artifact, environment, tuple(missing), tuple(sorted(others)))
