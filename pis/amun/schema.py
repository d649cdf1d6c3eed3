"""The schema of a specification and the checks of its values.

All problems of a specification are collected, each with the path of its field.
``docs/reference/specification.md`` explains every field.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from model.errors import ProjectError
from model.json_fields import FieldPath
from pis.catalogue import INDICATORS


class SpecificationProblem(NamedTuple):
    """A problem of one field.

    :param field: its path, such as ``python.requirements_locked.default.numpy.hashes``
    :param message: the problem, and the remedy if there is one
    """

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpecification(ProjectError):
    """An invalid specification, with all its problems.

    :param source: the file that it was read from
    """

    def __init__(self, problems: Sequence[SpecificationProblem], source: str = "") -> None:
        super().__init__(problems, source)
        self.problems = tuple(problems)
        self.source = source

    def __str__(self) -> str:
        prefix = f"{self.source}: " if self.source else ""
        return "\n".join(f"{prefix}{problem}" for problem in self.problems)


#: Path of a whole specification.
SPECIFICATION = FieldPath()

_CPU = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(m?)\Z")
_MEMORY = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([EPTGMK]i|[EPTGMk])?\Z")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18} | {
    f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)
}

#: The path of a problem of the whole specification, for people.
DOCUMENT = "the specification"
MISSING = "missing"
#: The schema library's messages, and ours.
_MESSAGES = {
    "Missing data for required field.": MISSING,
    "Field may not be null.": "null is not allowed: leave the field out",
    "Not a valid list.": "give a list",
    "Not a valid mapping type.": "give an object",
    "Invalid input type.": "give an object",
}
_UNKNOWN = "Unknown field."


class Text(fields.Field[str]):
    """A string of limited length."""

    def __init__(self, *, most: int = 2_000, **options: Any) -> None:
        super().__init__(**options)
        self.most = most

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("give text")
        if len(value) > self.most:
            raise ValidationError(f"too long: give at most {self.most} characters")
        return value


class Whole(fields.Field[int]):
    """A whole number within bounds; booleans are rejected."""

    def __init__(self, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        self.low, self.high = low, high

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValidationError(f"give a whole number from {self.low} to {self.high}")
        return value


class Seconds(fields.Field[float]):
    """A duration in seconds."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> float:
        if type(value) not in (int, float) or not 0 < value <= 86_400:
            raise ValidationError("give seconds above 0, at most 86400")
        return float(value)


class Flag(fields.Field[bool]):
    """``true`` or ``false``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("give true or false")
        return value


class Cpus(fields.Field[float]):
    """A number of processors, such as ``2``, ``"1.5"`` or ``"500m"``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> float:
        match = None if isinstance(value, bool) else _CPU.match(str(value))
        cpus = float(match[1]) / (1000 if match[2] else 1) if match else 0.0
        if cpus <= 0:
            raise ValidationError('give a number of processors, such as 2 or "500m"')
        return cpus


