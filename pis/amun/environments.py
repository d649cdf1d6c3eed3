"""Environments: one folder a lock and interpreter, made once, of wheels with the right hash.

Nothing that is installed runs while it is installed: source distributions, whose
``setup.py`` would, are never built, and the interpreter of an environment, which would run
``.pth`` files of wheels, is not started once there are wheels. What came out is compared
with the lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from common.formats.json_documents import digest
from common.host_problems import reason_of
from common.packages import DEFAULT_INDEX
from common.settings import Settings
from pis.amun.indexes import installer_environment
from pis.amun.installer import TIMEOUT_S, BuildLog, Say, failed, run_installer
from pis.amun.launchers import BuildFailed
from pis.amun.locks import Lock, LockedPackage, holds
from pis.amun.processes import run_group
from pis.scratch import scratch_folder

#: What an interpreter says of itself: it decides which wheels fit and which markers hold.
_ASK = """
import json, os, platform, sys, sysconfig
info = sys.implementation.version
full = "{}.{}.{}".format(*info[:3]) + ("" if info[3] == "final" else info[3][0] + str(info[4]))
print(json.dumps({
    "markers": {
        "implementation_name": sys.implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
    "build": [platform.python_compiler(), *platform.python_build()],
    "platform": sysconfig.get_platform(),
    "libc": platform.libc_ver(),
}))
"""


_ASK_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python on this machine.

    :param facts: what it says of itself: ``markers``, ``build``, ``platform``, ``libc``
    """

    path: str
    facts: Mapping[str, Any]

    @property
    def version(self) -> str:
        """Such as ``3.11.7``."""
        return str(self.facts["markers"]["python_full_version"])


def find_interpreter(version: str | None, log: BuildLog) -> Interpreter:
    """A Python of ``version`` on this machine; nothing is downloaded.

    :param version: ``None`` for the one that runs this
    :raises BuildFailed: ``python-not-found``
    """
    running = ".".join(map(str, sys.version_info[:3]))
    if version is None or running == version or running.startswith(f"{version}."):
        path = str(getattr(sys, "_base_executable", None) or sys.executable)
    else:
        path = _found(version, log)
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True,
        )  # fmt: skip
        interpreter = Interpreter(path, json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise failed("python-not-found", f"{path} does not run: {error}", log) from None
    log.write(f"Python {interpreter.version}: {path}")
    return interpreter


def _found(version: str, log: BuildLog) -> str:
    environment = installer_environment(DEFAULT_INDEX, {})
    with scratch_folder("uv") as folder:
        try:
            arguments = ("python", "find", "--system", "--no-python-downloads", "--no-config")
            return run_installer([*arguments, version], environment, folder, log).strip()
        except BuildFailed as error:
            message = f"no Python {version} on this machine"
            raised = failed("python-not-found", message, log, error.exit_code)
            raised.hint = f"install Python {version}, and see that it is in PATH"
            raise raised from None


_DESCRIPTION = "environment.json"
_PART = ".part"
#: Within an environment that is built: what one index served.
_SERVED = "served"
#: By default only the first index that knows a name is asked; what has the hash may be in others.
_ALL_INDEXES = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
_MORE_INDEXES = frozenset(("UV_INDEX", "UV_EXTRA_INDEX_URL"))


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """An environment that stands.

    :param python: its interpreter
    :param base: the folder of the interpreter that it was made from
    :param digest: of the lock, the interpreter and the platform
    :param freeze: ``name==version`` of everything in it, sorted
    :param log: of the installation, also if that was long ago
    """

    path: Path
    python: Path
    base: Path
    digest: str
    python_version: str
    freeze: tuple[str, ...]
    log: str


def build_environment(
    lock: Lock, settings: Settings, python_version: str | None = None, say: Say | None = None
) -> BuiltEnvironment:
    """The environment of ``lock`` below ``HOME/environments``; built unless it is there.

    :param python_version: such as ``3.11`` or ``3.11.7``; the lock's, else the running
        interpreter's if unset
    :param say: called with each line of the build log as it comes
    :raises BuildFailed: ``python-not-found``, ``hash-mismatch``, ``no-wheel``,
        ``index-unreachable``, ``timed-out``, ``disk-full``, ``host-failed``,
        ``launcher-unavailable`` or ``build-failed``, with the log
    """
    log = BuildLog(say)
    home = settings.home / "environments"
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home)
        interpreter = find_interpreter(python_version or lock.python_version, log)
        name = environment_digest(lock, interpreter)
        path = home / name.removeprefix("sha256:")[:32]
        with FileLock(f"{path}.lock"):
            return _standing(path, name, log) or _build(
                lock, interpreter, path, name, settings, log
            )
    except (OSError, UnicodeError) as error:
        raise failed(reason_of(error) or "build-failed", str(error), log) from error


