"""Builds images of stacks with podman or docker."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit, urlunsplit

from common.settings import Settings
from model.measurements.job_stability import DISK_FULL, LAUNCHER_UNAVAILABLE, reason_of
from pis.amun.environments import requirements_of
from pis.amun.indexes import installer_environment
from pis.amun.installer import BuildLog, build_failure
from pis.amun.launchers import BuildFailed, Inspection, PreparedInspection
from pis.amun.launchers.containerfile import (
    PYTHON,
    InvalidRecipe,
    Recipe,
    render,
    write_context,
)
from pis.amun.specification import Specification
from pis.scratch import scratch_folder

_BUILD_S = 3600.0
_CALL_S = 120.0
#: By default, engines set limits that are higher than some machines allow.
_ULIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
_INSTALL = "install podman or docker, or use another launcher"
#: Reason codes and patterns of a build's output; the first match counts.
_REASONS = (
    (
        "image-unavailable",
        r"initializing source |reading manifest |pinging container registry|manifest unknown"
        r"|did not resolve to an alias|[Nn]o such image|pull access denied|image not known"
        r"|requested access to the resource is denied|[Uu]nable to copy from source"
        r"|failed to resolve source metadata|[Cc]annot connect to the Docker daemon",
    ),
    (DISK_FULL, r"No space left on device|Disk quota exceeded"),
    ("hash-mismatch", r"DO NOT MATCH THE HASHES"),
    (
        "index-unreachable",
        r"after connection broken by|NewConnectionError|ReadTimeoutError|SSLError"
        r"|Max retries exceeded|is not a trusted or secure host",
    ),
    ("no-wheel", r"No matching distribution found"),
)
_DESCRIBE = """
import json, platform
try:
    with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
        release = file.read()
except OSError:
    release = ""
