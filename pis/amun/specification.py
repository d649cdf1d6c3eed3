"""The specification of an inspection: what was asked for, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.packages import DEFAULT_INDEX, distributions_of
from common.redaction import without_credentials
from pis.amun.locks import Lock, pipfile_lock_of, read_pipfile_lock, read_pylock, read_requirements
from pis.amun.schema import (
    Cpus,
    InvalidSpecification,
    Memory,
    SpecificationProblem,
    environment_problems,
    file_problems,
    inside,
    own_code_problems,
    package_problems,
    script_problems,
    shape_problems,
    unwritable_problems,
)
from pis.catalogue import INDICATORS, InvalidParameters, arguments_of, indicator_of
from pis.indicators.harness import Indicator
from pis.indicators.parameters import Parameter

#: Each indicator measures one of these.
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "torch": distributions_of("pytorch"),
    "tensorflow": distributions_of("tensorflow"),
    "numpy": distributions_of("numpy"),
}
_NUMPY_LACKS = (("device", "cuda"), ("dtype", "bfloat16"))


def framework_of(lock: Lock) -> str:
    """The framework that a stack is about: the only one beside NumPy, else NumPy."""
    present = [name for name in FRAMEWORKS if name != "numpy" and _has(lock, name)]
    return present[0] if len(present) == 1 else "numpy"


def combination_problems(
    record: Mapping[str, Any], indicator: Indicator, lock: Lock | None
) -> Iterator[SpecificationProblem]:
    """A framework that is not locked, and what the framework or the indicator refuses to do.

    :param record: of a specification whose parameters are ones of ``indicator``
    :param lock: ``None`` if it could not be read
    """
    chosen = {"framework": framework_of(lock)} if lock is not None else {}
    places = dict.fromkeys(chosen, "python")
    for parameter in indicator.all_parameters():
        at, value = _given(record, parameter)
        if at is None:
            continue
        try:
            chosen[parameter.name], places[parameter.name] = parameter.checked(value), at
        except ValueError as error:
            yield SpecificationProblem(at, f"{parameter.name}: {error}")
    framework = chosen.get("framework")
    if framework is None:
        return
    if lock is not None and not _has(lock, framework):
        words = f"the lock has no {framework}, which {indicator.name} would measure"
        yield SpecificationProblem(places["framework"], words)
    for name, value in _NUMPY_LACKS if framework == "numpy" else ():
        if chosen.get(name) == value:
            yield SpecificationProblem(
                places[name], f"{value}: numpy has none; choose torch or tensorflow"
            )


def _has(lock: Lock, framework: str) -> bool:
    names = {package.name for package in lock.packages}
    return not names.isdisjoint(FRAMEWORKS.get(framework, (framework,)))


def _given(record: Mapping[str, Any], parameter: Parameter) -> tuple[str | None, Any]:
    """Where a parameter is given, as a script looks for it, and its value."""
    parameters = record.get("parameters", {})
    if parameter.name in parameters:
        return f"parameters.{parameter.name}", parameters[parameter.name]
    variables = {
        it["name"]: (number, it["value"]) for number, it in enumerate(record.get("environment", ()))
    }
    for name in parameter.environment:
        number, value = variables.get(name, (0, ""))
        if value:
            return f"environment[{number}].value", value
    return None, None


DEFAULT_TIMEOUT_S = 600.0

_LOCKS = ("requirements_locked", "requirements_txt", "pylock_toml")
_PYTHON = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?\Z")
_KEPT_AS_THEY_ARE = frozenset({"script", "files"})


@dataclass(frozen=True, slots=True)
class HardwareRequest:
    """What the machine has to be; ``None`` where any will do."""

    cpu_family: int | None = None
    cpu_model: int | None = None
    processor: str | None = None
    physical_cpus: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """Resources that were asked for; ``None`` where nothing was.

    :param cpus: processors, such as 0.5
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    hardware: HardwareRequest = field(default_factory=HardwareRequest)


