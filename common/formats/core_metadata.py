"""Core metadata of a release: the fields of METADATA or PKG-INFO."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from packaging.metadata import parse_email

#: A licence's name is shorter; what is longer is its text.
_LONGEST_LICENCE = 120
_NO_BUILD_CHANGES_IT = (2, 2)
#: What is read here; the parser takes the square of the number of different names.
_FIELDS = frozenset(
    {"metadata-version", "name", "version", "requires-python", "requires-dist", "provides-extra",
     "license-expression", "license", "classifier", "dynamic"}
)  # fmt: skip
_FIELD = re.compile(r"([!-9;-~]+):")


@dataclass(frozen=True, slots=True)
class CoreMetadata:
    """The fields that are needed here, as they were written.

    :param requires_dist: lines as written; may be no requirements by PEP 508
    :param license: a short name or an expression, never a text
    :param dynamic: names of fields that a build may change, in lower case
    """

    metadata_version: str | None
    name: str | None
    version: str | None
    requires_python: str | None = None
    requires_dist: tuple[str, ...] = ()
    provides_extra: tuple[str, ...] = ()
    license: str | None = None
    dynamic: tuple[str, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether a source distribution with this metadata promises its requirements (PEP 643)."""
        numbers = re.match(r"(\d{1,9})\.(\d{1,9})(?!\d)", self.metadata_version or "")
        if numbers is None or (int(numbers[1]), int(numbers[2])) < _NO_BUILD_CHANGES_IT:
            return False
        return "requires-dist" not in self.dynamic


def parse_core_metadata(text: str) -> CoreMetadata:
    """Read the text; what is missing stays empty, and of what is there twice the first counts.

    >>> parse_core_metadata("Metadata-Version: 2.1\\nName: a\\nVersion: 1\\n\\nWords.").version
    '1'
    """
    header = re.split(r"\r?\n\r?\n", text.lstrip("\ufeff\r\n"), maxsplit=1)[0]
    known, other = parse_email(_needed(header) + "\n")

    def one(key: str) -> str | None:
        value = known.get(key) or next(iter(other.get(key.replace("_", "-"), [])), None)
        return str(value).strip() or None if value else None

    return CoreMetadata(
        metadata_version=one("metadata_version"),
        name=one("name"),
        version=one("version"),
        requires_python=one("requires_python"),
        requires_dist=tuple(known.get("requires_dist", ())),
        provides_extra=tuple(known.get("provides_extra", ())),
        license=_license(one("license_expression"), one("license"), known.get("classifiers", ())),
        dynamic=tuple(it.lower() for it in known.get("dynamic", ())),
    )


def _needed(header: str) -> str:
    """The lines of the fields that are read, and whatever ends a header too early."""
    kept, keeping = [], True
    for line in io.StringIO(header, newline=""):
        name = ""
        if not line.startswith((" ", "\t")):
            field = _FIELD.match(line)
            name = field[1].lower() if field else ""
            keeping = field is None or name in _FIELDS
        if keeping:
            kept.append(f"{name}{line[len(name) :]}")
    return "".join(kept)


def _license(expression: str | None, name: str | None, classifiers: object) -> str | None:
    if expression:
        return expression
    if name and "\n" not in name and len(name) <= _LONGEST_LICENCE and name != "UNKNOWN":
        return name
    lines = classifiers if isinstance(classifiers, list | tuple) else ()
    found = (it.rpartition("::")[2].strip() for it in lines if it.startswith("License ::"))
    return next(found, None)
