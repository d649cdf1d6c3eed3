"""Configuration of pip and uv on this machine, from files and overriding environment variables."""

import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Options of pip that concern indexes.
PIP_OPTIONS = ("index-url", "extra-index-url", "find-links", "cert", "no-index")


def pip_options(environ: Mapping[str, str]) -> dict[str, str]:
    """The :data:`PIP_OPTIONS` that pip's files or variables set.

    Unreadable files and missing folders of wheels are ignored.
    """
    options: dict[str, str] = {}
    for path in _pip_files(environ):
        options |= _pip_file(path)
    for key in PIP_OPTIONS:
        variable = f"PIP_{key.upper().replace('-', '_')}"
        options[key] = environ.get(variable, options.get(key, ""))
    usable = filter(_is_usable, options["find-links"].split())
    options["find-links"] = " ".join(usable)
    return {key: value for key, value in options.items() if value}


def has_uv_file(environ: Mapping[str, str]) -> bool:
    """Whether uv has a configuration file; if so, it takes precedence over pip's configuration."""
    return any(path.exists() for path in _uv_files(environ))


def uv_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """uv's configuration files as one table; keys of more specific files win."""
    options: dict[str, Any] = {}
    for path in [*_uv_files(environ), *map(Path, filter(None, [environ.get("UV_CONFIG_FILE")]))]:
        try:
            options |= tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
    return options


def uv_indexes(environ: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Each index's name (may be empty), URL and default flag, in descending precedence."""
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
    """Split ``name=URL``; a URL without a name may also contain an equals sign."""
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


def _is_usable(location: str) -> bool:
    """Whether a location is a URL or an existing folder; uv fails if a folder is missing."""
    return "://" in location or Path(location).is_dir()