@dataclass(frozen=True, slots=True)
class Specification:
    """A checked specification.

    :param base: the image for launchers that build one
    :param script: the name of a bundled indicator, or the text of a script
    :param parameters: of a bundled indicator, ``framework`` among them
    :param python_version: that was asked for, such as ``3.11``
    :param packages: native ones
    :param python_packages: installers that were asked for; nothing else passes the check
    :param files: relative path and content
    :param environment: variables of the jobs
    :param document: as it is written beside the results: with the lock in the form of a
        ``Pipfile.lock``, and without credentials
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
    :param indexes: package indexes that a lock may name beside the default one
    :raises InvalidSpecification: with every problem by the path of its field
    """
    unwritable = unwritable_problems(value)
    if unwritable:
        raise InvalidSpecification(unwritable)
    problems = shape_problems(value)
    wrong = {problem.field.partition(".")[0].partition("[")[0] for problem in problems}
    if not isinstance(value, dict):
        raise InvalidSpecification(problems)
    record = {name: part for name, part in value.items() if name not in wrong}
    lock, found = _lock_of(record, indexes or {})
    problems += found
    stands = not found and "python" not in wrong
    parameters: dict[str, Any] = {}
    if "script" not in wrong:
        problems += script_problems(record)
        parameters, found = _parameters_of(record, lock)
        problems += [*found, *own_code_problems(record)]
        if not found and record.get("script") in INDICATORS:
            indicator = indicator_of(record["script"])
            problems += combination_problems(record, indicator, lock if stands else None)
    problems += [*file_problems(record), *package_problems(record)]
    problems += environment_problems(record)
    if problems:
        raise InvalidSpecification(problems)
    return _specification(record, lock, parameters)


def _parameters_of(
    record: Mapping[str, Any], lock: Lock
) -> tuple[dict[str, Any], list[SpecificationProblem]]:
    """The parameters of an indicator in their own types, with the framework it measures."""
    given, script = record.get("parameters", {}), record.get("script")
    if script not in INDICATORS:
        words = "only an indicator takes them; a script has its files and its environment"
        return {}, [SpecificationProblem("parameters", words)] if given else []
    known = {parameter.name: parameter for parameter in indicator_of(script).all_parameters()}
    parameters = {"framework": framework_of(lock)} | given
    try:
        arguments_of(script, parameters)
    except InvalidParameters as error:
        found = error.problems.items()
        return {}, [
            SpecificationProblem(inside("parameters", name), words) for name, words in found
        ]
    return {name: known[name].checked(value) for name, value in parameters.items()}, []


def _lock_of(
    record: Mapping[str, Any], indexes: Mapping[str, str]
) -> tuple[Lock, list[SpecificationProblem]]:
    python = record.get("python")
    if python is None:
        return Lock(), []
    given = [name for name in _LOCKS if name in python]
    if not given:
        words = f"missing: give the lock as one of {', '.join(_LOCKS)}"
        return Lock(), [SpecificationProblem("python", words)]
    version, problems = _python_version(python)
    locks = []
    for name in given:
        lock, found = _read(name, python[name], indexes, version)
        problems += found
        locks.append(lock)
    if not problems and any(lock.packages != locks[0].packages for lock in locks[1:]):
        problems.append(
            SpecificationProblem("python", f"{' and '.join(given)} say different things: give one")
        )
    problems += _index_problems(locks[0], given[0], indexes)
    return Lock(locks[0].packages, version), problems


def _read(
    name: str, value: Any, indexes: Mapping[str, str], version: str | None
) -> tuple[Lock, list[SpecificationProblem]]:
    at = inside("python", name)
    if name == "requirements_txt":
        return read_requirements(value, at, version)
    if name == "pylock_toml":
        return read_pylock(value, at, indexes, version)
    return read_pipfile_lock(value, at, version)


def _python_version(python: Mapping[str, Any]) -> tuple[str | None, list[SpecificationProblem]]:
    """The version that was asked for; where several fields say one, they have to agree."""
    said: dict[str, str] = {}
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
                problems.append(SpecificationProblem(at, "a version such as 3.11 was expected"))
            elif version is not None:
                said[at] = version
    longest = max(said.values(), key=len, default=None)
    for at, version in said.items():
        if longest != version and not str(longest).startswith(f"{version}."):
            problems.append(
                SpecificationProblem(at, f"{version}, but another field says {longest}")
            )
    return longest, problems


def _index_problems(
    lock: Lock, name: str, indexes: Mapping[str, str]
) -> list[SpecificationProblem]:
    known = ", ".join([DEFAULT_INDEX, *sorted(indexes)])
    at = inside("python", name)
    return [
        SpecificationProblem(
            f"{at}.default.{package.name}.index" if name == "requirements_locked" else at,
            f"the index {package.index!r} is not configured here (there are: {known}); "
            "PACKAGE_INDEXES names others",
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
        environment=tuple((it["name"], it["value"]) for it in record.get("environment", ())),
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
        given = python["requirements_locked"]
        python["requirements_locked"] = given | {"default": pipfile_lock_of(lock)["default"]}
    else:
        python["requirements_locked"] = pipfile_lock_of(lock)
    document["python"] = python
    if parameters:
        document["parameters"] = dict(parameters)
    return {
        name: value if name in _KEPT_AS_THEY_ARE else _cleaned(value)
        for name, value in document.items()
    }


def _cleaned(value: Any) -> Any:
    """``value`` with the credentials of addresses taken out of every text."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, Mapping):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value
