"""The schema of a specification and the checks of its values.

All problems of a specification are collected, each with the path of its field.
``docs/reference/specification.md`` explains every field.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from common.errors import ProjectError
from pis.catalogue import INDICATORS

_PLAIN = re.compile(r"[\w@.+-]{1,80}\Z")


class SpecificationProblem(NamedTuple):
    """One field that cannot be used as it is.

    :param field: its path, such as ``python.requirements_locked.default.numpy.hashes``
    :param message: what is wrong, and where one is known the remedy
    """

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpecification(ProjectError):
    """A specification that cannot be used; it has all of its problems.

    :param place: the file that it came from
    """

    def __init__(self, problems: Sequence[SpecificationProblem], place: str = "") -> None:
        super().__init__(problems, place)
        self.problems = tuple(problems)
        self.place = place

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return "\n".join(f"{where}{problem}" for problem in self.problems)


def inside(at: str, key: str | int) -> str:
    """The path of ``key`` in the record at ``at``.

    >>> inside("", "run"), inside("run", "requests"), inside("files", 0), inside("run", "a b")
    ('run', 'run.requests', 'files[0]', "run['a b']")
    """
    if isinstance(key, int) or not _PLAIN.match(key):
        return f"{at}[{key if isinstance(key, int) else key[:80]!r}]"
    return f"{at}.{key}" if at else key


_CPU = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(m?)\Z")
_MEMORY = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([EPTGMK]i|[EPTGMk])?\Z")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18} | {
    f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)
}

_WHOLE = "the specification"
#: Real ones have some ten levels.
_DEEPEST = 100
#: What programs that read JSON take for a whole number.
_WHOLE_NUMBERS = range(-(2**63), 2**63)
MISSING = "missing"
#: What the schema library says, in our words.
_WORDS = {
    "Missing data for required field.": MISSING,
    "Field may not be null.": "null: leave it out instead",
    "Not a valid list.": "a list was expected",
    "Not a valid mapping type.": "an object was expected",
    "Invalid input type.": "an object was expected",
}
_UNKNOWN = "Unknown field."


class Text(fields.Field[str]):
    """Text, and nothing that could be taken for it."""

    def __init__(self, *, most: int = 2_000, **options: Any) -> None:
        super().__init__(**options)
        self.most = most

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong("text was expected")
        if "\0" in value or len(value) > self.most:
            raise self._wrong("holds a NUL" if "\0" in value else f"over {self.most} characters")
        return value

    @staticmethod
    def _wrong(words: str) -> Exception:
        return ValidationError(words)


class Whole(fields.Field[int]):
    """A whole number within bounds; a boolean is none."""

    def __init__(self, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        self.low, self.high = low, high

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValidationError(f"a whole number from {self.low} to {self.high} was expected")
        return value


class Seconds(fields.Field[float]):
    """A duration in seconds."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> float:
        if type(value) not in (int, float) or not 0 < value <= 86_400:
            raise ValidationError("seconds above 0 and up to 86400 were expected")
        return float(value)


class Flag(fields.Field[bool]):
    """``true`` or ``false``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("true or false was expected")
        return value


class Cpus(fields.Field[float]):
    """Processors, as ``2``, ``"1.5"`` or ``"500m"``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> float:
        found = None if isinstance(value, bool) else _CPU.match(str(value))
        cpus = float(found[1]) / (1000 if found[2] else 1) if found else 0.0
        if cpus <= 0:
            raise ValidationError('processors were expected, such as 2 or "500m"')
        return cpus


