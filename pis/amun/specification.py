"""The specification of an inspection: what to install and to run, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.json_fields import FieldPath
from model.packages.identity import DEFAULT_INDEX, distributions_of
from model.redaction import without_credentials
from pis.amun.locks import Lock, pipfile_lock_of, read_pipfile_lock, read_pylock, read_requirements
from pis.amun.schema import (
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
    unwritable_problems,
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


DEFAULT_TIMEOUT_S = 600.0

_LOCKS = ("requirements_locked", "requirements_txt", "pylock_toml")
_PYTHON = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?\Z")
_UNCHANGED_FIELDS = frozenset({"script", "files"})


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
    :raises InvalidSpecification: with all problems, each with the path of its field
    """
    unwritable = unwritable_problems(value)
    if unwritable:
        raise InvalidSpecification(unwritable)
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
