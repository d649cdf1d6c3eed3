"""Specifications of inspections: checked documents, also from files that refer to other files."""

import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.errors import InvalidDocument
from model.json_documents import load_json, out_of_bounds
from model.json_fields import FieldPath
from model.packages.identity import DEFAULT_INDEX, distributions_of
from model.redaction import without_credentials
from pis.amun.locks import Lock, pipfile_lock_of, read_pipfile_lock, read_pylock, read_requirements
from pis.amun.processes import MEBIBYTE
from pis.amun.schema import (
    DOCUMENT,
    SPECIFICATION,
    Cpus,
    InvalidSpecification,
    Memory,
    SpecificationProblem,
    environment_problems,
    file_problems,
    own_code_problems,
    package_problems,
    script_problems,
    shape_problems,
)
from pis.catalogue import INDICATORS, InvalidParameters, arguments_of, indicator_of
from pis.indicators.harness import Indicator
from pis.indicators.parameters import Parameter

#: Distributions of the frameworks that indicators measure, where they have other names.
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "torch": distributions_of("pytorch"),
    "tensorflow": distributions_of("tensorflow"),
    "numpy": distributions_of("numpy"),
}
_UNSUPPORTED_BY_NUMPY = (("device", "cuda"), ("dtype", "bfloat16"))


DEFAULT_TIMEOUT_S = 600.0
_LOCKS = ("requirements_locked", "requirements_txt", "pylock_toml")
_PYTHON = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?\Z")
_UNCHANGED_FIELDS = frozenset({"script", "files"})
STDIN = "-"
#: Limit for the specification, and for all files together that it refers to.
_MOST_BYTES = 64 * MEBIBYTE


def framework_of(lock: Lock, indicator: Indicator) -> str:
    """Return the framework to measure: the first one, unless the stack has exactly one other."""
    first, *others = indicator.frameworks
    present = [name for name in others if _has(lock, name)]
    return present[0] if len(present) == 1 else first


def combination_problems(
    record: Mapping[str, Any], indicator: Indicator, lock: Lock | None
) -> Iterator[SpecificationProblem]:
    """Yield parameters that contradict the lock, the framework or the indicator.

    :param record: a specification with parameters of ``indicator``
    :param lock: ``None`` if it could not be read
    """
    chosen = {"framework": framework_of(lock, indicator)} if lock is not None else {}
    paths = dict.fromkeys(chosen, "python")
    for parameter in indicator.all_parameters():
        path, value = _parameter_value(record, parameter)
        if path is None:
            continue
        try:
            chosen[parameter.name], paths[parameter.name] = parameter.checked(value), path
        except ValueError as error:
            yield SpecificationProblem(path, f"{parameter.name}: {error}")
    framework = chosen.get("framework")
    if framework is None:
        return
    if lock is not None and not _has(lock, framework):
        message = f"{indicator.name} measures {framework}, which the lock does not have: add it"
        yield SpecificationProblem(paths["framework"], message)
    for name, value in _UNSUPPORTED_BY_NUMPY if framework == "numpy" else ():
        if chosen.get(name) == value:
            message = f"numpy does not support {value}: choose torch or tensorflow"
            yield SpecificationProblem(paths[name], message)


def _has(lock: Lock, framework: str) -> bool:
    return not {it.name for it in lock.packages}.isdisjoint(packages_of(framework))


def packages_of(framework: str) -> tuple[str, ...]:
    """Return the packages that provide a framework."""
    return FRAMEWORKS.get(framework, (framework,))


def _parameter_value(record: Mapping[str, Any], parameter: Parameter) -> tuple[str | None, Any]:
    """Return the path and the value of a parameter, or of the variable that sets it."""
    parameters = record.get("parameters", {})
    if parameter.name in parameters:
        return f"parameters.{parameter.name}", parameters[parameter.name]
    variables = {
        variable["name"]: (number, variable["value"])
        for number, variable in enumerate(record.get("environment", ()))
    }
    for name in parameter.environment:
        number, value = variables.get(name, (0, ""))
        if value:
            return f"environment[{number}].value", value
    return None, None