class Memory(fields.Field[int]):
    """Bytes, as ``1048576``, ``"256Mi"`` or ``"1G"``."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        found = None if isinstance(value, bool) else _MEMORY.match(str(value))
        size = int(float(found[1]) * _FACTORS[found[2] or ""]) if found else 0
        if size <= 0:
            raise ValidationError('bytes were expected, such as "256Mi" or "1G"')
        return size


class Strict(Schema):
    """A record in which every key means something."""

    class Meta:
        unknown = RAISE


class HardwareSchema(Strict):
    """``run.requests.hardware``: what the machine has to be."""

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
    """``python``: what is installed, in one of three forms."""

    requirements = fields.Dict()
    requirements_locked = fields.Dict()
    requirements_txt = Text(most=10_000_000)
    pylock_toml = Text(most=10_000_000)
    runtime_environment = fields.Dict()
    constraints = fields.List(Text())


class File(Strict):
    """One of ``files``."""

    path = Text(required=True)
    content = Text(required=True, most=10_000_000)


class Variable(Strict):
    """One of ``environment``."""

    name = Text(
        required=True,
        validate=validate.Regexp(r"[A-Za-z_][A-Za-z0-9_]*\Z", error="not a variable's name"),
    )
    value = Text(required=True, most=100_000)


class SpecificationSchema(Strict):
    """The whole specification."""

    identifier = Text(
        validate=validate.Regexp(
            r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?\Z",
            error="up to 62 letters, digits, `.`, `_` and `-` were expected",
        )
    )
    base = Text(validate=validate.Regexp(r"[A-Za-z0-9][\w./:@-]*\Z", error="not an image's name"))
    batch_size = Whole(1, 10_000)
    timeout_s = Seconds()
    script = Text(most=10_000_000)
    parameters = fields.Dict(keys=fields.String())
    python = fields.Nested(PythonStack)
    packages = fields.List(Text())
    python_packages = fields.List(Text())
    package_manager = Text(
        validate=validate.OneOf(
            ("micropipenv", "pipenv"), error="`micropipenv` or `pipenv` was expected"
        )
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


def unwritable_problems(value: Any) -> list[SpecificationProblem]:
    """Texts that no document could hold, and what few programs read: huge numbers, deep nests.

    JSON may escape half of a surrogate pair, which UTF-8 has no bytes for.
    """
    problems = []
    left = [(value, "", 0)]
    while left:
        inner, at, depth = left.pop()
        if depth > _DEEPEST:
            problems.append(SpecificationProblem(at, f"nested deeper than {_DEEPEST} levels"))
        elif isinstance(inner, str) and not _is_unicode(inner):
            problems.append(SpecificationProblem(at or _WHOLE, "holds half of a surrogate pair"))
        elif isinstance(inner, int) and inner not in _WHOLE_NUMBERS:
            problems.append(
                SpecificationProblem(at or _WHOLE, "a whole number of more than 64 bits")
            )
        elif isinstance(inner, dict):
            for key in inner:
                if not _is_unicode(key):
                    words = "a name that holds half of a surrogate pair"
                    problems.append(SpecificationProblem(inside(at, key), words))
            left += [(it, inside(at, key), depth + 1) for key, it in inner.items()]
        elif isinstance(inner, list):
            left += [(it, inside(at, number), depth + 1) for number, it in enumerate(inner)]
    return problems


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shape_problems(value: Any) -> list[SpecificationProblem]:
    """What the schema has against ``value``, by path; nothing if it has the right shape."""
    if not isinstance(value, dict):
        return [SpecificationProblem(_WHOLE, "a JSON object was expected")]
    return list(_flat(SpecificationSchema().validate(value), "", SpecificationSchema()))


def field_paths(schema: Schema | None = None, at: str = "") -> list[str]:
    """Every field of the schema by its path, ``[]`` standing for each item of a list."""
    paths = []
    for name, field in (schema or SpecificationSchema()).fields.items():
        path = inside(at, field.data_key or name)
        inner: Any = field.inner if isinstance(field, fields.List) else field
        if isinstance(inner, fields.Nested):
            path += "[]" if inner is not field else ""
            paths += field_paths(inner.schema, path)
        else:
            paths.append(path)
    return paths


def _flat(errors: Mapping[Any, Any], at: str, schema: Any) -> list[SpecificationProblem]:
    problems = []
    for key, inner in errors.items():
        path = at if key == "_schema" else inside(at, key)
        if isinstance(inner, Mapping):
            problems += _flat(inner, path, _schema_of(schema, key))
        else:
            problems += [SpecificationProblem(path, _said(str(words), schema)) for words in inner]
    return problems


def _said(words: str, schema: Any) -> str:
    if words != _UNKNOWN or not isinstance(schema, Schema):
        return _WORDS.get(words, words)
    known = ", ".join(sorted(field.data_key or name for name, field in schema.fields.items()))
    return f"not a field of a specification; here are: {known}"


def _schema_of(schema: Any, key: Any) -> Any:
    """The schema of what lies below ``key``; a list keeps that of its items."""
    if not isinstance(schema, Schema) or not isinstance(key, str):
        return schema
    field = next((f for n, f in schema.fields.items() if (f.data_key or n) == key), None)
    inner = field.inner if isinstance(field, fields.List) else field
    return inner.schema if isinstance(inner, fields.Nested) else None


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


def script_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """A script that is missing, an address, or a word that names no indicator."""
    script = record.get("script")
    if script is None:
        yield SpecificationProblem("script", "missing: name an indicator or give a script's text")
    elif re.match(r"\s*[a-z][a-z0-9+.-]*://\S+\s*\Z", script, re.IGNORECASE):
        yield SpecificationProblem(
            "script", "addresses are not fetched; name an indicator or give the text"
        )
    elif re.fullmatch(r"[\w.-]*", script) and script not in INDICATORS:
        known = ", ".join(INDICATORS)
        yield SpecificationProblem("script", f"{script!r} is no indicator; there are: {known}")


def own_code_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """An indicator is trusted because nothing of the specification runs in its process."""
    if record.get("script") not in INDICATORS:
        return
    if record.get("files"):
        yield SpecificationProblem(
            "files", "only a script has files; an indicator takes parameters"
        )
    for number, variable in enumerate(record.get("environment", ())):
        if not _TUNING.fullmatch(variable["name"]):
            words = "an indicator takes only variables that tune numeric libraries"
            yield SpecificationProblem(
                f"environment[{number}].name", f"{variable['name']}: {words}"
            )
        elif not _PLAIN_VALUE.fullmatch(variable["value"]):
            words = "letters, digits and `.,:;=+-_` were expected; paths are not followed"
            yield SpecificationProblem(f"environment[{number}].value", words)


def environment_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Variables that are set twice."""
    seen: set[str] = set()
    for number, variable in enumerate(record.get("environment", ())):
        name = variable["name"]
        if name in seen:
            yield SpecificationProblem(f"environment[{number}].name", f"{name[:80]}: is set twice")
        seen.add(name)


