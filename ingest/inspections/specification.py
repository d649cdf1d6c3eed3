"""Reads specifications of inspections: locked stack, image, resources and script."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from common.formats.locks.pipfile_lock import pinned_version
from ingest.releases.parsing import MAX_INDEX_LENGTH, MAX_PROJECT_LENGTH
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, digest
from model.json_fields import MAX_NAME_LENGTH, ROOT, FieldPath, Fields, Record, too_long
from model.measurements.inspection import RuntimeEnvironment, Stack
from model.measurements.units import THREAD_VARIABLES
from model.packages.identity import PackageVersion, is_project_name, package_version

NO_LOCK = "the document names no locked packages"

NO_SPECIFICATION = "the inspection was published without its specification"

#: Number of cached specifications, and size limit for caching one.
_KEPT, _KEPT_BYTES = 256, 256 * 1024

_CPU_QUANTITY = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(m?)\Z")
_SCRIPT_URL = re.compile(r"[a-z][a-z0-9+]*://\S+/(?P<folder>[^/\s]+)/(?P<script>[^/\s]+)\.py\Z")

#: Names of the known indicators by script; specifications of bundled indicators use these scripts.
_INDICATOR_NAMES = {
    "matmul": "PiMatmul",
    "gemm": "PiGemm",
    "conv1d": "PiConv1D",
    "conv2d": "PiConv2D",
    "rnn": "PiRnn",
    "lstm": "PiLstm",
    "memory": "PiMemory",
    "import": "PiImport",
    "train": "PiTrain",
    "infer": "PiInfer",
}
#: Scripts that documents name by URL.
_WITH_URL = ("matmul", "conv1d", "conv2d")
#: Measured components, by package in the stack or folder in the script's URL.
_COMPONENTS = {
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "intel-tensorflow": "tensorflow",
    "pytorch": "pytorch",
    "torch": "pytorch",
    "numpy": "numpy",
}
#: A package in nearly every stack, so it does not indicate the measured component.
_EVERYWHERE = "numpy"
#: Components of bundled scripts, which call PyTorch ``torch``; historic scripts say ``pytorch``.
_BUNDLED_COMPONENTS = {**_COMPONENTS, "torch": "torch", "pytorch": "torch"}


@dataclass(frozen=True, slots=True)
class InspectionSpecification:
    """The parts of an inspection's specification that observations need.

    :param threads: values of the environment variables that set the number of threads, by name
    :param cpu_quota: number of CPUs of a job
    :param requested: requested hardware; documents of 2019 have no other hardware
    :param requires_python: Python version in the Pipfile
    :param script_name: indicator, if the script or its URL determines it
    :param script_component: component, if the script's URL or the stack determines it
    """

    stack: Stack | None
    stack_note: str | None
    threads: dict[str, str]
    cpu_quota: float | None
    requested: Record
    base_image: str | None
    native_packages: tuple[str, ...]
    requires_python: str | None
    script_name: str | None
    script_component: str | None


UNKNOWN = InspectionSpecification(None, NO_SPECIFICATION, {}, None, {}, None, (), None, None, None)


def specification_of(canonical: bytes) -> InspectionSpecification:
    """Read an inspection's specification from canonical JSON; short specifications are cached.

    :raises InvalidDocument: with fields relative to the specification
    """
    kept = len(canonical) <= _KEPT_BYTES
    return _specification_of(canonical) if kept else _specification_of.__wrapped__(canonical)


@lru_cache(maxsize=_KEPT)
def _specification_of(canonical: bytes) -> InspectionSpecification:
    record = Fields(orjson.loads(canonical))
    python = record.nested("python")
    locked = python.nested("requirements_locked")
    requirements = python.nested("requirements")
    stack, note = stack_of(locked)
    requests = record.nested("run").nested("requests")
    script = record.get("script")
    name, component = script_hints(script, stack)
    if isinstance(script, str) and script in _INDICATOR_NAMES:
        framework = record.nested("parameters").text("framework")
        # Bundled scripts measure the stack's only framework, or NumPy.
        only = _component_of(stack, _BUNDLED_COMPONENTS) or _EVERYWHERE
        name, component = _INDICATOR_NAMES[script], framework or only
    return InspectionSpecification(
        stack=stack,
        stack_note=note,
        threads=_threads(record),
        cpu_quota=_cpu_quota(requests),
        requested=requests.nested("hardware").record,
        base_image=record.text("base"),
        native_packages=tuple(sorted(set(record.texts("packages", MAX_NAME_LENGTH)))),
        requires_python=_requires(requirements) or _requires(locked.nested("_meta")),
        script_name=name,
        script_component=component,
    )


def stack_of(locked: Fields) -> tuple[Stack | None, str | None]:
    """The pinned packages of a ``Pipfile.lock``, and a note about unpinned entries.

    Development packages are excluded, because they are not installed for measurements.
    """
    default = locked.nested("default")
    pinned: list[PackageVersion] = []
    skipped: list[str] = []
    for name, entry in default.items():
        release = _release(name, entry, default.at / name)
        if release is None:
            skipped.append(name)
        else:
            pinned.append(release)
    if not pinned:
        return None, NO_LOCK
    note = f"without entries that name no version: {', '.join(sorted(skipped))}"
    twice = [name for name, count in Counter(it.name for it in pinned).items() if count > 1]
    if twice:
        raise locked.invalid(
            Reason.CONFLICTING_FIELDS, f"{twice[0]} is locked twice, in two spellings"
        )
    return Stack.of(tuple(pinned)), note[:500] if skipped else None


def _release(name: str, entry: Any, at: FieldPath) -> PackageVersion | None:
    """The release of an entry; ``None`` for a repository, a path or a range."""
    record = Fields({"version": entry} if isinstance(entry, str) else entry, at)
    version = record.text("version")
    if len(name) > MAX_PROJECT_LENGTH:
        raise too_long(at, MAX_PROJECT_LENGTH)
    if not is_project_name(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{name[:80]!r} is not the name of a package", field=at
        )
    release = pinned_version(version)
    if version is None or release is None:
        return None
    # int() refuses numbers of thousands of digits; real versions are short.
    if len(version) > 100:
        raise InvalidDocument(
            Reason.INVALID_VERSION, "a version of over 100 characters", field=at / "version"
        )
    index = record.text("index", MAX_INDEX_LENGTH)
    try:
        return package_version(name, release, index)
    except InvalidDocument as error:
        raise InvalidDocument(error.reason, error.message, field=at / "version") from None


def bare_lock(locked: bytes, requirements: bytes) -> InspectionSpecification:
    """Read the lock and Pipfile of a 2020-02 document, which has no specification."""
    kept = len(locked) + len(requirements) <= _KEPT_BYTES
    return (_bare_lock if kept else _bare_lock.__wrapped__)(locked, requirements)


@lru_cache(maxsize=_KEPT)
def _bare_lock(locked: bytes, requirements: bytes) -> InspectionSpecification:
    stack, note = stack_of(Fields(orjson.loads(locked), ROOT / "requirements_locked"))
    python = _requires(Fields(orjson.loads(requirements), ROOT / "requirements"))
    _, component = script_hints(None, stack)
    return InspectionSpecification(stack, note, {}, None, {}, None, (), python, None, component)


def script_hints(script: Any, stack: Stack | None) -> tuple[str | None, str | None]:
    """Infer the indicator and its component from the script's URL or the stack.

    >>> script_hints("https://code.example/performance/master/tensorflow/matmul.py", None)
    ('PiMatmul', 'tensorflow')
    """
    if script is not None and not isinstance(script, str):
        raise Fields({}).wrong_type(script, "text", "script")
    match = _SCRIPT_URL.match(script) if script and len(script) < 2000 else None
    name = indicator_name(match["script"]) if match and match["script"] in _WITH_URL else None
    component = _COMPONENTS.get(match["folder"]) if match else None
    return name, component or _component_of(stack)


def _component_of(stack: Stack | None, known: Mapping[str, str] = _COMPONENTS) -> str | None:
    names = {package.name for package in stack.packages} if stack else set()
    components = {known[name] for name in names & (known.keys() - {_EVERYWHERE})}
    return components.pop() if len(components) == 1 else None


def indicator_name(script: str | None) -> str | None:
    """Return the name of the indicator of a bundled script.

    >>> indicator_name("matmul")
    'PiMatmul'
    """
    return _INDICATOR_NAMES.get(script or "")


def _threads(record: Fields) -> dict[str, str]:
    threads: dict[str, str] = {}
    for variable in record.each("environment"):
        name = variable.text("name")
        if name in THREAD_VARIABLES:
            value = variable.get("value")
            if type(value) is not int and not isinstance(value, str):
                raise variable.wrong_type(value, "text", "value")
            threads[name] = str(value)[:20]
    return threads


def _cpu_quota(requests: Fields) -> float | None:
    """Parse a number of CPUs such as ``2``, ``"2"`` or ``"500m"``."""
    value = requests.get("cpu")
    if value is None:
        return None
    if type(value) not in (int, float, str):
        raise requests.wrong_type(value, "a quantity of CPUs", "cpu")
    match = _CPU_QUANTITY.match(str(value))
    if match is None:
        message = f"{str(value)[:40]!r} is not a quantity of CPUs"
        raise requests.invalid(Reason.WRONG_TYPE, message, "cpu")
    return float(match[1]) / (1000 if match[2] else 1)


def _requires(pipfile: Fields) -> str | None:
    return pipfile.nested("requires").text("python_version")


def environment_of(result: Fields, specification: InspectionSpecification) -> RuntimeEnvironment:
    """Return the environment that the job reported, or else the specification's environment."""
    runtime = result.nested("runtime_environment")
    system, release = runtime.nested("operating_system"), result.nested("os_release")
    return _environment(
        system.text("name") or release.text("id"),
        system.text("version") or release.text("version_id"),
        runtime.text("python_version") or specification.requires_python,
        runtime.text("cuda_version"),
        specification.base_image,
        specification.native_packages,
    )


@lru_cache(maxsize=1024)
def _environment(
    os_name: str | None,
    os_version: str | None,
    python_version: str | None,
    cuda_version: str | None,
    base_image: str | None,
    native_packages: tuple[str, ...],
) -> RuntimeEnvironment:
    parts = (os_name, os_version, python_version, cuda_version, base_image, native_packages)
    return RuntimeEnvironment(digest(parts), *parts)


def canonical_lock(value: Any, field: FieldPath) -> bytes:
    """Return a lock or Pipfile as canonical bytes; 2020-02 documents wrap it in a list."""
    if isinstance(value, list):
        if len(value) > 1:
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS, f"{len(value)} locks for one inspection", field=field
            )
        value = value[0] if value else None
    return canonical_json({} if value is None else Fields(value, field).record)