@dataclass(frozen=True, slots=True)
class HardwareRequest:
    """Required hardware; ``None`` accepts any."""

    cpu_family: int | None = None
    cpu_model: int | None = None
    processor: str | None = None
    physical_cpus: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """Requested resources; ``None`` if not given.

    :param cpus: number of processors, such as 0.5
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    hardware: HardwareRequest = field(default_factory=HardwareRequest)


@dataclass(frozen=True, slots=True)
class Specification:
    """A checked specification.

    :param document: the specification as it is stored with the results: the lock is in the
        format of ``Pipfile.lock``, and URLs have no credentials
    :param base: base image, for launchers that build images
    :param script: name of a bundled indicator, or the text of a script
    :param parameters: parameters of a bundled indicator, including ``framework``
    :param python_version: requested version, such as ``3.11``
    :param packages: native packages
    :param python_packages: requested installers; other packages are rejected
    :param files: relative path and content
    :param environment: variables of the jobs
    """

    document: Mapping[str, Any]
    lock: Lock = field(default_factory=Lock)
    identifier: str | None = None
    base: str | None = None
    batch_size: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S
    script: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    python_version: str | None = None
    packages: tuple[str, ...] = ()
    python_packages: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    build: ResourceRequests = field(default_factory=ResourceRequests)
    run: ResourceRequests = field(default_factory=ResourceRequests)


def load_specification(value: Any, indexes: Mapping[str, str] | None = None) -> Specification:
    """Check a specification.

    :param value: the parsed JSON
    :param indexes: package indexes besides the default one, name to URL
    :raises InvalidSpecification: with all problems, each with the path of its field; with the first
        one, if it is a value that cannot be stored
    """
    if (fault := out_of_bounds(value)) is not None:
        at, message = fault
        raise InvalidSpecification([SpecificationProblem(at or DOCUMENT, message)])
    problems = shape_problems(value)
    wrong = {problem.field.partition(".")[0].partition("[")[0] for problem in problems}
    if not isinstance(value, dict):
        raise InvalidSpecification(problems)
    record = {name: part for name, part in value.items() if name not in wrong}
    lock, lock_problems = _lock_of(record, indexes or {})
    problems += lock_problems
    is_readable = not lock_problems and "python" not in wrong
    parameters: dict[str, Any] = {}
    if "script" not in wrong:
        problems += script_problems(record)
        parameters, parameter_problems = _parameters_of(record, lock)
        problems += [*parameter_problems, *own_code_problems(record)]
        if not parameter_problems and record.get("script") in INDICATORS:
            indicator = indicator_of(record["script"])
            problems += combination_problems(record, indicator, lock if is_readable else None)
    problems += [*file_problems(record), *package_problems(record)]
    problems += environment_problems(record)
    if problems:
        raise InvalidSpecification(problems)
    return _specification(record, lock, parameters)


def _parameters_of(
    record: Mapping[str, Any], lock: Lock
) -> tuple[dict[str, Any], list[SpecificationProblem]]:
    """Return an indicator's parameters, converted to their types, with ``framework`` added."""
    values, script = record.get("parameters", {}), record.get("script")
    if script not in INDICATORS:
        message = "only indicators take parameters; give a script `files` or `environment`"
        return {}, [SpecificationProblem("parameters", message)] if values else []
    indicator = indicator_of(script)
    known = {parameter.name: parameter for parameter in indicator.all_parameters()}
    parameters = {"framework": framework_of(lock, indicator)} | values
    try:
        arguments_of(script, parameters)
    except InvalidParameters as error:
        return {}, [
            SpecificationProblem(FieldPath("parameters") / name, message)
            for name, message in error.problems.items()
        ]
    return {name: known[name].checked(value) for name, value in parameters.items()}, []


def _lock_of(
    record: Mapping[str, Any], indexes: Mapping[str, str]
) -> tuple[Lock, list[SpecificationProblem]]:
    python = record.get("python")
    if python is None:
        return Lock(), []
    names = [name for name in _LOCKS if name in python]
    if not names:
        message = f"the lock is missing: give one of {', '.join(_LOCKS)}"
        return Lock(), [SpecificationProblem("python", message)]
    version, problems = _python_version(python)
    locks = []
    for name in names:
        lock, lock_problems = _read(name, python[name], indexes, version)
        problems += lock_problems
        locks.append(lock)
    if not problems and any(lock.packages != locks[0].packages for lock in locks[1:]):
        message = f"{' and '.join(names)} lock different packages: give only one"
        problems.append(SpecificationProblem("python", message))
    problems += _index_problems(locks[0], names[0], indexes)
    return Lock(locks[0].packages, version), problems


