"""All settings, read from the environment once at start-up and passed down."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from platformdirs import user_cache_path, user_data_path

from model.errors import InvalidSettings

#: Scopes that ``ANONYMOUS_SCOPES`` can open to everybody; the others always need a token.
OPENABLE_SCOPES = frozenset({"read", "advise"})
#: Schemes of the object stores that are read and written through fsspec.
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "az")
#: Dates further in the past cannot be represented.
_MOST_DAYS = 36_500.0
#: Names with their values.
Pairs = tuple[tuple[str, str], ...]


def variable_name(field_name: str) -> str:
    """The environment variable of a setting."""
    return "THOTH_HOME" if field_name == "home" else field_name.upper()


def _home(values: Mapping[str, str], name: str) -> Path:
    return Path(values.get(name) or user_data_path("thoth")).expanduser().absolute()


def _cache_folder(values: Mapping[str, str], name: str) -> Path:
    return _folder(values, name) or user_cache_path("thoth")


def _text(values: Mapping[str, str], name: str, default: str | None = None) -> str | None:
    return values.get(name, default)


def _parts(values: Mapping[str, str], name: str, default: str = "") -> tuple[str, ...]:
    return tuple(values.get(name, default).split())


def _url(values: Mapping[str, str], name: str, *schemes: str) -> str | None:
    url = values.get(name)
    if url is None:
        return None
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        raise InvalidSettings(f"{name}: not a URL that can be read") from None
    if scheme not in schemes:
        # The value may hold a password, so only the scheme is repeated.
        raise InvalidSettings(f"{name}: scheme {scheme!r} is not one of {', '.join(schemes)}")
    return url


def _document_store(values: Mapping[str, str], name: str) -> str:
    """The URL of a bucket or a folder, or the path of a folder."""
    url = values.get(name)
    if url is None:
        return (_home(values, "THOTH_HOME") / "documents").as_uri()
    # fsspec takes all that has no "://" for a path, such as s3:/bucket.
    is_path = ":" not in url.partition("/")[0] or url.startswith("file:/")
    if not (is_path or url.startswith(tuple(f"{scheme}://" for scheme in OBJECT_STORES))):
        # The value may hold a password, so it is not repeated.
        raise InvalidSettings(
            f"{name}: neither a path nor a URL with one of the schemes file,"
            f" {', '.join(OBJECT_STORES)}"
        )
    return url


def _loop_image(values: Mapping[str, str], name: str) -> str | None:
    image = values.get(name)
    runner = values.get("LOOP_RUNNER")
    if image is None and runner in ("container", "kubernetes"):
        raise InvalidSettings(f"{name}: LOOP_RUNNER={runner} needs the image to start from")
    return image


def _folder(values: Mapping[str, str], name: str) -> Path | None:
    return Path(values[name]).expanduser().absolute() if name in values else None


def _choice(
    values: Mapping[str, str], name: str, choices: tuple[str, ...], default: str | None = None
) -> str | None:
    value = values.get(name, default)
    if value is not None and value not in choices:
        raise InvalidSettings(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return value


def _number(values: Mapping[str, str], name: str, default: float) -> float:
    text = values.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        raise InvalidSettings(f"{name}: {text!r} is not a number") from None
    if not 0 < number < 1e9:
        raise InvalidSettings(f"{name}: {text!r} is not above 0 and below 1e9")
    return number


def _days(values: Mapping[str, str], name: str, default: float) -> float | None:
    """A number of days; ``none`` gives ``None``, which means forever."""
    if values.get(name) == "none":
        return None
    days = _number(values, name, default)
    if days > _MOST_DAYS:
        raise InvalidSettings(f"{name}: {values[name]!r} is more than {_MOST_DAYS:g}: write none")
    return days


def _integer(values: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    return max(least, int(_number(values, name, default)))


def _rebuild(values: Mapping[str, str], name: str) -> bool:
    # The graph of another installation must not be emptied because of a wrong URL.
    return _flag(values, name, "GRAPH_URL" not in values)


def _flag(values: Mapping[str, str], name: str, default: bool = False) -> bool:
    text = values.get(name, "01"[default])
    if text not in {"0", "1"}:
        raise InvalidSettings(f"{name}: {text!r} is neither 0 nor 1")
    return text == "1"


def _schedule(values: Mapping[str, str], name: str) -> str | None:
    """A cron expression of five fields, in UTC."""
    text = values.get(name)
    if text is None:
        return None
    from croniter import croniter

    if len(text.split()) != 5 or not croniter.is_valid(text):
        raise InvalidSettings(f"{name}: {text!r} is not a schedule such as '30 3 * * *'")
    return text


def _rate(values: Mapping[str, str], name: str) -> str | None:
    """A rate such as ``600/minute``; ``none`` gives ``None``."""
    text = values.get(name)
    if text is None:
        return "600/minute"
    if text == "none":
        return None
    from limits import parse_many

    try:
        parse_many(text)
    except ValueError:
        raise InvalidSettings(f"{name}: {text!r} is neither none nor like 600/minute") from None
    return text


def _limit_storage(values: Mapping[str, str], name: str) -> str:
    """A URL of a storage that the library ``limits`` has."""
    storage = values.get(name)
    if storage is None:
        return "memory://"
    from limits import storage as kinds

    known = sorted(
        scheme
        for kind in (
            kinds.MemoryStorage, kinds.MemcachedStorage, kinds.MongoDBStorage,
            kinds.RedisStorage, kinds.RedisClusterStorage, kinds.RedisSentinelStorage,
        )
        for scheme in kind.STORAGE_SCHEME or ()
    )  # fmt: skip
    scheme = storage.partition("://")[0] if "://" in storage else ""
    if scheme not in known:
        # The value may hold a password, so only the scheme is repeated.
        raise InvalidSettings(f"{name}: scheme {scheme!r} is not one of {', '.join(known)}")
    return storage


def _origins(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Origins as browsers send them: scheme, host and port."""
    origins = tuple(values.get(name, "").split())
    for origin in origins:
        # Patterns are refused: anyone could register a matching host name.
        if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+", origin):
            raise InvalidSettings(
                f"{name}: {origin!r} is not written https://host or https://host:port"
            )
    return origins