class Memory(fields.Field[int]):
    """A number of bytes, such as ``1048576``, ``"256Mi"`` or ``"1G"``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        match = None if isinstance(value, bool) else _MEMORY.match(str(value))
        size = int(float(match[1]) * _FACTORS[match[2] or ""]) if match else 0
        if size <= 0:
            raise ValidationError('give a number of bytes, such as "256Mi" or "1G"')
        return size


class Strict(Schema):
    """An object that rejects unknown fields."""

    class Meta:
        unknown = RAISE


class HardwareSchema(Strict):
    """``run.requests.hardware``: required hardware."""

    cpu_family = Whole(0, 10_000)
    cpu_model = Whole(0, 10_000)
    processor = Text()
    physical_cpus = Whole(1, 100_000)


class RequestsSchema(Strict):
    """``build.requests`` and ``run.requests``."""

    cpu = Cpus()
    memory = Memory()
    hardware = fields.Nested(HardwareSchema)


class ResourcesSchema(Strict):
    """``build`` and ``run``."""

    requests = fields.Nested(RequestsSchema)


class PythonStack(Strict):
    """``python``: the packages to install, in one of three lock formats."""

    requirements = fields.Dict()
    requirements_locked = fields.Dict()
    requirements_txt = Text(most=10_000_000)
    pylock_toml = Text(most=10_000_000)
    runtime_environment = fields.Dict()
    constraints = fields.List(Text())


class File(Strict):
    """An item of ``files``."""

    path = Text(required=True)
    content = Text(required=True, most=10_000_000)


class Variable(Strict):
    """An item of ``environment``."""

    name = Text(
        required=True,
        validate=validate.Regexp(
            r"[A-Za-z_][A-Za-z0-9_]*\Z", error="not the name of an environment variable"
        ),
    )
    value = Text(required=True, most=100_000)


class SpecificationSchema(Strict):
    """The whole specification."""

    identifier = Text(
        validate=validate.Regexp(
            r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?\Z",
            error="give at most 62 letters, digits, `.`, `_` and `-`",
        )
    )
    base = Text(
        validate=validate.Regexp(r"[A-Za-z0-9][\w./:@-]*\Z", error="not the name of an image")
    )
    batch_size = Whole(1, 10_000)
    timeout_s = Seconds()
    script = Text(most=10_000_000)
    parameters = fields.Dict(keys=fields.String())
    python = fields.Nested(PythonStack)
    packages = fields.List(Text())
    python_packages = fields.List(Text())
    package_manager = Text(
        validate=validate.OneOf(("micropipenv", "pipenv"), error="give `micropipenv` or `pipenv`")
    )
    files = fields.List(fields.Nested(File))
    environment = fields.List(fields.Nested(Variable))
    build = fields.Nested(ResourcesSchema)
    run = fields.Nested(ResourcesSchema)
    update = Flag()
    upgrade_pip = Flag()
    force_sync = Flag()
    send_messages = Flag()
    created = Text(data_key="@created")
    amun_service_version = Text(data_key="@amun_service_version")
    amun_api_url = Text(data_key="@amun_api_url")
    amun_deployment_name = Text(data_key="@amun_deployment_name")


def shape_problems(value: Any) -> list[SpecificationProblem]:
    """Return the problems that the schema finds in ``value``."""
    if not isinstance(value, dict):
        return [SpecificationProblem(DOCUMENT, "give a JSON object")]
    return list(_flat(SpecificationSchema().validate(value), SPECIFICATION, SpecificationSchema()))


def field_paths(schema: Schema | None = None, at: FieldPath = SPECIFICATION) -> list[str]:
    """Return the paths of all fields of the schema; ``[]`` stands for each item of a list."""
    paths: list[str] = []
    for name, field in (schema or SpecificationSchema()).fields.items():
        path = at / (field.data_key or name)
        inner: Any = field.inner if isinstance(field, fields.List) else field
        if isinstance(inner, fields.Nested):
            items = "[]" if inner is not field else ""
            paths += field_paths(inner.schema, FieldPath(f"{path}{items}"))
        else:
            paths.append(path)
    return paths


def _flat(errors: Mapping[Any, Any], at: FieldPath, schema: Any) -> list[SpecificationProblem]:
    problems = []
    for key, inner in errors.items():
        path = at if key == "_schema" else at / key
        if isinstance(inner, Mapping):
            problems += _flat(inner, path, _schema_of(schema, key))
        else:
            problems += [SpecificationProblem(path, _message(str(text), schema)) for text in inner]
    return problems


def _message(text: str, schema: Any) -> str:
    if text != _UNKNOWN or not isinstance(schema, Schema):
        return _MESSAGES.get(text, text)
    known = ", ".join(sorted(field.data_key or name for name, field in schema.fields.items()))
    return f"unknown field: use one of {known}"


def _schema_of(schema: Any, key: Any) -> Any:
    """Return the schema of the value of ``key``; for a list, the schema of its items."""
    if not isinstance(schema, Schema) or not isinstance(key, str):
        return schema
    field = next((f for n, f in schema.fields.items() if (f.data_key or n) == key), None)
    inner = field.inner if isinstance(field, fields.List) else field
    return inner.schema if isinstance(inner, fields.Nested) else None


#: Older specifications list these to install a stack with. They are accepted and not installed.
INSTALLERS = frozenset({"pip", "micropipenv", "pipenv", "uv", "setuptools", "wheel"})
#: The name of a native package, without characters that are special to shells or installers.
NATIVE_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:-]*")
_TOOL_NAME = re.compile(r"[A-Za-z0-9._-]+")

#: An indicator runs without a sandbox, so its variables may only tune libraries: other variables,
#: and paths in these, could make it load foreign code or write foreign files.
_TUNING = re.compile(
    r"(?:OMP|MKL|OPENBLAS|GOTO|BLIS|KMP|ONEDNN|DNNL|TF|TORCH|PYTORCH|ATEN|NPY|CUBLAS|CUDNN|NVIDIA"
    r"|MATMUL|CONV|CONV1D|CONV2D|TENSOR|FILTER)_[A-Z0-9_]+|CUDA_VISIBLE_DEVICES|BATCH|MINI_BATCH"
)
_PLAIN_VALUE = re.compile(r"[\w.,:;=+ -]*")

#: Limits of file systems: NAME_MAX, and PATH_MAX less the path of the working folder.
_NAME_BYTES = 255
_PATH_BYTES = 2_000


def script_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Yield a problem if the script is missing, is a URL, or names an unknown indicator."""
    script = record.get("script")
    if script is None:
        yield SpecificationProblem("script", "missing: give an indicator or the text of a script")
    elif re.match(r"\s*[a-z][a-z0-9+.-]*://\S+\s*\Z", script, re.IGNORECASE):
        yield SpecificationProblem(
            "script", "URLs are not fetched: give an indicator or the text of a script"
        )
    elif re.fullmatch(r"[\w.-]*", script) and script not in INDICATORS:
        known = ", ".join(INDICATORS)
        yield SpecificationProblem("script", f"{script!r} is not an indicator: use one of {known}")


