"""Builds metadata of source distributions whose requirements cannot be read without a build."""

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from adviser.answering.index_clients import IndexReader
from common.index.release_metadata import MetadataRead, metadata_files, metadata_of_file
from common.settings import Settings
from model.errors import IndexProblem, InvalidArgument
from model.packages.environments import Environment, host_environment
from model.packages.project_pages import IndexFile
from model.packages.releases import SDIST_BUILT, SDIST_LIKELY, ReleaseMetadata, ReleaseProblem
from pis.amun.environments import find_interpreter
from pis.amun.installer import BuildLog
from pis.amun.launchers import BuildFailed
from pis.amun.metadata_build import MOST_BYTES, MetadataBuild
from pis.amun.sandbox import CannotConfine, require_confinement


class CannotBuild(InvalidArgument):
    """Source distributions cannot be built on this machine for this request."""


class SdistBuilder:
    """Builds metadata for one environment, one source distribution at a time, in the sandbox.

    :param on_build: called before each build, and not for metadata that was built earlier
    :ivar failures: why a build failed, by name and version
    :raises CannotBuild: without a sandbox, or without this Python on this machine
    :raises InvalidArgument: if the environment has another platform than this machine
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        on_build: Callable[[str, str], None] = lambda _name, _version: None,
    ) -> None:
        host = host_environment()
        if _platform_of(environment) != _platform_of(host):
            message = f"--build builds on this machine, for {host.platform}; the request is for "
            raise InvalidArgument(f"{message}{environment.platform}")
        try:
            require_confinement()
            self._interpreter = find_interpreter(environment.python_version, BuildLog())
        except CannotConfine as error:
            why = str(error).partition(": ")[2]
            message = f"source distributions are built only in a sandbox, and there is none: {why}"
            raise CannotBuild(message, hint=error.hint) from error
        except BuildFailed as error:
            raise CannotBuild(error.message, hint=error.hint) from error
        self._settings = settings
        self._on_build = on_build
        self._one = asyncio.Lock()
        self.failures: dict[tuple[str, str], str] = {}

    async def improved(
        self,
        name: str,
        version: str,
        read: ReleaseMetadata,
        files: Iterable[IndexFile],
        index: str,
        source: IndexReader,
    ) -> ReleaseMetadata:
        """The metadata of a release, built if its requirements are unknown or only likely.

        A failed build changes nothing.

        :param read: its metadata without a build
        :param files: of the release
        :param index: name of the index that they are on
        """
        if not _is_uncertain(read):
            return read
        file = next((it for it in metadata_files(files) if it.kind == "sdist"), None)
        if file is None:
            return read
        if (file.size_bytes or 0) > MOST_BYTES:
            most = f"{MOST_BYTES:,} bytes are built at most"
            self.failures[name, version] = f"it has {file.size_bytes:,} bytes; {most}"
            return read
        try:
            text = await self._built(name, version, file, index, source)
        except (BuildFailed, IndexProblem) as error:
            self.failures[name, version] = error.message
            return read
        built = metadata_of_file(name, version, file, MetadataRead(text, SDIST_BUILT))
        return built if built.problem is None else read

    async def _built(
        self, name: str, version: str, file: IndexFile, index: str, source: IndexReader
    ) -> str:
        facts = (file.sha256, self._interpreter.version, self._interpreter.facts["platform"])
        key = hashlib.sha256(repr(facts).encode()).hexdigest()
        if file.sha256 is not None and (kept := source.kept_metadata(key)) is not None:
            return kept
        async with self._one:
            self._on_build(name, version)
            with tempfile.TemporaryDirectory(prefix="thoth-sdist-") as folder:
                archive = Path(folder) / file.filename
                await source.download(file, archive)
                build = MetadataBuild(self._interpreter, index, self._settings, BuildLog())
                text = await asyncio.to_thread(build.metadata, archive)
        if file.sha256 is not None:
            source.keep_metadata(key, text)
        return text


def _is_uncertain(read: ReleaseMetadata) -> bool:
    return read.problem is ReleaseProblem.DYNAMIC_METADATA or read.metadata_source == SDIST_LIKELY


def _platform_of(environment: Environment) -> tuple[str, str, str | None]:
    libc = environment.libc[0] if environment.libc else None
    return environment.sys_platform, environment.platform_machine, libc