def environment_digest(lock: Lock, interpreter: Interpreter) -> str:
    """What an environment is made of: packages, interpreter and platform, not where it lies."""
    markers = interpreter.facts["markers"]
    return digest(
        {
            "packages": [asdict(package) for package in lock.packages],
            "python": [markers["implementation_name"], interpreter.version],
            "build": interpreter.facts["build"],
            "platform": [interpreter.facts["platform"], interpreter.facts["libc"]],
        }
    )


def _sweep(home: Path) -> None:
    """Remove what killed runners left half built; who builds holds the lock."""
    for part in home.glob(f"*{_PART}"):
        lock = FileLock(home / f"{part.name.partition('.')[0]}.lock", timeout=0)
        with contextlib.suppress(Timeout), lock:
            shutil.rmtree(part, ignore_errors=True)


def _standing(path: Path, name: str, log: BuildLog) -> BuiltEnvironment | None:
    try:
        described = json.loads((path / _DESCRIPTION).read_text(encoding="utf-8"))
        environment = BuiltEnvironment(
            path=path,
            python=path / "bin" / "python",
            base=Path(described["base"]),
            digest=name,
            python_version=described["python_version"],
            freeze=tuple(described["freeze"]),
            log=described["log"],
        )
    except (OSError, ValueError, KeyError):
        return None
    if not environment.python.exists():
        return None
    log.write(f"an environment of this lock stands: {name}")
    log.write(environment.log)
    return environment


def _build(
    lock: Lock, interpreter: Interpreter, path: Path, name: str, settings: Settings, log: BuildLog
) -> BuiltEnvironment:
    """Build beside ``path`` and rename: a folder of that name is complete."""
    temporary = Path(f"{path}.{os.getpid()}{_PART}")
    try:
        freeze = _fill(temporary, lock, interpreter, settings, log)
        described = {
            "digest": name,
            "base": str(Path(interpreter.path).resolve().parent.parent),
            "python_version": interpreter.version,
            "freeze": freeze,
            "log": str(log),
        }
        (temporary / _DESCRIPTION).write_text(json.dumps(described), encoding="utf-8")
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    environment = _standing(path, name, BuildLog())
    assert environment is not None  # noqa: S101
    return environment


def _fill(
    folder: Path, lock: Lock, interpreter: Interpreter, settings: Settings, log: BuildLog
) -> list[str]:
    """Install what the lock has for this interpreter; what came out."""
    _make_empty(folder, interpreter, settings, log)
    packages = next(folder.glob("lib/*/site-packages"))
    wanted = [it for it in lock.packages if holds(it.marker, interpreter.facts["markers"])]
    for package in lock.packages:
        if package not in wanted:
            log.write(f"left out by its marker: {package.requirement}")
    for index in sorted({package.index for package in wanted}):
        # Apart: uv starts the interpreter that it installs for, which must find no wheels yet.
        served = folder / _SERVED
        _make_empty(served, interpreter, settings, log)
        _install([it for it in wanted if it.index == index], index, served, settings, log)
        _merge(served, folder)
        shutil.rmtree(served)
    freeze = _freeze(packages, log)
    _compare(wanted, freeze, log)
    _compile(packages, interpreter, log)
    return freeze


