"""All settings, read from the environment once at start-up and passed down."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from platformdirs import user_cache_path, user_data_path

from model.errors import InvalidSettings

#: Scopes that ``ANONYMOUS_SCOPES`` can open to everybody; the others always need a token.
OPENABLE_SCOPES = frozenset({"read", "advise"})
#: Schemes of the object stores that are read and written through fsspec.
OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "az")
#: Dates further in the past cannot be represented.
_MOST_DAYS = 36_500.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an installation; ``docs/reference/settings.md`` describes them.

    ``database_url`` and ``graph_url`` are ``None`` for the embedded stores; ``package_indexes``
    has names and URLs, and ``webhooks``, ``webhook_secrets`` and ``notice_targets`` have names and
    what :mod:`loop.notice_targets` reads. ``index_namespaces`` has patterns of normalised package
    names, each with the only index that may have such packages.
    """

    home: Path
    index_cache: Path
    database_url: str | None
    graph_url: str | None
    graph_user: str
    graph_password: str | None
    graph_database: str
    graph_reader_user: str | None
    graph_reader_password: str | None
    document_store_url: str
    ingest_sources: tuple[str, ...]
    connect_timeout_s: float
    query_timeout_s: float
    query_row_limit: int
    query_byte_limit: int
    graph_memory_mb: int
    graph_rebuild: bool
    package_indexes: tuple[tuple[str, str], ...]
    package_file_hosts: tuple[str, ...]
    index_namespaces: tuple[tuple[str, str], ...]
    index_page_mb: int
    index_archive_mb: int
    index_time_s: float
    index_page_age_s: float
    advisories: str | None
    image_registry: str | None
    anonymous_scopes: tuple[str, ...]
    query_tokens: bool
    token_days: float | None
    queue_limit: int
    rate_limit: str | None
    rate_limit_storage: str
    body_limit_mb: int
    cors_origins: tuple[str, ...]
    fetch_missing: bool
    preload: bool
    outage_patience_s: float
    keep_requests_days: float | None
    keep_audit_days: float | None
    keep_events_days: float | None
    cron_refresh: str | None
    cron_nightly: str | None
    cron_advisories: str | None
    cron_loop: str | None
    loop_indicators: tuple[str, ...]
    loop_blocks: int
    loop_jobs: int
    loop_minutes: float
    loop_nights: int
    loop_backlog: int
    loop_runner: str
    loop_image: str | None
    loop_requests: bool
    loop_wait_s: float
    loop_busy_share: float
    nightly_verify_s: float
    export_folder: Path | None
    webhooks: tuple[tuple[str, str], ...] = field(repr=False)
    webhook_secrets: tuple[tuple[str, str], ...] = field(repr=False)
    webhook_events: str
    notice_targets: tuple[tuple[str, str], ...] = field(repr=False)
    log_format: str | None

    @property
    def embedded_database(self) -> bool:
        """Whether the embedded PostgreSQL is used."""
        return self.database_url is None

    @property
    def embedded_graph(self) -> bool:
        """Whether the embedded graph database is used."""
        return self.graph_url is None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; empty variables count as unset.

        :raises InvalidSettings: if a value is invalid
        """
        values = {k: v for k, v in (os.environ if environ is None else environ).items() if v}
        home = Path(values.get("THOTH_HOME") or user_data_path("thoth")).expanduser().absolute()
        return cls(
            home=home,
            index_cache=_folder(values, "INDEX_CACHE") or user_cache_path("thoth"),
            database_url=_url(values, "DATABASE_URL", "postgresql", "postgresql+psycopg2"),
            graph_url=_url(
                values, "GRAPH_URL", "bolt", "neo4j", "bolt+s", "neo4j+s", "bolt+ssc", "neo4j+ssc"
            ),
            graph_user=values.get("GRAPH_USER", "neo4j"),
            graph_password=values.get("GRAPH_PASSWORD"),
            graph_database=values.get("GRAPH_DATABASE", "neo4j"),
            graph_reader_user=values.get("GRAPH_READER_USER"),
            graph_reader_password=values.get("GRAPH_READER_PASSWORD"),
            document_store_url=_document_store(values, "DOCUMENT_STORE_URL")
            or (home / "documents").as_uri(),
            ingest_sources=tuple(values.get("INGEST_SOURCES", "").split()),
            connect_timeout_s=_number(values, "CONNECT_TIMEOUT_S", 5.0),
            query_timeout_s=_number(values, "QUERY_TIMEOUT_S", 30.0),
            query_row_limit=int(_number(values, "QUERY_ROW_LIMIT", 10_000)),
            query_byte_limit=int(_number(values, "QUERY_BYTE_LIMIT", 32 * 1024 * 1024)),
            graph_memory_mb=int(_number(values, "GRAPH_MEMORY_MB", 1024)),
            # The graph of another installation must not be emptied because of a wrong URL.
            graph_rebuild=_flag(values, "GRAPH_REBUILD", "0" if "GRAPH_URL" in values else "1"),
            package_indexes=_indexes(values, "PACKAGE_INDEXES"),
            package_file_hosts=tuple(values.get("PACKAGE_FILE_HOSTS", "").split()),
            index_namespaces=_namespaces(values, "INDEX_NAMESPACES"),
            index_page_mb=max(1, int(_number(values, "INDEX_PAGE_MB", 64))),
            index_archive_mb=max(1, int(_number(values, "INDEX_ARCHIVE_MB", 64))),
            index_time_s=_number(values, "INDEX_TIME_S", 180.0),
            index_page_age_s=_number(values, "INDEX_PAGE_AGE_S", 600.0),
            advisories=values.get("ADVISORIES"),
            image_registry=values.get("IMAGE_REGISTRY"),
            anonymous_scopes=_scopes(values, "ANONYMOUS_SCOPES"),
            query_tokens=_flag(values, "QUERY_TOKENS"),
            token_days=_days(values, "TOKEN_DAYS", 365.0),
            queue_limit=int(_number(values, "QUEUE_LIMIT", 1000)),
            rate_limit=_rate(values, "RATE_LIMIT"),
            rate_limit_storage=_limit_storage(values, "RATE_LIMIT_STORAGE") or "memory://",
            body_limit_mb=max(1, int(_number(values, "BODY_LIMIT_MB", 64))),
            cors_origins=_origins(values, "CORS_ORIGINS"),
            fetch_missing=_flag(values, "FETCH_MISSING", default="1"),
            preload=_flag(values, "PRELOAD", default="1"),
            outage_patience_s=_number(values, "OUTAGE_PATIENCE_S", 900.0),
            keep_requests_days=_days(values, "KEEP_REQUESTS_DAYS", 90.0),
            keep_audit_days=_days(values, "KEEP_AUDIT_DAYS", 365.0),
            keep_events_days=_days(values, "KEEP_EVENTS_DAYS", 400.0),
            cron_refresh=_schedule(values, "CRON_REFRESH"),
            cron_nightly=_schedule(values, "CRON_NIGHTLY"),
            cron_advisories=_schedule(values, "CRON_ADVISORIES"),
            cron_loop=_schedule(values, "CRON_LOOP"),
            loop_indicators=tuple(values.get("LOOP_INDICATORS", "matmul").split()),
            loop_blocks=max(5, int(_number(values, "LOOP_BLOCKS", 12))),
            loop_jobs=int(_number(values, "LOOP_JOBS", 400)),
            loop_minutes=_number(values, "LOOP_MINUTES", 240.0),
            loop_nights=max(1, int(_number(values, "LOOP_NIGHTS", 5))),
            loop_backlog=max(1, int(_number(values, "LOOP_BACKLOG", 200))),
            loop_runner=_choice(values, "LOOP_RUNNER", "local", "ray", "container", "kubernetes")
            or "local",
            loop_image=_loop_image(values, "LOOP_IMAGE"),
            loop_requests=_flag(values, "LOOP_REQUESTS", default="1"),
            loop_wait_s=_number(values, "LOOP_WAIT_S", 1800.0),
            loop_busy_share=_number(values, "LOOP_BUSY_SHARE", 0.2),
            nightly_verify_s=_number(values, "NIGHTLY_VERIFY_S", 600.0),
            export_folder=_folder(values, "EXPORT_FOLDER"),
            webhooks=_named(values, "WEBHOOKS", "url"),
            webhook_secrets=_named(values, "WEBHOOK_SECRETS", "secret"),
            webhook_events=_choice(values, "WEBHOOK_EVENTS", "settled", "all") or "settled",
            notice_targets=_named(values, "NOTICE_TARGETS", "address"),
            log_format=_choice(values, "LOG_FORMAT", "text", "json", "brief"),
        )


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


def _document_store(values: Mapping[str, str], name: str) -> str | None:
    """The URL of a bucket or a folder, or the path of a folder."""
    url = values.get(name)
    if url is None:
        return None
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


def _choice(values: Mapping[str, str], name: str, *choices: str) -> str | None:
    value = values.get(name)
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


def _flag(values: Mapping[str, str], name: str, default: str = "0") -> bool:
    text = values.get(name, default)
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


def _limit_storage(values: Mapping[str, str], name: str) -> str | None:
    """A URL of a storage that the library ``limits`` has."""
    storage = values.get(name)
    if storage is None:
        return None
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
    """Names and values, written ``name=VALUE name=VALUE``.

    :param kind: of the values, for messages
    """
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
