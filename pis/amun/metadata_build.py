"""Builds the metadata of a source distribution with its build backend in the sandbox (PEP 517).

The backend and its requirements are installed outside the sandbox. Only wheels are used, so that
none of their code runs outside the sandbox. The hooks run inside the sandbox, without a network.
"""

import json
import shutil
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from common.settings import Settings
from model.errors import InvalidArgument
from pis.amun.environments import Interpreter
from pis.amun.installer import BuildLog, build_failure, installer_environment, run_installer
from pis.amun.jobs import FinishedJob, JobEnd, run_job
from pis.amun.limit_watch import Watch
from pis.amun.processes import CONFINED, MEBIBYTE
from pis.amun.sandbox import end_of_job, interpreter_folders, sandbox_command
from pis.temporary_folders import scratch_folder

#: Limits of one hook.
_LIMITS = replace(CONFINED, wall_s=300.0)
#: Maximum number of requirements of a backend.
_MOST_REQUIREMENTS = 100
_PATH = "/usr/local/bin:/usr/bin:/bin"
#: Maximum bytes of a source distribution: the sandbox holds it unpacked, in memory.
MOST_BYTES = 64 * MEBIBYTE

#: Runs one hook, and writes its result to standard output; what the build prints goes elsewhere.
_HOOK = """
import importlib, json, os, sys, tarfile, zipfile
archive, hook, backend, *paths = sys.argv[1:]
result = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
os.mkdir("source")
os.mkdir("metadata")
if zipfile.is_zipfile(archive):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall("source")
else:
    with tarfile.open(archive) as packed:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall("source", **safe)
metadata = os.path.abspath("metadata")
(top,) = (it.path for it in os.scandir("source") if it.is_dir())
os.chdir(top)
sys.path[:0] = map(os.path.abspath, paths)
module, _, names = backend.partition(":")
hooks = importlib.import_module(module) if hook != "system" else None
for name in filter(None, names.split(".") if hooks else ()):
    hooks = getattr(hooks, name)
if hook == "system":
    value = ""
    if os.path.isfile("pyproject.toml"):
        with open("pyproject.toml", encoding="utf-8") as file:
            value = file.read(1 << 20)
elif hook == "requires":
    value = list(getattr(hooks, "get_requires_for_build_wheel", lambda settings: [])({}))
elif hasattr(hooks, "prepare_metadata_for_build_wheel"):
    folder = hooks.prepare_metadata_for_build_wheel(metadata, {})
    with open(os.path.join(metadata, folder, "METADATA"), encoding="utf-8") as file:
        value = file.read()
else:
    wheel = hooks.build_wheel(metadata, {})
    with zipfile.ZipFile(os.path.join(metadata, wheel)) as packed:
        (name,) = (it for it in packed.namelist() if it.endswith(".dist-info/METADATA"))
        value = packed.read(name).decode()
json.dump(value, result)
result.close()
"""