def _make_empty(path: Path, interpreter: Interpreter, settings: Settings, log: BuildLog) -> None:
    # Relocatable, because the folder gets its name when it is complete.
    options = ("--quiet", "--relocatable", "--no-project", "--no-python-downloads")
    venv = ["venv", *options, "--python", interpreter.path, str(path)]
    _uv(venv, DEFAULT_INDEX, settings, log)


def _merge(source: Path, target: Path) -> None:
    """Move what is in ``source`` into ``target``; folders that are in both become one."""
    for path in source.iterdir():
        other = target / path.name
        if path.is_dir() and not path.is_symlink() and other.is_dir():
            _merge(path, other)
        else:
            path.replace(other)


def _install(
    packages: list[LockedPackage], index: str, path: Path, settings: Settings, log: BuildLog
) -> None:
    requirements = path / "requirements.txt"
    requirements.write_text(requirements_of(packages), encoding="utf-8")
    log.write(f"from the index {index}:")
    log.write("\n".join(package.requirement for package in packages))
    arguments = ["pip", "install", "--python", str(path / "bin" / "python"), "--require-hashes"]
    arguments += ["--no-deps", "--only-binary", ":all:", "--no-compile-bytecode"]
    arguments += ["--requirements", str(requirements)]
    _uv(arguments, index, settings, log, hashed=True)


def requirements_of(packages: list[LockedPackage]) -> str:
    """A requirements file of ``packages`` with their hashes, which installers check."""
    return "".join(
        " \\\n    ".join([package.requirement, *(f"--hash={it}" for it in package.hashes)]) + "\n"
        for package in packages
    )


def _freeze(packages: Path, log: BuildLog) -> list[str]:
    """What the metadata in ``packages`` says; asking the interpreter would run ``.pth`` files."""
    found = [it for it in distributions(path=[str(packages)]) if it.read_text("METADATA")]
    frozen = sorted(f"{canonicalize_name(str(it.name))}=={it.version}" for it in found)
    log.write("installed:")
    log.write("\n".join(frozen))
    return frozen


def _compile(packages: Path, interpreter: Interpreter, log: BuildLog) -> None:
    """Compile now, else the first job would be slower; some packages have files that never do.

    By the interpreter that the environment was made from: it writes the same and looks at no
    ``.pth`` file. It gets no variables of the runner.
    """
    command = [interpreter.path, "-I", "-S", "-m", "compileall", "-q", "-j", "0", str(packages)]
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    log.write(f"$ {' '.join(command)}")
    try:
        done = run_group(command, environment, packages, TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.write(f"not compiled: {error}")
    else:
        log.write("not all files could be compiled" if done.returncode else "compiled")


def _compare(wanted: list[LockedPackage], freeze: list[str], log: BuildLog) -> None:
    expected = {(package.name, package.version) for package in wanted}
    pairs = [line.partition("==") for line in freeze]
    found = {(str(canonicalize_name(name)), _release(version)) for name, _, version in pairs}
    missing = sorted("==".join(pair) for pair in expected - found)
    foreign = sorted("==".join(pair) for pair in found - expected)
    if missing or foreign:
        said = (
            f"missing: {', '.join(missing) or 'none'}; not locked: {', '.join(foreign) or 'none'}"
        )
        raise failed("build-failed", f"what was installed is not the lock: {said}", log)


def _release(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _uv(
    arguments: list[str],
    index: str,
    settings: Settings,
    log: BuildLog,
    *,
    hashed: bool = False,
) -> str:
    """:param hashed: whether hashes decide what is taken, so that any index may serve it"""
    indexes = dict(settings.package_indexes)
    with scratch_folder("uv") as folder:
        environment = installer_environment(index, indexes)
        # A sole index is not asked so: uv would take one that refuses for one that lacks.
        if hashed and _MORE_INDEXES & environment.keys():
            environment = _ALL_INDEXES | environment
        return run_installer(arguments, environment, folder, log)
