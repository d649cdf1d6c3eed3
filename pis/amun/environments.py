"""Builds one virtual environment per lock and interpreter, from wheels with locked hashes.

No installed code runs during the installation. Source distributions are never built, because that
would run their ``setup.py``. After the wheels are installed, the environment's interpreter is not
started, because it would run their ``.pth`` files. Finally, the installed packages are compared
with the lock.
"""

import contextlib
import fcntl
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from packaging.utils import canonicalize_name

from common.files import private_folder
from common.formats.locks.entries import LockEntry
from common.settings import Settings
from model.json_documents import digest
from model.measurements.job_stability import reason_of
from model.packages.identity import DEFAULT_INDEX, version_of, version_order
from model.packages.native_libraries import MAX_LENGTH, MAX_LIBRARIES, Bundled, BundledLibrary
from pis.amun.installer import (
    TIMEOUT_S,
    BuildLog,
    LineCallback,
    build_failure,
    installer_environment,
    run_installer,
)
from pis.amun.launchers import BuildFailed
from pis.amun.locks import Lock
from pis.amun.processes import run_group
from pis.temporary_folders import scratch_folder

#: Makes an interpreter describe itself; this decides which wheels fit and which markers are true.
_DESCRIBE = """
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


_DESCRIBE_TIMEOUT_S = 60

#: Does the same as ``python -m compileall``. Workers of a killed parent would wait forever, as each
#: holds the others' pipes open. So the kernel kills them, too (1: ``PR_SET_PDEATHSIG``).
_COMPILE = """
import compileall, contextlib, multiprocessing, os, sys
with contextlib.suppress(ImportError, AttributeError):
    import ctypes
    prctl = ctypes.CDLL(None).prctl
    os.register_at_fork(after_in_child=lambda: prctl(1, 9))
    # Since Python 3.12, compileall prefers a server, whose forks are no forks of this process.
    forks = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forks
sys.exit(not compileall.main())
"""


_DESCRIPTION = "environment.json"
_PART = ".part"
#: Subfolder of an environment under construction: the packages of one index.
_STAGING = "staging"
#: By default, uv uses only the first index that has a name; the locked file may be on another one.
_ALL_INDEXES = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
_MORE_INDEXES = frozenset(("UV_INDEX", "UV_EXTRA_INDEX_URL"))
#: Fields of a locked package that decide what is installed.
_INSTALLED = ("name", "version", "hashes", "marker", "index", "extras")
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


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter on this machine.

    :param facts: its description of itself: ``markers``, ``build``, ``platform``, ``libc``
    """

    path: str
    facts: Mapping[str, Any]

    @property
    def version(self) -> str:
        """Full version, such as ``3.11.7``."""
        return str(self.facts["markers"]["python_full_version"])