def own_code_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Yield problems of files and variables that could make an indicator run foreign code.

    Indicators run without a sandbox, so they must not run foreign code.
    """
    if record.get("script") not in INDICATORS:
        return
    if record.get("files"):
        yield SpecificationProblem("files", "indicators take no files: give `parameters` instead")
    for number, variable in enumerate(record.get("environment", ())):
        if not _TUNING.fullmatch(variable["name"]):
            message = f"{variable['name']}: indicators take only variables of numeric libraries"
            yield SpecificationProblem(f"environment[{number}].name", message)
        elif not _PLAIN_VALUE.fullmatch(variable["value"]):
            message = "give only letters, digits, spaces and `.,:;=+-_`; paths are not allowed"
            yield SpecificationProblem(f"environment[{number}].value", message)


def environment_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Yield problems of variables that are set twice."""
    seen: set[str] = set()
    for number, variable in enumerate(record.get("environment", ())):
        name = variable["name"]
        if name in seen:
            message = f"{name[:80]} is set twice: set it once"
            yield SpecificationProblem(f"environment[{number}].name", message)
        seen.add(name)


def file_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Yield problems of files that are outside the working folder, or that conflict."""
    files: set[str] = set()
    folders: set[str] = set()
    for number, file in enumerate(record.get("files", ())):
        at, path = f"files[{number}].path", posixpath.normpath(file["path"])
        parents = {path[: slash.start()] for slash in re.finditer("/", path)}
        if path.startswith("/") or ".." in file["path"].split("/") or path == ".":
            yield SpecificationProblem(
                at, "give a path below the working folder, such as data/x.json"
            )
            continue
        if max(len(name.encode()) for name in path.split("/")) > _NAME_BYTES:
            yield SpecificationProblem(at, f"a name in the path has more than {_NAME_BYTES} bytes")
        elif len(path.encode()) > _PATH_BYTES:
            yield SpecificationProblem(at, f"the path has more than {_PATH_BYTES} bytes")
        elif path in files:
            yield SpecificationProblem(at, f"{path[:80]!r} is given twice")
        elif path in folders or parents & files:
            yield SpecificationProblem(at, f"{path[:80]!r} is both a file and a folder")
        files.add(path)
        folders |= parents


def package_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Yield invalid names of native packages, and Python packages outside the lock."""
    for number, package in enumerate(record.get("packages", ())):
        if not NATIVE_PACKAGE.fullmatch(package):
            message = f"{package[:80]!r} is not the name of a native package"
            yield SpecificationProblem(f"packages[{number}]", message)
    for number, package in enumerate(record.get("python_packages", ())):
        name = _TOOL_NAME.match(package)
        if name is None or name[0].lower() not in INSTALLERS:
            message = f"{package[:80]!r} would be installed without a hash: add it to the lock"
            yield SpecificationProblem(f"python_packages[{number}]", message)
