"""Configuration of pip and uv on this machine: files and environment variables, which win."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: What of pip's options says how indexes are reached.
PIP_OPTIONS = ("index-url", "extra-index-url", "find-links", "cert", "no-index")


def pip_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of :data:`PIP_OPTIONS` that pip's files or variables set.

    A file that cannot be read counts as absent, and so do folders of wheels that are not there.
    """
    said: dict[str, str] = {}
    for path in _pip_files(environ):
        said |= _pip_file(path)
    for key in PIP_OPTIONS:
        said[key] = environ.get(f"PIP_{key.upper().replace('-', '_')}", said.get(key, ""))
    said["find-links"] = " ".join(it for it in said["find-links"].split() if _is_usable(it))
    return {key: value for key, value in said.items() if value}


def has_uv_file(environ: Mapping[str, str]) -> bool:
    """Whether uv has a file of its own, which it then prefers to anything of pip's."""
    return any(path.exists() for path in _uv_files(environ))


def uv_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """uv's files as one table; a key of a later, nearer file replaces one of an earlier."""
    said: dict[str, Any] = {}
    for path in [*_uv_files(environ), *map(Path, filter(None, [environ.get("UV_CONFIG_FILE")]))]:
        try:
            said |= tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
    return said


def uv_indexes(environ: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Name (may be empty), address and whether it is the default; the deciding ones first."""
    for variable, is_default in (
        ("UV_DEFAULT_INDEX", True),
        ("UV_INDEX_URL", True),
        ("UV_INDEX", False),
    ):
        for item in environ.get(variable, "").split():
            yield *_named(item), is_default
    options = uv_options(environ)
    tables = options.get("index")
    for table in tables if isinstance(tables, list) else []:
        if isinstance(table, dict) and isinstance(table.get("url"), str):
            yield str(table.get("name", "")), table["url"], table.get("default") is True
    for section in (options, options.get("pip")):
        if isinstance(section, dict) and isinstance(section.get("index-url"), str):
            yield "", section["index-url"], True


def _named(item: str) -> tuple[str, str]:
    """``name=URL`` or an address alone, which may have an equals sign too."""
    name, equals, url = item.partition("=")
    return (name, url) if equals and re.fullmatch(r"[\w.-]+", name) else ("", item)


def _pip_file(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    sections = (it for it in ("global", "install") if parser.has_section(it))
    items = (item for section in sections for item in parser.items(section))
    return {key: value for key, value in items if key in PIP_OPTIONS}


def _pip_files(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("HOME", "/"))
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", _config(environ) / "pip/pip.conf"]
    return [*files, *map(Path, filter(None, [environ.get("PIP_CONFIG_FILE")]))]


def _uv_files(environ: Mapping[str, str]) -> list[Path]:
    return [folder / "uv" / "uv.toml" for folder in (Path("/etc"), _config(environ))]


def _config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config"))


def _is_usable(place: str) -> bool:
    """pip passes over folders that are not there, the installer would fail."""
    return "://" in place or Path(place).is_dir()