def find_interpreter(version: str | None, log: BuildLog) -> Interpreter:
    """Find a Python of ``version`` on this machine, without downloading one.

    :param version: ``None`` for the running interpreter
    :raises BuildFailed: ``python-not-found``
    """
    running = ".".join(map(str, sys.version_info[:3]))
    if version is None or running == version or running.startswith(f"{version}."):
        path = str(getattr(sys, "_base_executable", None) or sys.executable)
    else:
        path = _interpreter_path(version, log)
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _DESCRIBE],
            capture_output=True, text=True, timeout=_DESCRIBE_TIMEOUT_S, check=True,
        )  # fmt: skip
        interpreter = Interpreter(path, json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise build_failure("python-not-found", f"{path} does not run: {error}", log) from None
    log.write(f"Python {interpreter.version}: {path}")
    return interpreter


def _interpreter_path(version: str, log: BuildLog) -> str:
    environment = installer_environment(DEFAULT_INDEX, {})
    with scratch_folder("uv") as folder:
        try:
            arguments = ("python", "find", "--system", "--no-python-downloads", "--no-config")
            return run_installer([*arguments, version], environment, folder, log).strip()
        except BuildFailed as error:
            if (path := _pyenv_interpreter(version)) is not None:
                return path
            message = f"no Python {version} on this machine"
            hint = f"run `uv python install {version}`, or add a Python {version} to PATH"
            raise build_failure("python-not-found", message, log, error.exit_code, hint) from None


def _pyenv_interpreter(version: str) -> str | None:
    """The newest interpreter of pyenv, whose commands in PATH run only selected versions."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    paths = {it.parts[-3]: it for it in root.glob("versions/*/bin/python")}
    names = [it for it in paths if version_of(it) and f"{it}.".startswith(f"{version}.")]
    return str(paths[max(names, key=version_order)]) if names else None


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """A complete environment.

    :param python: its interpreter
    :param base: installation folder of the interpreter that it was made from
    :param digest: digest of the lock, the interpreter and the platform
    :param build: identifies this installation; ``None`` if an earlier release made it
    :param freeze: ``name==version`` of all installed packages, sorted
    :param log: log of the installation, which may be old
    :param bundled: libraries that its wheels bundle
    """

    path: Path
    python: Path
    base: Path
    digest: str
    python_version: str
    freeze: tuple[str, ...]
    log: str
    bundled: Bundled
    build: str | None = None


def build_environment(
    lock: Lock,
    settings: Settings,
    python_version: str | None = None,
    on_line: LineCallback | None = None,
    uses: contextlib.ExitStack | None = None,
) -> BuiltEnvironment:
    """Return the environment of ``lock`` below ``THOTH_HOME/environments``; build it if needed.

    :param python_version: such as ``3.11`` or ``3.11.7``; by default the version of the lock or
        else of the running interpreter
    :param on_line: called with each line of the build log at once
    :param uses: until it is closed, ``thoth clean`` leaves the environment
    :raises BuildFailed: ``python-not-found``, ``hash-mismatch``, ``no-wheel``,
        ``index-unreachable``, ``timed-out``, ``disk-full``, ``host-failed``,
        ``launcher-unavailable`` or ``build-failed``, with the log
    """
    log = BuildLog(on_line)
    home = settings.home / "environments"
    try:
        private_folder(home)
        _sweep(home)
        interpreter = find_interpreter(python_version or lock.python_version, log)
        name = environment_digest(lock, interpreter)
        path = home / name.removeprefix("sha256:")[:32]
        with FileLock(f"{path}.lock"):
            environment = _existing(path, name, log) or _build(
                lock, interpreter, path, name, settings, log
            )
            if uses is not None:
                description = uses.enter_context((path / _DESCRIPTION).open("rb"))
                fcntl.flock(description, fcntl.LOCK_SH)
            return environment
    except (OSError, UnicodeError) as error:
        raise build_failure(reason_of(error) or "build-failed", str(error), log) from error


def environment_digest(lock: Lock, interpreter: Interpreter) -> str:
    """Return the digest of packages, interpreter and platform; the location does not matter."""
    markers = interpreter.facts["markers"]
    return digest(
        {
            "packages": [
                {key: getattr(package, key) for key in _INSTALLED} for package in lock.packages
            ],
            "python": [markers["implementation_name"], interpreter.version],
            "build": interpreter.facts["build"],
            "platform": [interpreter.facts["platform"], interpreter.facts["libc"]],
        }
    )


def _sweep(home: Path) -> None:
    """Remove incomplete environments of killed runners; a live runner holds a lock."""
    for part in home.glob(f"*{_PART}"):
        lock = FileLock(home / f"{part.name.partition('.')[0]}.lock", timeout=0)
        with contextlib.suppress(Timeout), lock:
            shutil.rmtree(part, ignore_errors=True)


def old_environments(settings: Settings, used_before_s: float) -> list[Path]:
    """Return the complete environments that were last used before a time; each use touches them."""
    paths = sorted((settings.home / "environments").glob(f"*/{_DESCRIPTION}"))
    old = [it.parent for it in paths if it.stat().st_mtime <= used_before_s]
    return [it for it in old if it.suffix != _PART]


def remove_environment(path: Path, *, dry_run: bool = False) -> bool:
    """Remove an environment with its lock; return ``False`` if an inspection uses it."""
    try:
        with FileLock(f"{path}.lock", timeout=0), (path / _DESCRIPTION).open("r+b") as description:
            fcntl.flock(description, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
                Path(f"{path}.lock").unlink(missing_ok=True)
    except (Timeout, BlockingIOError, FileNotFoundError):
        return False
    return True


def _existing(path: Path, name: str, log: BuildLog) -> BuiltEnvironment | None:
    try:
        description = json.loads((path / _DESCRIPTION).read_text(encoding="utf-8"))
        environment = BuiltEnvironment(
            path=path,
            python=path / "bin" / "python",
            base=Path(description["base"]),
            digest=name,
            python_version=description["python_version"],
            freeze=tuple(description["freeze"]),
            log=description["log"],
            build=description.get("build"),
            bundled=bundled_libraries(_site_packages(path)),
        )
    except (OSError, ValueError, KeyError, StopIteration):
        return None
    if not environment.python.exists():
        return None
    (path / _DESCRIPTION).touch()  # `thoth clean` removes what was not used for long
    log.write(f"the environment of this lock already exists: {name}")
    log.write(environment.log)
    return environment


def _build(
    lock: Lock, interpreter: Interpreter, path: Path, name: str, settings: Settings, log: BuildLog
) -> BuiltEnvironment:
    """Build in a temporary folder and rename it to ``path``, which thus is always complete."""
    temporary = Path(f"{path}.{os.getpid()}{_PART}")
    try:
        freeze = _fill(temporary, lock, interpreter, settings, log)
        description = {
            "digest": name,
            "build": uuid.uuid4().hex,
            "base": str(Path(interpreter.path).resolve().parent.parent),
            "python_version": interpreter.version,
            "freeze": freeze,
            "log": str(log),
        }
        (temporary / _DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    environment = _existing(path, name, BuildLog())
    assert environment is not None  # noqa: S101
    return environment


def _fill(
    folder: Path, lock: Lock, interpreter: Interpreter, settings: Settings, log: BuildLog
) -> list[str]:
    """Install the locked packages for this interpreter, and return the installed ones."""
    _make_empty(folder, interpreter, settings, log)
    site_packages = _site_packages(folder)
    installed = [it for it in lock.packages if it.holds(interpreter.facts["markers"])]
    for package in lock.packages:
        if package not in installed:
            log.write(f"excluded by its marker: {package.requirement}")
    for index, packages in Lock(tuple(installed)).by_index().items():
        # In a separate environment: uv starts its interpreter, which must not have wheels yet.
        staging = folder / _STAGING
        _make_empty(staging, interpreter, settings, log)
        requirements = staging / "requirements.txt"
        requirements.write_text(requirements_of(packages), encoding="utf-8")
        log.write(f"from the index {index}:")
        log.write("\n".join(package.requirement for package in packages))
        arguments = ["pip", "install", "--python", str(staging / "bin" / "python")]
        arguments += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
        arguments += ["--no-compile-bytecode", "--requirements", str(requirements)]
        _uv(arguments, index, settings, log, hashed=True)
        _merge(staging, folder)
        shutil.rmtree(staging)
    # List the installed packages by their metadata; the interpreter would run ``.pth`` files.
    freeze = sorted(
        f"{canonicalize_name(str(distribution.name))}=={distribution.version}"
        for distribution in distributions(path=[str(site_packages)])
        if distribution.read_text("METADATA")
    )
    log.write("installed:")
    log.write("\n".join(freeze))
    _compare(installed, freeze, log)
    _compile(site_packages, interpreter, log)
    return freeze


def _site_packages(folder: Path) -> Path:
    return next(folder.glob("lib/*/site-packages"))


def _make_empty(path: Path, interpreter: Interpreter, settings: Settings, log: BuildLog) -> None:
    # Relocatable, as the folder is renamed when it is complete.
    options = ("--quiet", "--relocatable", "--no-project", "--no-python-downloads")
    venv = ["venv", *options, "--python", interpreter.path, str(path)]
    _uv(venv, DEFAULT_INDEX, settings, log)


def _merge(source: Path, target: Path) -> None:
    """Move the content of ``source`` into ``target``; merge folders that are in both."""
    for path in source.iterdir():
        other = target / path.name
        if path.is_dir() and not path.is_symlink() and other.is_dir():
            _merge(path, other)
        else:
            path.replace(other)


def requirements_of(packages: list[LockEntry]) -> str:
    """Return a requirements file of ``packages`` with hashes."""
    return "".join(
        " \\\n    ".join([package.requirement, *(f"--hash={it}" for it in package.hashes)]) + "\n"
        for package in packages
    )


def _compile(packages: Path, interpreter: Interpreter, log: BuildLog) -> None:
    """Compile to bytecode; otherwise the first job would be slower.

    The base interpreter does the compilation: it writes the same files, and reads no ``.pth`` file.
    The compiling process gets none of the runner's variables. Some packages contain files that
    cannot be compiled.
    """
    command = [interpreter.path, "-I", "-S", "-c", _COMPILE, "-q", "-j", "0", str(packages)]
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    log.write(f"$ {interpreter.path} -m compileall {packages}")
    try:
        done = run_group(command, environment, packages, TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.write(f"not compiled: {error}")
    else:
        log.write("not all files could be compiled" if done.returncode else "compiled")


def _compare(packages: list[LockEntry], freeze: list[str], log: BuildLog) -> None:
    locked = {(package.name, package.version) for package in packages}
    pairs = [line.partition("==") for line in freeze]
    installed = {
        (str(canonicalize_name(name)), str(version_of(version) or version))
        for name, _, version in pairs
    }
    missing = ", ".join(sorted("==".join(pair) for pair in locked - installed))
    foreign = ", ".join(sorted("==".join(pair) for pair in installed - locked))
    if missing or foreign:
        message = "the installed packages differ from the lock: "
        message += f"missing: {missing or 'none'}; not locked: {foreign or 'none'}"
        raise build_failure("build-failed", message, log)


def _uv(
    arguments: list[str], index: str, settings: Settings, log: BuildLog, *, hashed: bool = False
) -> str:
    """:param hashed: whether hashes are required, so that files of any index are safe"""
    indexes = dict(settings.package_indexes)
    with scratch_folder("uv") as folder:
        environment = installer_environment(index, indexes)
        # Not with a single index: uv would treat one that refuses as one that lacks the package.
        if hashed and _MORE_INDEXES & environment.keys():
            environment = _ALL_INDEXES | environment
        return run_installer(arguments, environment, folder, log)


def bundled_libraries(site_packages: Path) -> dict[str, list[BundledLibrary]]:
    """The libraries of each distribution in a folder, by ``NAME==VERSION``; sorted.

    Unreadable libraries are left out. Takes milliseconds for each distribution.
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
