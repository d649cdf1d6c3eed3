"""The recipe of an image, rendered from a specification that may be hostile.

A recipe has two doors for injection: its instructions and the shell that they start. Both
are kept shut by construction. The text of a recipe holds one thing of the specification,
the base image, which has to be a reference by the grammar; all else (names of packages,
requirements, files, the script) lies in files beside it, which instructions name by paths
that are always the same and read by programs that take them for data. Every instruction
with arguments has the JSON form, so no shell sees them. Variables are given to a job when
it starts and are in no image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pis.amun.schema import NATIVE_PACKAGE

#: The folder of ours in an image, and the interpreter of the stack in it.
HOME = "/opt/thoth"
PYTHON = f"{HOME}/environment/bin/python"
SCRIPT = f"{HOME}/script.py"
WORKDIR = f"{HOME}/work"
#: Who runs in a container: nobody that an image knows.
USER = "10001:10001"

#: distribution/reference, "Grammar": domain, path, tag, digest; shorter, so that no name is
#: slow to check.
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}(?:\.{_DOMAIN})*(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_REFERENCE_CHARACTERS = 255
#: What podman takes for a kind of archive instead of a name (containers-transports(5)).
_TRANSPORTS = frozenset(
    {"containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "oci",
     "oci-archive", "ostree", "sif", "tarball"}
)  # fmt: skip

_INSTALL_PACKAGES = f"""\
#!/bin/sh
# Installs the native packages whose names stand in packages.txt.
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
    echo 'the base image has no package manager that is known here' >&2
    exit 1
fi
xargs "$@" <{HOME}/packages.txt
"""


class InvalidRecipe(ValueError):
    """Something that cannot go into an image; the text names the field."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an image is made of.

    :param base: a reference, such as ``registry.example/python:3.12``
    :param packages: native ones
    :param requirements: a requirements file with hashes for each package index, in order
    :param files: relative path and content
    :param script: its text
    """

    base: str
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    script: str = ""

    def __post_init__(self) -> None:
        if not is_reference(self.base):
            raise InvalidRecipe(f"base: {self.base[:80]!r} is no reference of an image")
        for package in self.packages:
            if not NATIVE_PACKAGE.fullmatch(package):
                raise InvalidRecipe(f"packages: {package[:80]!r} is no package's name")
        for path, _ in self.files:
            if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
                raise InvalidRecipe(f"files: {path[:80]!r} is no path below the working folder")


def is_reference(text: str) -> bool:
    """Whether ``text`` names an image, and nothing else.

    >>> is_reference("registry.example:5000/team/python:3.12"), is_reference("python\\nRUN id")
    (True, False)
    """
    if len(text) > _REFERENCE_CHARACTERS or text.partition(":")[0] in _TRANSPORTS:
        return False
    return _REFERENCE.fullmatch(text) is not None


def render(recipe: Recipe) -> str:
    """The Containerfile of ``recipe``; :func:`write_context` writes what it refers to."""
    return "".join(f"{line}\n" for line in _lines(recipe))


def write_context(recipe: Recipe, folder: Path) -> None:
    """Write the Containerfile and all that it copies into ``folder``, which is empty."""
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
    """Only wheels, only with their hash; the index and its credentials stay out of the image."""
    mounts = (
        f"--mount=type=secret,id={name},target=/run/secrets/{name}"
        for name in (f"index-{number}", "certificates")
    )
    words = ["env", f"PIP_CONFIG_FILE=/run/secrets/index-{number}", PYTHON, "-m", "pip", "install"]
    words += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    words += ["--no-input", "--disable-pip-version-check"]
    words += ["--requirement", f"{HOME}/requirements-{number}.txt"]
    return f"RUN {' '.join(mounts)} {json.dumps(words)}"


def _run(*words: str) -> str:
    return f"RUN {json.dumps(words)}"


def _copy(*words: str) -> str:
    return f"COPY {json.dumps(words)}"