@dataclass(frozen=True, slots=True)
class BuildSystem:
    """The table ``build-system`` of a source distribution (PEP 518).

    :param requires: requirements of the backend
    :param paths: folders of the source distribution in which its own backend is
    """

    requires: tuple[str, ...] = ("setuptools>=40.8.0",)
    backend: str = "setuptools.build_meta:__legacy__"
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataBuild:
    """Builds core metadata for an interpreter.

    :param index: name of the index that build backends come from
    """

    interpreter: Interpreter
    index: str
    settings: Settings
    log: BuildLog

    def metadata(self, archive: Path) -> str:
        """Return the core metadata of a source distribution.

        :param archive: the source distribution, whose hash was checked
        :raises BuildFailed: if the source distribution, its backend or its build is broken, or the
            build exceeds a limit
        :raises CannotConfine: if this machine has no sandbox
        """
        # Even its files are read in the sandbox, since an archive can unpack to any size.
        text = self._hook("system", archive, BuildSystem(), ())
        try:
            system = build_system(str(text))
        except ValueError as error:
            message = f"its pyproject.toml is broken: {error}"
            raise build_failure("build-failed", message, self.log) from error
        requires = list(system.requires)
        wanted = self._hook("requires", archive, system, requires)
        if not isinstance(wanted, list) or len(wanted) > _MOST_REQUIREMENTS:
            message = "its build backend does not say what it requires"
            raise build_failure("build-failed", message, self.log)
        text = self._hook("metadata", archive, system, [*requires, *map(str, wanted)])
        if not isinstance(text, str):
            raise build_failure("build-failed", "its build backend gave no metadata", self.log)
        return text

    def _hook(self, hook: str, archive: Path, system: BuildSystem, requires: Sequence[str]) -> Any:
        """Return the result of a hook, which runs in an environment of its own.

        Each hook gets a new environment, because the installer starts the environment's
        interpreter, which must not have any packages yet.
        """
        with scratch_folder("build") as folder:
            python = self._install(requires, folder)
            workdir = folder / "job"
            workdir.mkdir(mode=0o700)
            script, source = folder / "hook.py", folder / archive.name
            script.write_text(_HOOK, encoding="utf-8")
            shutil.copyfile(archive, source)
            for path in (script, source):
                path.chmod(0o644)
            command = [str(python), "-I", str(script), str(source), hook, system.backend]
            sandboxed = sandbox_command(
                [*command, *system.paths],
                workdir=workdir,
                readable=[*interpreter_folders(python), script, source],
                limits=_LIMITS,
                environment={
                    "PATH": f"{python.parent}:{_PATH}",
                    "LANG": "C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )
            self.log.write(f"{system.backend}: {hook}, in the sandbox")
            finished = end_of_job(
                run_job(
                    sandboxed,
                    environment={"PATH": _PATH, "LANG": "C.UTF-8"},
                    limits=_LIMITS,
                    workdir=workdir,
                    watch=Watch,
                )
            )
        return _result(finished, self.log)

    def _install(self, requires: Sequence[str], folder: Path) -> Path:
        """Make an environment with these packages, from wheels only; return its interpreter."""
        try:
            lines = [_plain(it) for it in requires]
        except (InvalidRequirement, InvalidArgument) as error:
            message = f"its build backend requires {error}"
            raise build_failure("build-failed", message, self.log) from error
        environment = folder / "environment"
        python = environment / "bin" / "python"
        variables = installer_environment(self.index, dict(self.settings.package_indexes))
        options = ("--quiet", "--no-project", "--no-python-downloads")
        arguments = ["venv", *options, "--python", self.interpreter.path, str(environment)]
        run_installer(arguments, variables, folder, self.log)
        if lines:
            listed = folder / "requirements.txt"
            listed.write_text("".join(f"{it}\n" for it in lines), encoding="utf-8")
            arguments = ["pip", "install", "--python", str(python), "--only-binary", ":all:"]
            arguments += ["--no-compile-bytecode", "--requirements", str(listed)]
            run_installer(arguments, variables, folder, self.log)
        return python


def build_system(pyproject: str) -> BuildSystem:
    """The build system that a ``pyproject.toml`` names.

    :param pyproject: its text; empty if there is none
    :raises ValueError: if it is broken

    >>> build_system("").backend
    'setuptools.build_meta:__legacy__'
    """
    table = tomllib.loads(pyproject).get("build-system")
    if not table:
        return BuildSystem()
    if not isinstance(table, dict):
        raise ValueError("build-system is no table")
    requires, paths = table.get("requires", []), table.get("backend-path", [])
    backend = table.get("build-backend", BuildSystem().backend)
    if not _are_texts([backend]) or not _are_texts(requires) or not _are_texts(paths):
        raise ValueError("the table build-system is invalid")
    return BuildSystem(tuple(requires), backend, tuple(paths))


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(it, str) for it in values)


def _result(finished: FinishedJob, log: BuildLog) -> Any:
    output = finished.stderr.decode("utf-8", "replace")
    log.write(output)
    if finished.ended is JobEnd.EXITED and finished.exit_code == 0:
        with suppress(ValueError):
            return json.loads(finished.stdout)
    last = next(filter(None, map(str.strip, reversed(output.splitlines()))), "")
    if finished.ended is JobEnd.EXITED:
        message = f"its build failed: {last or f'exit code {finished.exit_code}'}"
    else:
        message = f"its build ended by {finished.ended.value}: {last}"
    raise build_failure("build-failed", message[:500], log, finished.exit_code)


def _plain(text: str) -> str:
    """A requirement without an address."""
    requirement = Requirement(text)
    if requirement.url is not None:
        raise InvalidArgument(f"{requirement.name} by address")
    return str(requirement)
