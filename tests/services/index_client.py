"""Questions to the index client, each asked by a new one of an index called ``own``."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from common.http.fetching import FetchLimits
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.settings import Settings
from model.errors import IndexProblem
from model.packages.project_pages import IndexFile, ProjectPage
from tests.services.index import PASSWORD, Index

LIMITS = FetchLimits(
    attempts=2, connect_s=30, silence_s=30, deadline_s=60, pause_s=0.01, page_bytes=1 << 20,
    metadata_bytes=64 << 10, archive_bytes=1 << 20,
)  # fmt: skip
#: For an index that does not answer. Another one may need longer on a busy machine.
IMPATIENT = replace(LIMITS, silence_s=0.3, deadline_s=0.8)

T = TypeVar("T")


def settings_for(index: Index, home: Path, hosts: str = "") -> Settings:
    return Settings.from_env(
        {
            "THOTH_HOME": str(home),
            "INDEX_CACHE": str(home / "cache"),
            "PACKAGE_INDEXES": f"own={index.url}",
            "PACKAGE_FILE_HOSTS": hosts,
        }
    )


def ask(
    settings: Settings,
    question: Callable[[IndexClient], Awaitable[T]],
    limits: FetchLimits = LIMITS,
) -> T:
    """Ask the index ``own`` by a new client."""

    async def asked() -> T:
        async with IndexClient(settings, index_of(settings, "own", {}), limits) as client:
            return await question(client)

    return asyncio.run(asked())


def page(settings: Settings, name: str = "parrot", limits: FetchLimits = LIMITS) -> ProjectPage:
    return ask(settings, lambda client: client.project(name, max_age_s=0), limits)


def problem(settings: Settings, name: str = "parrot", limits: FetchLimits = LIMITS) -> IndexProblem:
    with pytest.raises(IndexProblem) as raised:
        page(settings, name, limits)
    assert PASSWORD not in str(raised.value)
    return raised.value


def metadata_of(settings: Settings, file: IndexFile, limits: FetchLimits = LIMITS) -> Any:
    return ask(settings, lambda client: client.metadata(file), limits)


def only_file(settings: Settings) -> IndexFile:
    return page(settings).files[0]