def _read(
    name: str, value: Any, indexes: Mapping[str, str], version: str | None
) -> tuple[Lock, list[SpecificationProblem]]:
    at = FieldPath("python") / name
    if name == "requirements_txt":
        return read_requirements(value, at, version)
    if name == "pylock_toml":
        return read_pylock(value, at, indexes, version)
    return read_pipfile_lock(value, at, version)


def _python_version(python: Mapping[str, Any]) -> tuple[str | None, list[SpecificationProblem]]:
    """Return the requested Python version; all fields that give a version must agree."""
    versions: dict[str, str] = {}
    problems = []
    for path in (
        "requirements.requires", "requirements_locked._meta.requires", "runtime_environment"
    ):  # fmt: skip
        record: Any = python
        for key in path.split("."):
            record = record.get(key, {}) if isinstance(record, Mapping) else {}
        for key in ("python_full_version", "python_version"):
            version = record.get(key) if isinstance(record, Mapping) else None
            at = f"python.{path}.{key}"
            if version is not None and not (isinstance(version, str) and _PYTHON.match(version)):
                problems.append(SpecificationProblem(at, "not a version: give one such as 3.11"))
            elif version is not None:
                versions[at] = version
    longest = max(versions.values(), key=len, default=None)
    for at, version in versions.items():
        if longest != version and not str(longest).startswith(f"{version}."):
            message = f"{version} contradicts {longest} in another field: give the same"
            problems.append(SpecificationProblem(at, message))
    return longest, problems


def _index_problems(
    lock: Lock, name: str, indexes: Mapping[str, str]
) -> list[SpecificationProblem]:
    known = ", ".join([DEFAULT_INDEX, *sorted(indexes)])
    at = FieldPath("python") / name
    return [
        SpecificationProblem(
            f"{at}.default.{package.name}.index" if name == "requirements_locked" else at,
            f"the index {package.index!r} is not configured: use one of {known}, "
            "or add it to PACKAGE_INDEXES",
        )
        for package in lock.packages
        if package.index != DEFAULT_INDEX and package.index not in indexes
    ]


def _specification(
    record: Mapping[str, Any], lock: Lock, parameters: dict[str, Any]
) -> Specification:
    return Specification(
        document=_document(record, lock, parameters),
        lock=lock,
        identifier=record.get("identifier"),
        base=record.get("base"),
        batch_size=record.get("batch_size", 1),
        timeout_s=float(record.get("timeout_s", DEFAULT_TIMEOUT_S)),
        script=record.get("script"),
        parameters=parameters,
        python_version=lock.python_version,
        packages=tuple(record.get("packages", ())),
        python_packages=tuple(record.get("python_packages", ())),
        files=tuple((file["path"], file["content"]) for file in record.get("files", ())),
        environment=tuple(
            (variable["name"], variable["value"]) for variable in record.get("environment", ())
        ),
        build=_requests(record.get("build", {})),
        run=_requests(record.get("run", {})),
    )


def _requests(resources: Mapping[str, Any]) -> ResourceRequests:
    requests = resources.get("requests", {})
    cpu, memory = requests.get("cpu"), requests.get("memory")
    return ResourceRequests(
        cpus=None if cpu is None else Cpus().deserialize(cpu),
        memory_bytes=None if memory is None else Memory().deserialize(memory),
        hardware=HardwareRequest(**requests.get("hardware", {})),
    )


