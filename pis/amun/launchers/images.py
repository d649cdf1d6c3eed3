"""Builds images of stacks with podman or docker, from a specification that may be hostile.

A specification must not be able to inject instructions or shell commands. The base image is the
only text of a specification in the Containerfile, and must match the grammar of image references.
Package names, requirements, files and the script are separate files with fixed names, read as data.
Instructions with arguments use the JSON form, which no shell interprets. Environment variables are
set when a job starts, and are not in the image.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit, urlunsplit

from common.settings import Settings
from model.measurements.job_stability import DISK_FULL, LAUNCHER_UNAVAILABLE, reason_of
from pis.amun.environments import requirements_of
from pis.amun.installer import BuildLog, build_failure, installer_environment
from pis.amun.launchers import BuildFailed, Inspection, PreparedInspection
from pis.amun.schema import NATIVE_PACKAGE
from pis.amun.specification import Specification
from pis.temporary_folders import scratch_folder

#: Our folder in an image, and the stack's interpreter.
HOME = "/opt/thoth"
PYTHON = f"{HOME}/environment/bin/python"
SCRIPT = f"{HOME}/script.py"
WORKDIR = f"{HOME}/work"
#: User and group of jobs in a container; images do not define them.
USER = "10001:10001"

#: References by the grammar of distribution/reference: domain, path, tag, digest. The lengths
#: are limited, so that matching is never slow.
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}(?:\.{_DOMAIN})*(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_REFERENCE_CHARACTERS = 255
#: Prefixes that podman reads as a kind of archive (containers-transports(5)).
_TRANSPORTS = frozenset(
    {"containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "oci",
     "oci-archive", "ostree", "sif", "tarball"}
)  # fmt: skip

_INSTALL_PACKAGES = f"""\
#!/bin/sh
# Installs the native packages listed in packages.txt.
set -eu
if command -v apt-get >/dev/null; then
    apt-get update
    set -- env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends
elif command -v dnf >/dev/null; then
    set -- dnf install --assumeyes
elif command -v microdnf >/dev/null; then
    set -- microdnf install --assumeyes
elif command -v apk >/dev/null; then
    set -- apk add --no-cache
else
    echo 'the base image has no supported package manager: apt-get, dnf, microdnf, apk' >&2
    exit 1
fi
xargs "$@" <{HOME}/packages.txt
"""


class InvalidRecipe(ValueError):
    """No image can be made from the specification; the message names the field."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of an image.

    :param base: reference of the base image, such as ``registry.example/python:3.12``
    :param packages: native packages
    :param requirements: one requirements file with hashes per package index
    :param files: relative path and content
    :param script: text of the script
    """

    base: str
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    script: str = ""

    def __post_init__(self) -> None:
        if not is_reference(self.base):
            raise InvalidRecipe(f"base: {self.base[:80]!r} is not a valid image reference")
        for package in self.packages:
            if not NATIVE_PACKAGE.fullmatch(package):
                raise InvalidRecipe(f"packages: {package[:80]!r} is not the name of a package")
        for path, _ in self.files:
            if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
                raise InvalidRecipe(f"files: {path[:80]!r} is not below the working folder")


def is_reference(text: str) -> bool:
    """Whether ``text`` is a valid image reference.

    >>> is_reference("registry.example:5000/team/python:3.12"), is_reference("python\\nRUN id")
    (True, False)
    """
    if len(text) > _REFERENCE_CHARACTERS or text.partition(":")[0] in _TRANSPORTS:
        return False
    return _REFERENCE.fullmatch(text) is not None


def render(recipe: Recipe) -> str:
    """Return the Containerfile of ``recipe``; :func:`write_context` writes its files."""
    return "".join(f"{line}\n" for line in _lines(recipe))


def write_context(recipe: Recipe, folder: Path) -> None:
    """Write the Containerfile and the files that it copies to the empty ``folder``."""
    texts = {"Containerfile": render(recipe), "script.py": recipe.script}
    if recipe.packages:
        texts |= {"packages.sh": _INSTALL_PACKAGES, "packages.txt": "\n".join(recipe.packages)}
    texts |= {f"requirements-{n}.txt": text for n, text in enumerate(recipe.requirements)}
    texts |= {f"work/{path}": content for path, content in recipe.files}
    (folder / "work").mkdir()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _lines(recipe: Recipe) -> Iterator[str]:
    yield f"FROM {recipe.base}"
    yield "USER 0:0"
    if recipe.packages:
        yield _copy("packages.sh", "packages.txt", f"{HOME}/")
        yield _run("/bin/sh", f"{HOME}/packages.sh")
    yield _run("python3", "-m", "venv", f"{HOME}/environment")
    for number in range(len(recipe.requirements)):
        yield _copy(f"requirements-{number}.txt", f"{HOME}/")
        yield _install(number)
    yield _copy("work/", f"{WORKDIR}/")
    yield _copy("script.py", SCRIPT)
    yield f"USER {USER}"
    yield f"WORKDIR {WORKDIR}"
    yield "ENTRYPOINT []"
    yield f"CMD {json.dumps([PYTHON, SCRIPT])}"


def _install(number: int) -> str:
    """Install wheels by hash; neither the index nor its credentials end up in the image."""
    mounts = (
        f"--mount=type=secret,id={name},target=/run/secrets/{name}"
        for name in (f"index-{number}", "certificates")
    )
    command = ["env", f"PIP_CONFIG_FILE=/run/secrets/index-{number}", PYTHON, "-m", "pip"]
    command += ["install", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command += ["--requirement", f"{HOME}/requirements-{number}.txt"]
    return f"RUN {' '.join(mounts)} {json.dumps(command)}"


def _run(*command: str) -> str:
    return f"RUN {json.dumps(command)}"


def _copy(*paths: str) -> str:
    return f"COPY {json.dumps(paths)}"


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
        main = configured.get("UV_DEFAULT_INDEX") or configured.get("UV_INDEX_URL")
        others = configured.get("UV_INDEX") or configured.get("UV_EXTRA_INDEX_URL") or ""
        lines = ["[global]"]
        lines += [f"index-url = {_index_url(main)}"] if main else []
        lines += (
            [f"extra-index-url = {' '.join(map(_index_url, others.split()))}"] if others else []
        )
        lines += ["cert = /run/secrets/certificates"] if certificates else []
        texts[f"index-{number}"] = "\n".join(lines) + "\n"
    return texts | {"certificates": certificates}


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
