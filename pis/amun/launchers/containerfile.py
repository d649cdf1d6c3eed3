"""Renders a Containerfile from a specification that may be hostile.

A specification must not be able to inject instructions or shell commands. The base image is the
only text of a specification in the Containerfile, and must match the grammar of image references.
Package names, requirements, files and the script are separate files with fixed names, read as data.
Instructions with arguments use the JSON form, which no shell interprets. Environment variables are
set when a job starts, and are not in the image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pis.amun.schema import NATIVE_PACKAGE

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
