"""Declares a field of a dataclass once: its meaning, unit, example, and whether it is public.

``rate: Annotated[float | None, Field("Measured rate.", 9.4e10, unit="FLOP/s", public=True)]``

Response schemas of the API, columns of exports, JSON documents and tables of the reference are
derived from these declarations when a module is imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from model.json_documents import as_json_time, finite_or_none


@dataclass(frozen=True, slots=True)
class Field:
    """The declaration of a field.

    :param description: a sentence for readers of the API and of the docs
    :param example: a value, for the docs of the API
    :param unit: such as ``s``; a name in backticks is the field that contains the unit
    :param values: the only values of a text
    :param public: whether exports contain the field, because anybody may read it
    :param unbounded: whether a number may be infinite or NaN, which is null in JSON
    """

    description: str = ""
    example: Any = None
    unit: str = ""
    values: type[Enum] | tuple[str, ...] = ()
    public: bool = False
    unbounded: bool = False

    @property
    def sentence(self) -> str:
        """The description with the unit.

        >>> Field("Processor time; null if unknown.", unit="s").sentence
        'Processor time, s; null if unknown.'
        """
        if not self.unit:
            return self.description
        first, semicolon, rest = self.description.removesuffix(".").partition(";")
        unit = f"in {self.unit}" if self.unit.startswith("`") else self.unit
        return f"{first}, {unit}{semicolon}{rest}."


def public(description: str, example: Any = None, **more: Any) -> Field:
    """A :class:`Field` that exports contain."""
    return Field(description, example, public=True, **more)


def unbounded(description: str, example: Any = None, **more: Any) -> Field:
    """A :class:`Field` of numbers that may be infinite or NaN."""
    return Field(description, example, unbounded=True, **more)


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A field or property of a dataclass with its declaration.

    :param type: without ``None``
    :param optional: whether the value may be ``None``
    """

    name: str
    type: Any
    optional: bool
    declared: Field

    @property
    def choices(self) -> list[str]:
        """The only values of a text; empty if it may be any."""
        kind = self.declared.values or self.type
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [it.value for it in kind]
        return list(kind) if isinstance(kind, tuple) else []


@cache
def declared_fields(kind: Any) -> tuple[DeclaredField, ...]:
    """The declared fields of a dataclass in their order, then its declared properties.

    A field whose type is a declared dataclass, or a list of one, needs no declaration of its own.
    """
    hints = get_type_hints(kind, include_extras=True)
    for cls in reversed(kind.__mro__):
        for name, value in vars(cls).items():
            if isinstance(value, property) and "Annotated[" in str(_returned(value)):
                hints[name] = get_type_hints(value.fget, include_extras=True)["return"]
    own = (_declared_field(name, hint) for name, hint in hints.items())
    return tuple(it for it in own if it is not None)


def is_declared(kind: Any) -> bool:
    """Whether ``kind`` is a dataclass with declared fields."""
    return isinstance(kind, type) and is_dataclass(kind) and bool(declared_fields(kind))


def _returned(value: property) -> Any:
    return value.fget and value.fget.__annotations__.get("return")


def _declared_field(name: str, hint: Any) -> DeclaredField | None:
    declared = None
    if get_origin(hint) is Annotated:
        hint, declared = get_args(hint)[:2]
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kind, *others = (it for it in choices if it is not NoneType)
    if declared is None and not any(map(is_declared, (kind, *get_args(kind)))):
        return None
    # A union of several types is any JSON value.
    return DeclaredField(name, Any if others else kind, NoneType in choices, declared or Field())


def document_of(value: Any) -> Any:
    """The declared fields of a dataclass by name, as JSON values.

    Infinite numbers and NaN become null.
    """
    if isinstance(value, Mapping):
        return {key: document_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [document_of(inner) for inner in value]
    kind: Any = type(value)
    if is_declared(kind):
        names = (it.name for it in declared_fields(kind))
        return {name: document_of(getattr(value, name)) for name in names}
    return _plain(value)


def report_of(report: Any, *left_out: str) -> dict[str, Any]:
    """The public fields of a report by name: counts as objects, other dataclasses likewise."""
    names = (it.name for it in fields(report) if it.name not in left_out and it.name[0] != "_")
    return {name: _reported(getattr(report, name)) for name in names}


def _reported(value: Any) -> Any:
    if is_dataclass(value):
        return report_of(value)
    if isinstance(value, list | tuple):
        return [_reported(it) for it in value]
    return dict(value) if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return as_json_time(value)
    return finite_or_none(value) if isinstance(value, float) else value


#: An example of a digest.
DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"

# Series of measurements
COMPARISON_KEY = public("Key that comparable observations share.", DIGEST)
INDICATOR = public("Name of the indicator.", "PiMatmul")
SCRIPT = public("Digest of the indicator's script.")
PARAMETERS = public("Parameters of the indicator.")
DEVICE = public("Device that the indicator ran on.", "cpu")
COMPONENT = public("Library that the indicator measures.", "numpy")
RATE_UNIT = public("Unit of the rates.", "FLOP/s")
PYTHON_VERSION = public("Version of the Python interpreter.", "3.11")
HARDWARE_DIGEST = public("Digest of the hardware class.", DIGEST)
HARDWARE_LABEL = public("Name of the hardware class for people.", "AMD EPYC, 2 processors")
STACK_DIGEST = public("Digest of the stack.", DIGEST)
STACK_LABEL = Field("Name of the stack for people.", "numpy 2.4.6 (1f2e3d4c)")
HOST = public("Digest of the machine.")
BUNDLED_STEPS = Field(
    "Differences in bundled libraries by package: context, not shown to be the cause.",
    {"numpy": "numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28"},
)
DELTA_PCT = public("Differences up to this count as equivalent.", 2.0, unit="%")

# Packages and their releases
PURL = public("Package URL.", "pkg:pypi/flask@3.1.2")
PACKAGE = public("Normalised name.", "flask")
VERSION = public("Normalised version.", "3.1.2")
INDEX = public("Name of the index that serves it.", "pypi")
UPLOADED_AT = public("When its first file was uploaded.")
REQUIRES_PYTHON = public("Specifier of supported Python versions.", ">=3.9")
YANKED = public("Whether the release is yanked.")
