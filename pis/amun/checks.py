"""What a specification's fields may say, beyond their shape."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pis.amun.problems import Problem
from pis.catalogue import INDICATORS

#: Asked for by older specifications to install a stack with; ours needs none of them.
INSTALLERS = frozenset({"pip", "micropipenv", "pipenv", "uv", "setuptools", "wheel"})
#: The name of a package of the system: nothing that a shell or an installer takes for more.
NATIVE_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:-]*")
_TOOL_NAME = re.compile(r"[A-Za-z0-9._-]+")

#: An indicator runs without walls, so a specification may tune libraries and nothing else:
#: other variables, and paths in these, could have it load or write what is not its own.
_TUNING = re.compile(
    r"(?:OMP|MKL|OPENBLAS|GOTO|BLIS|KMP|ONEDNN|DNNL|TF|TORCH|PYTORCH|ATEN|NPY|CUBLAS|CUDNN|NVIDIA"
    r"|MATMUL|CONV|CONV1D|CONV2D|TENSOR|FILTER)_[A-Z0-9_]+|CUDA_VISIBLE_DEVICES|BATCH|MINI_BATCH"
)
_PLAIN_VALUE = re.compile(r"[\w.,:;=+ -]*")

#: What file systems hold (NAME_MAX), and what of a path (PATH_MAX) is left for the specification.
_NAME_BYTES = 255
_PATH_BYTES = 2_000


def script_problems(record: Mapping[str, Any]) -> Iterable[Problem]:
    """A script that is missing, an address, or a word that names no indicator."""
    script = record.get("script")
    if script is None:
        yield Problem("script", "missing: name an indicator or give a script's text")
    elif re.match(r"\s*[a-z][a-z0-9+.-]*://\S+\s*\Z", script, re.IGNORECASE):
        yield Problem("script", "addresses are not fetched; name an indicator or give the text")
    elif re.fullmatch(r"[\w.-]*", script) and script not in INDICATORS:
        known = ", ".join(INDICATORS)
        yield Problem("script", f"{script!r} is no indicator; there are: {known}")


def own_code_problems(record: Mapping[str, Any]) -> Iterable[Problem]:
    """An indicator is trusted because nothing of the specification runs in its process."""
    if record.get("script") not in INDICATORS:
        return
    if record.get("files"):
        yield Problem("files", "only a script has files; an indicator takes parameters")
    for number, variable in enumerate(record.get("environment", ())):
        if not _TUNING.fullmatch(variable["name"]):
            words = "an indicator takes only variables that tune numeric libraries"
            yield Problem(f"environment[{number}].name", f"{variable['name']}: {words}")
        elif not _PLAIN_VALUE.fullmatch(variable["value"]):
            words = "letters, digits and `.,:;=+-_` were expected; paths are not followed"
            yield Problem(f"environment[{number}].value", words)


def environment_problems(record: Mapping[str, Any]) -> Iterable[Problem]:
    """Variables that are set twice."""
    seen: set[str] = set()
    for number, variable in enumerate(record.get("environment", ())):
        name = variable["name"]
        if name in seen:
            yield Problem(f"environment[{number}].name", f"{name[:80]}: is set twice")
        seen.add(name)


def file_problems(record: Mapping[str, Any]) -> Iterable[Problem]:
    """Files that would lie outside the working folder, or that cannot lie there together."""
    files: set[str] = set()
    folders: set[str] = set()
    for number, file in enumerate(record.get("files", ())):
        at, path = f"files[{number}].path", posixpath.normpath(file["path"])
        parents = {path[: place.start()] for place in re.finditer("/", path)}
        if path.startswith("/") or ".." in file["path"].split("/") or path == ".":
            yield Problem(at, "a path below the working folder was expected, such as data/x.json")
            continue
        if max(len(it.encode()) for it in path.split("/")) > _NAME_BYTES:
            yield Problem(at, f"a name over {_NAME_BYTES} bytes")
        elif len(path.encode()) > _PATH_BYTES:
            yield Problem(at, f"over {_PATH_BYTES} bytes")
        elif path in files:
            yield Problem(at, f"{path[:80]!r} is given twice")
        elif path in folders or parents & files:
            yield Problem(at, f"{path[:80]!r} would be a file and a folder")
        files.add(path)
        folders |= parents


def package_problems(record: Mapping[str, Any]) -> Iterable[Problem]:
    """Packages that are no names, and Python packages that no lock holds to a hash."""
    for number, package in enumerate(record.get("packages", ())):
        if not NATIVE_PACKAGE.fullmatch(package):
            yield Problem(f"packages[{number}]", f"{package[:80]!r} is no native package's name")
    for number, package in enumerate(record.get("python_packages", ())):
        name = _TOOL_NAME.match(package)
        if name is None or name[0].lower() not in INSTALLERS:
            words = f"{package[:80]!r} would be installed without a hash: add it to the lock"
            yield Problem(f"python_packages[{number}]", words)
