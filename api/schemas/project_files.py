"""Files of a project in a request: which names they may have, and how much in them is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marshmallow import ValidationError, fields

from adviser.projects.locks import is_pylock
from adviser.projects.parsing import PROJECT_FILES

#: Of a manifest, which people write; reading TOML takes about a second a megabyte.
MAX_MANIFEST = 256 * 1024
MAX_FILES = 50
MAX_NAME = 200
#: Shown of a name that is refused.
_SHOWN = 80
#: Of all TOML in a request. Tables, keys and lists are what reading takes time for: the lock of
#: `apache-airflow[all]` for every platform has 54,000 in 2.2 MB and is read in 0.2 s; of keys
#: without content, as nobody has them, 220,000 in 2.6 MB take 2.5 s.
_MAX_TABLES, _TABLES = 75_000, "=[{"
#: The rest that is looked at one by one; the same lock has 75,000.
_MAX_PARTS, _PARTS = 120_000, ",.\n\\"


class ProjectFiles(fields.Dict):
    """Texts by path; what is not read, or is more than is read, is refused before the texts are."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, Mapping):
            if not 1 <= len(value) <= MAX_FILES:
                raise ValidationError(f"{len(value)} files, where 1 to {MAX_FILES} are read")
            for name in value:
                check_name(name)
        found = super()._deserialize(value, *args, **kwargs)  # type: ignore[no-untyped-call]
        _check_toml(found)
        return found


def check_name(name: Any) -> None:
    """Refuse a path that is not one of a project's files.

    :raises ValidationError: naming it
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
        raise ValidationError(f"{str(name)[:_SHOWN]!r}: not a path of at most {MAX_NAME} letters")
    *folders, base = name.split("/")
    if "\\" in name or ":" in name or any(it in ("", ".", "..") for it in folders):
        raise ValidationError(f"{name[:_SHOWN]!r}: not a path within the project's folder")
    if base not in PROJECT_FILES and not is_pylock(base) and not _is_list(base):
        known = ", ".join(PROJECT_FILES[:7])
        raise ValidationError(
            f"{name[:_SHOWN]!r}: not a file that says what a project needs; these are {known}, "
            "pylock.NAME.toml, and what ends in .txt or .in"
        )


def _is_list(base: str) -> bool:
    """Whether a file may be a list of requirements, which people call as they like."""
    stem, dot, ending = base.rpartition(".")
    return bool(stem.strip(".")) and bool(dot) and ending in ("txt", "in")


def _check_toml(files: Mapping[str, str]) -> None:
    tomls = {name: it for name, it in files.items() if name.endswith(("Pipfile", ".toml"))}
    for name, content in tomls.items():
        if not is_pylock(name.rpartition("/")[2]) and len(content) > MAX_MANIFEST:
            raise ValidationError(f"{name}: Longer than maximum length {MAX_MANIFEST}.")
    wrong = toml_problem(tomls.values())
    if wrong is not None:
        raise ValidationError(f"{', '.join(tomls)[:_SHOWN]}: {wrong}")


def toml_problem(texts: Collection[str]) -> str | None:
    """Why TOML is not read, by a look that takes milliseconds; ``None`` if it is."""
    for most, signs in ((_MAX_TABLES, _TABLES), (_MAX_PARTS, _PARTS)):
        found = sum(text.count(sign) for text in texts for sign in signs)
        if found > most:
            what = "tables, keys and lists" if signs is _TABLES else "commas, dots and lines"
            return f"{found} {what}, where at most {most} are read: no real lock has so many"
    return None