def file_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Files that would lie outside the working folder, or that cannot lie there together."""
    files: set[str] = set()
    folders: set[str] = set()
    for number, file in enumerate(record.get("files", ())):
        at, path = f"files[{number}].path", posixpath.normpath(file["path"])
        parents = {path[: place.start()] for place in re.finditer("/", path)}
        if path.startswith("/") or ".." in file["path"].split("/") or path == ".":
            yield SpecificationProblem(
                at, "a path below the working folder was expected, such as data/x.json"
            )
            continue
        if max(len(it.encode()) for it in path.split("/")) > _NAME_BYTES:
            yield SpecificationProblem(at, f"a name over {_NAME_BYTES} bytes")
        elif len(path.encode()) > _PATH_BYTES:
            yield SpecificationProblem(at, f"over {_PATH_BYTES} bytes")
        elif path in files:
            yield SpecificationProblem(at, f"{path[:80]!r} is given twice")
        elif path in folders or parents & files:
            yield SpecificationProblem(at, f"{path[:80]!r} would be a file and a folder")
        files.add(path)
        folders |= parents


def package_problems(record: Mapping[str, Any]) -> Iterable[SpecificationProblem]:
    """Packages that are no names, and Python packages that no lock holds to a hash."""
    for number, package in enumerate(record.get("packages", ())):
        if not NATIVE_PACKAGE.fullmatch(package):
            yield SpecificationProblem(
                f"packages[{number}]", f"{package[:80]!r} is no native package's name"
            )
    for number, package in enumerate(record.get("python_packages", ())):
        name = _TOOL_NAME.match(package)
        if name is None or name[0].lower() not in INSTALLERS:
            words = f"{package[:80]!r} would be installed without a hash: add it to the lock"
            yield SpecificationProblem(f"python_packages[{number}]", words)