print(json.dumps({"python": platform.python_version(), "os_release": release}))
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """podman or docker on this machine.

    :param path: path of the program
    """

    name: str
    path: str

    def call(self, *arguments: str, timeout_s: float = _CALL_S) -> subprocess.CompletedProcess[str]:
        """Run one command of the engine and wait for it."""
        return subprocess.run(
            [self.path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """A built image.

    :param identifier: ``sha256:…``
    :param python_version: version of its Python, such as ``3.11.7``
    :param os_release: its ``/etc/os-release``, keys in lower case
    """

    identifier: str
    python_version: str
    os_release: Mapping[str, str]


def find_engine() -> Engine:
    """Find podman or, if it is not installed, docker.

    :raises BuildFailed: if neither is installed
    """
    for name in ("podman", "docker"):
        path = which(name)
        if path is not None:
            return Engine(name, path)
    message = "neither podman nor docker is installed"
    raise BuildFailed(LAUNCHER_UNAVAILABLE, message, hint=_INSTALL)


def prepared_of(
    inspection: Inspection, image: BuiltImage, log: BuildLog, reference: str | None = None
) -> PreparedInspection:
    """Return the inspection with its image, named by ``reference`` or by its identifier."""
    return PreparedInspection(
        inspection=inspection,
        environment=image.identifier,
        python=PYTHON,
        python_version=image.python_version,
        log=str(log),
        image=reference or image.identifier,
        dockerfile=render(recipe_of(inspection)),
    )


def recipe_of(inspection: Inspection) -> Recipe:
    """Return the recipe of the image of ``inspection``.

    :raises InvalidRecipe: if no image can be made from the specification
    """
    specification = inspection.specification
    if specification.base is None:
        raise InvalidRecipe("base: missing; give the base image, which this launcher needs")
    return Recipe(
        base=specification.base,
        packages=specification.packages,
        requirements=tuple(map(requirements_of, specification.lock.by_index().values())),
        files=specification.files,
        script=inspection.script.text,
    )


def build_image(inspection: Inspection, settings: Settings, log: BuildLog) -> BuiltImage:
    """Build the image of ``inspection``, using cached layers.

    :raises BuildFailed: with the log
    """
    engine = find_engine()
    try:
        recipe = recipe_of(inspection)
        with scratch_folder("image") as folder:
            identifier = _build(engine, recipe, inspection, settings, folder, log)
        return _describe(engine, identifier, inspection.specification, log)
    except subprocess.TimeoutExpired as error:
        raise build_failure("timed-out", str(error), log) from error
    except (InvalidRecipe, OSError, ValueError) as error:
        raise build_failure(reason_of(error) or "build-failed", str(error), log) from error


def isolation_options() -> list[str]:
    """Return options of ``run``: no network, no writable files, no privileges, no pulling."""
    return [
        *("--pull", "never", "--network", "none", "--read-only", "--ipc", "private"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *(*_ULIMITS, "--ulimit", "core=0:0"),
    ]


def _build(
    engine: Engine,
    recipe: Recipe,
    inspection: Inspection,
    settings: Settings,
    folder: Path,
    log: BuildLog,
) -> str:
    context, secrets, identifier = folder / "context", folder / "secrets", folder / "image"
    context.mkdir()
    secrets.mkdir(mode=0o700)
    write_context(recipe, context)
    arguments = ["build", "--file", str(context / "Containerfile"), "--iidfile", str(identifier)]
    arguments += _ULIMITS
    indexes = list(inspection.specification.lock.by_index())
    for name, text in _secrets(indexes, dict(settings.package_indexes)).items():
        (secrets / name).write_text(text, encoding="utf-8")
        arguments += ["--secret", f"id={name},src={secrets / name}"]
    log.write(f"$ {engine.name} {shlex.join(arguments)} {context}")
    done = engine.call(*arguments, str(context), timeout_s=_BUILD_S)
    log.write(done.stdout)
    log.write(done.stderr)
    if done.returncode:
        raise _not_built(done.stdout + done.stderr, log, done.returncode)
    return identifier.read_text(encoding="ascii").strip()


def _describe(
    engine: Engine, identifier: str, specification: Specification, log: BuildLog
) -> BuiltImage:
    done = engine.call(
        "run", "--rm", *isolation_options(), identifier, PYTHON, "-I", "-c", _DESCRIBE
    )
    if done.returncode:
        log.write(done.stderr)
        raise build_failure("build-failed", "the image's Python does not run", log, done.returncode)
    description = json.loads(done.stdout)
    requested, version = specification.python_version, str(description["python"])
    if requested is not None and version != requested and not version.startswith(f"{requested}."):
        message = f"Python {requested} was requested, {specification.base} has {version}"
        raise build_failure("python-not-found", message, log)
    return BuiltImage(identifier, version, _os_release(description["os_release"]))


def _os_release(text: str) -> dict[str, str]:
    """Parse shell assignments (os-release(5))."""
    pairs = (assignment.partition("=") for assignment in shlex.split(text, comments=True))
    return {name.lower(): value for name, equals, value in pairs if equals}


def _secrets(names: Sequence[str], indexes: Mapping[str, str]) -> dict[str, str]:
    """Return the files that pip in the image needs to reach the indexes; no layer contains them."""
    texts, certificates = {}, ""
    for number, name in enumerate(names):
        configured = installer_environment(name, indexes)
        bundle = configured.get("SSL_CERT_FILE")
        if bundle and Path(bundle).is_file():
            certificates = Path(bundle).read_text(encoding="utf-8")
        texts[f"index-{number}"] = _pip_configuration(configured, bool(certificates))
    return texts | {"certificates": certificates}


def _pip_configuration(configured: Mapping[str, str], with_certificates: bool) -> str:
    main = configured.get("UV_DEFAULT_INDEX") or configured.get("UV_INDEX_URL")
    others = configured.get("UV_INDEX") or configured.get("UV_EXTRA_INDEX_URL") or ""
    lines = ["[global]"]
    lines += [f"index-url = {_index_url(main)}"] if main else []
    lines += [f"extra-index-url = {' '.join(map(_index_url, others.split()))}"] if others else []
    lines += ["cert = /run/secrets/certificates"] if with_certificates else []
    return "\n".join(lines) + "\n"


def _index_url(index: str) -> str:
    """Convert uv's ``name=URL`` to pip's plain URL, without credentials.

    The specification chooses the base image, whose programs run during the build and could read
    the credentials.

    >>> _index_url("mine=https://me:secret@index.example/simple")
    'https://index.example/simple'
    """
    parts = urlsplit(re.sub(r"^[\w.-]+=(?=\w+://)", "", index))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _not_built(output: str, log: BuildLog, exit_code: int) -> BuildFailed:
    matches = (code for code, pattern in _REASONS if re.search(pattern, output))
    reason = next(matches, "build-failed")
    lines = [line for line in output.splitlines() if re.search(r"(?i)\berror\b", line)]
    message = (lines or output.splitlines() or ["the build failed without a message"])[-1].strip()
    unavailable = reason == "image-unavailable"
    hint = "check that this machine can pull the image `base`, and run again" if unavailable else ""
    return build_failure(reason, message[:500], log, exit_code, hint)
