"""Core metadata of a release: the fields of METADATA or PKG-INFO."""

import io
import re
from dataclasses import dataclass
from typing import Any

from packaging.metadata import parse_email

#: Characters of a licence's name; a longer one is the text of the licence.
_LONGEST_LICENCE = 120
_STATIC_SINCE = (2, 2)
#: Fields that are read. The time of the parser is quadratic in the number of different names.
_FIELDS = frozenset(
    {"metadata-version", "name", "version", "requires-python", "requires-dist", "provides-extra",
     "license-expression", "license", "classifier", "dynamic", "import-name",
     "import-namespace"}
)  # fmt: skip
_FIELD = re.compile(r"([!-9;-~]+):")


@dataclass(frozen=True, slots=True)
class CoreMetadata:
    """The fields that this project uses, as they are written.

    :param requires_dist: lines, which may violate PEP 508
    :param license: a short name or an expression, never the text of a licence
    :param dynamic: names of fields that a build may change, in lower case
    :param import_names: values of ``Import-Name`` (PEP 794); an empty value means no name;
        ``None`` without such a field
    :param import_namespaces: values of ``Import-Namespace``
    """

    metadata_version: str | None
    name: str | None
    version: str | None
    requires_python: str | None = None
    requires_dist: tuple[str, ...] = ()
    provides_extra: tuple[str, ...] = ()
    license: str | None = None
    dynamic: tuple[str, ...] = ()
    import_names: tuple[str, ...] | None = None
    import_namespaces: tuple[str, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether every build of a source distribution has these requirements (PEP 643)."""
        numbers = re.match(r"(\d{1,9})\.(\d{1,9})(?!\d)", self.metadata_version or "")
        if numbers is None or (int(numbers[1]), int(numbers[2])) < _STATIC_SINCE:
            return False
        return "requires-dist" not in self.dynamic


def parse_core_metadata(text: str) -> CoreMetadata:
    """Parse metadata; missing fields stay empty, and the first of repeated fields counts.

    >>> parse_core_metadata("Metadata-Version: 2.1\\nName: a\\nVersion: 1\\n\\nText.").version
    '1'
    """
    header = re.split(r"\r?\n\r?\n", text.lstrip("\ufeff\r\n"), maxsplit=1)[0]
    known, other = parse_email(_needed(header) + "\n")

    def first(key: str) -> str | None:
        value = known.get(key) or next(iter(other.get(key.replace("_", "-"), [])), None)
        return str(value).strip() or None if value else None

    def lines(key: str) -> tuple[str, ...] | None:
        # packaging parses these fields since release 26; an empty one is an empty list there.
        values: Any = known.get(f"{key.replace('-', '_')}s", other.get(key))
        return None if values is None else tuple(map(str, values))

    names, namespaces = lines("import-name"), lines("import-namespace")
    declared = names is not None or namespaces is not None
    return CoreMetadata(
        metadata_version=first("metadata_version"),
        name=first("name"),
        version=first("version"),
        requires_python=first("requires_python"),
        requires_dist=tuple(known.get("requires_dist", ())),
        provides_extra=tuple(known.get("provides_extra", ())),
        license=_license(
            first("license_expression"), first("license"), known.get("classifiers", ())
        ),
        dynamic=tuple(it.lower() for it in known.get("dynamic", ())),
        import_names=names or () if declared else None,
        import_namespaces=namespaces or (),
    )


def _needed(header: str) -> str:
    """The lines of the fields that are read, and lines that end the header early."""
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
    names = (it.rpartition("::")[2].strip() for it in lines if it.startswith("License ::"))
    return next(names, None)