def _document(
    record: Mapping[str, Any], lock: Lock, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    document = dict(record)
    python = dict(record.get("python", {}))
    requires = {"python_version": lock.python_version} if lock.python_version else {}
    python.setdefault("requirements", {"packages": {}, "requires": requires})
    if "requirements_locked" in python:
        locked = python["requirements_locked"]
        python["requirements_locked"] = locked | {"default": pipfile_lock_of(lock)["default"]}
    else:
        python["requirements_locked"] = pipfile_lock_of(lock)
    document["python"] = python
    if parameters:
        document["parameters"] = dict(parameters)
    return {
        name: value if name in _UNCHANGED_FIELDS else _without_credentials(value)
        for name, value in document.items()
    }


def _without_credentials(value: Any) -> Any:
    """Remove credentials from the URLs in all strings of ``value``."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, Mapping):
        return {key: _without_credentials(inner) for key, inner in value.items()}
    return [_without_credentials(inner) for inner in value] if isinstance(value, list) else value


def read_specification(name: str) -> Any:
    """Read the JSON file ``name`` (``-`` for standard input) and the files that it refers to.

    :raises InvalidSpecification: with line and column, or the field that names a missing file
    """
    text = _text(name)
    value = _parsed(text, name)
    files = _ReferencedFiles(Path() if name == STDIN else Path(name).parent)
    resolved = _resolved(value, files)
    if files.problems:
        raise InvalidSpecification(files.problems, name)
    return resolved


def _text(name: str) -> str:
    try:
        if name == STDIN:
            return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), _MOST_BYTES)
        return _decoded(_regular(Path(name), _MOST_BYTES), _MOST_BYTES)
    except OSError as error:
        raise _invalid(name, "the file", error.strerror or str(error)) from None
    except ValueError as error:
        raise _invalid(name, "the file", str(error)) from None


def _regular(path: Path, most: int) -> bytes:
    """Read at most ``most`` + 1 bytes of a regular file.

    The file is opened without blocking, because a pipe without a writer would block forever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def _decoded(data: bytes, most: int) -> str:
    if len(data) > most:
        raise ValueError(f"over {_MOST_BYTES // MEBIBYTE} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None


def _parsed(text: str, name: str) -> Any:
    try:
        return _json(text)
    except InvalidDocument as error:
        where = "the file" if error.field == "$" else error.field.removeprefix("$.")
        raise _invalid(name, where, error.message) from None


def _json(text: str) -> Any:
    return load_json(text.encode())[0]


def _invalid(name: str, where: str, message: str) -> InvalidSpecification:
    return InvalidSpecification([SpecificationProblem(where, message)], name)


#: Fields that can refer to a file, and how its text is parsed.
_REFERENCES: Mapping[tuple[str, ...], Callable[[str], Any]] = {
    ("script",): str,
    ("python", "requirements"): tomllib.loads,
    ("python", "requirements_locked"): _json,
    ("python", "requirements_txt"): str,
    ("python", "pylock_toml"): str,
    ("files", "content"): str,
}


class _ReferencedFiles:
    """Files in the folder of a specification.

    :ivar problems: problems of the files that were read so far
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = _MOST_BYTES
        self.problems: list[SpecificationProblem] = []

    def content(self, name: Any, parse: Callable[[str], Any], at: str) -> Any:
        """Read and parse the file ``name``. On failure, add a problem and return ``None``."""
        try:
            if not isinstance(name, str) or not name or "\0" in name:
                raise ValueError("not the path of a file")
            return parse(self._text(name))
        except OSError as error:
            message = f"{name[:80]!r}: {error.strerror or error}"
        except InvalidDocument as error:
            message = f"{name[:80]!r}: {error.message}"
        except RecursionError:
            message = f"{name[:80]!r}: nested too deep"
        except ValueError as error:  # from a parser, or the file is not UTF-8
            message = f"{name[:80]!r}: {error}" if isinstance(name, str) else str(error)
        self.problems.append(SpecificationProblem(at, message))
        return None

    def _text(self, name: str) -> str:
        root = self._folder.resolve()
        try:
            path = (root / name).resolve()
        except RuntimeError:  # symbolic links in a circle
            raise ValueError("symbolic links form a circle") from None
        if Path(name).is_absolute() or not path.is_relative_to(root):
            raise ValueError("not in the specification's folder or below it")
        data = _regular(path, self._left)
        text = _decoded(data, self._left)
        self._left -= len(data)
        return text


def _resolved(
    value: Any, files: _ReferencedFiles, keys: tuple[str, ...] = (), at: FieldPath = SPECIFICATION
) -> Any:
    """Return ``value`` with all references replaced."""
    parse = _REFERENCES.get(keys)
    if parse and isinstance(value, dict) and value.keys() == {"file"}:
        return files.content(value["file"], parse, at / "file")
    if isinstance(value, dict) and len(keys) < 2:
        return {
            key: _resolved(inner, files, (*keys, key), at / key) for key, inner in value.items()
        }
    if isinstance(value, list) and keys == ("files",):
        return [_resolved(inner, files, keys, at / number) for number, inner in enumerate(value)]
    return value