def _scopes(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Scopes that need no token; ``none`` for no scope."""
    scopes = values.get(name, "read advise").split()
    if scopes == ["none"]:
        return ()
    wrong = sorted(set(scopes) - OPENABLE_SCOPES)
    if wrong:
        raise InvalidSettings(f"{name}: {wrong[0]!r} always needs a token: read, advise or none")
    return tuple(scopes)


def _pairs(values: Mapping[str, str], name: str, kind: str) -> list[tuple[str, str]]:
    """Names and values, written ``name=VALUE name=VALUE``."""
    pairs = []
    for place, item in enumerate(values.get(name, "").split(), start=1):
        key, _, value = item.partition("=")
        # The value may hold a password, so the item is named by its place.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key) or not value:
            raise InvalidSettings(f"{name}: item {place} is not written name={kind.upper()}")
        pairs.append((key, value))
    return pairs


def _named(values: Mapping[str, str], name: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Values with names of their own, sorted by name."""
    pairs = sorted(_pairs(values, name, kind))
    for (key, _), (following, _) in pairwise(pairs):
        if key == following:
            raise InvalidSettings(f"{name}: {key} is named twice")
    return tuple(pairs)


def _indexes(values: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    """Names and URLs, written ``name=URL name=URL``; the last URL of a name counts."""
    indexes = dict(_pairs(values, name, "url"))
    for key, url in indexes.items():
        if not re.match(r"(?:https?|file)://", url):
            raise InvalidSettings(f"{name}: {key}: not an http, https or file URL")
    return tuple(sorted(indexes.items()))


def _namespaces(values: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    """Patterns of package names with their index, written ``index=PATTERN,PATTERN``."""
    owners: dict[str, str] = {}
    for index, patterns in _pairs(values, name, "patterns"):
        for pattern in patterns.split(","):
            if not re.fullmatch(r"[A-Za-z0-9*][A-Za-z0-9._*-]*", pattern):
                raise InvalidSettings(
                    f"{name}: {index}: {pattern!r} is not a package name, in which * stands for any"
                    " characters"
                )
            normal = re.sub(r"[-_.]+", "-", pattern).lower()
            if owners.setdefault(normal, index) != index:
                raise InvalidSettings(
                    f"{name}: {pattern} has two indexes: {owners[normal]}, {index}"
                )
    return tuple(sorted(owners.items()))


def variable(read: Callable[..., Any], *arguments: Any, repr: bool = True) -> Any:
    """A setting that ``read(values, name, *arguments)`` reads from its variable.

    :param repr: ``False`` if the value may hold a secret
    """
    return field(repr=repr, metadata={"read": lambda values, name: read(values, name, *arguments)})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an installation; ``docs/reference/settings.md`` describes them.

    ``database_url`` and ``graph_url`` are ``None`` for the embedded stores; ``package_indexes``
    has names and URLs, and ``webhooks``, ``webhook_secrets`` and ``notice_targets`` have names and
    what :mod:`loop.notices` reads. ``index_namespaces`` has patterns of normalised package
    names, each with the only index that may have such packages.
    """

    home: Path = variable(_home)
    index_cache: Path = variable(_cache_folder)
    database_url: str | None = variable(_url, "postgresql", "postgresql+psycopg2", repr=False)
    graph_url: str | None = variable(
        _url, "bolt", "neo4j", "bolt+s", "neo4j+s", "bolt+ssc", "neo4j+ssc", repr=False
    )
    graph_user: str = variable(_text, "neo4j")
    graph_password: str | None = variable(_text, repr=False)
    graph_database: str = variable(_text, "neo4j")
    graph_reader_user: str | None = variable(_text)
    graph_reader_password: str | None = variable(_text, repr=False)
    document_store_url: str = variable(_document_store, repr=False)
    ingest_sources: tuple[str, ...] = variable(_parts, repr=False)
    connect_timeout_s: float = variable(_number, 5.0)
    query_timeout_s: float = variable(_number, 30.0)
    query_row_limit: int = variable(_integer, 10_000)
    query_byte_limit: int = variable(_integer, 32 * 1024 * 1024)
    graph_memory_mb: int = variable(_integer, 1024)
    graph_rebuild: bool = variable(_rebuild)
    package_indexes: Pairs = variable(_indexes, repr=False)
    package_file_hosts: tuple[str, ...] = variable(_parts)
    index_namespaces: Pairs = variable(_namespaces)
    index_page_mb: int = variable(_integer, 64, 1)
    index_archive_mb: int = variable(_integer, 64, 1)
    index_time_s: float = variable(_number, 180.0)
    index_page_age_s: float = variable(_number, 600.0)
    advisories: str | None = variable(_text)
    image_registry: str | None = variable(_text)
    anonymous_scopes: tuple[str, ...] = variable(_scopes)
    query_tokens: bool = variable(_flag)
    token_days: float | None = variable(_days, 365.0)
    queue_limit: int = variable(_integer, 1000)
    rate_limit: str | None = variable(_rate)
    rate_limit_storage: str = variable(_limit_storage, repr=False)
    body_limit_mb: int = variable(_integer, 64, 1)
    cors_origins: tuple[str, ...] = variable(_origins)
    fetch_missing: bool = variable(_flag, True)
    preload: bool = variable(_flag, True)
    outage_patience_s: float = variable(_number, 900.0)
    keep_requests_days: float | None = variable(_days, 90.0)
    keep_audit_days: float | None = variable(_days, 365.0)
    keep_events_days: float | None = variable(_days, 400.0)
    cron_refresh: str | None = variable(_schedule)
    cron_nightly: str | None = variable(_schedule)
    cron_advisories: str | None = variable(_schedule)
    cron_loop: str | None = variable(_schedule)
    loop_indicators: tuple[str, ...] = variable(_parts, "matmul")
    loop_blocks: int = variable(_integer, 12, 5)
    loop_jobs: int = variable(_integer, 400)
    loop_minutes: float = variable(_number, 240.0)
    loop_nights: int = variable(_integer, 5, 1)
    loop_backlog: int = variable(_integer, 200, 1)
    loop_runner: str = variable(_choice, ("local", "ray", "container", "kubernetes"), "local")
    loop_image: str | None = variable(_loop_image)
    loop_requests: bool = variable(_flag, True)
    loop_wait_s: float = variable(_number, 1800.0)
    loop_busy_share: float = variable(_number, 0.2)
    nightly_verify_s: float = variable(_number, 600.0)
    export_folder: Path | None = variable(_folder)
    packs_policy: Path | None = variable(_folder)
    pack_addresses: tuple[str, ...] = variable(_parts)
    webhooks: Pairs = variable(_named, "url", repr=False)
    webhook_secrets: Pairs = variable(_named, "secret", repr=False)
    webhook_events: str = variable(_choice, ("settled", "all"), "settled")
    notice_targets: Pairs = variable(_named, "address", repr=False)
    log_format: str | None = variable(_choice, ("text", "json", "brief"))

    @property
    def embedded_database(self) -> bool:
        """Whether the embedded PostgreSQL is used."""
        return self.database_url is None

    @property
    def embedded_graph(self) -> bool:
        """Whether the embedded graph database is used."""
        return self.graph_url is None

    @property
    def hung_store_s(self) -> float:
        """Seconds without an answer after which a store counts as hung: two limits of a query."""
        return 2 * self.query_timeout_s

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; empty variables count as unset.

        :raises InvalidSettings: if a value is invalid
        """
        values = {k: v for k, v in (os.environ if environ is None else environ).items() if v}
        return cls(
            **{it.name: it.metadata["read"](values, variable_name(it.name)) for it in fields(cls)}
        )


#: Variables of the settings that may hold a secret, such as a password in a URL.
SECRET_VARIABLES = frozenset(variable_name(it.name) for it in fields(Settings) if not it.repr)
