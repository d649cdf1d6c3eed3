"""Pages that another process parses: they are those that this process would have parsed."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from common.index.client import IndexClient
from common.index.configuration import index_of
from common.index.parsing_process import IndexHelper
from common.index.release_metadata import MetadataRead
from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import ProjectPage
from tests.services.index import Index, status
from tests.services.index_client import LIMITS, page, settings_for
from tests.services.waiting import wait_until

T = TypeVar("T")
JSON = "application/vnd.pypi.simple.v1+json"


def helped(settings: Settings, question: Callable[[IndexClient, IndexHelper], Awaitable[T]]) -> T:
    """Ask the index by a client with a helper."""

    async def asked() -> T:
        with closing(IndexHelper()) as helper:
            index = index_of(settings, "own", {})
            async with IndexClient(settings, index, LIMITS, helper) as client:
                return await question(client, helper)

    return asyncio.run(asked())


def pages(settings: Settings, names: Iterable[str]) -> list[ProjectPage]:
    async def all_of(client: IndexClient, _helper: IndexHelper) -> list[ProjectPage]:
        return list(await asyncio.gather(*map(client.project, names)))

    return helped(settings, all_of)


@pytest.fixture
def parsed_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pages that this process itself parses from now on."""
    process, names = os.getpid(), list[str]()
    keep = IndexClient._keep

    def noting(self: IndexClient, name: str, *rest: object) -> ProjectPage:
        if os.getpid() == process:
            names.append(name)
        return keep(self, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(IndexClient, "_keep", noting)
    return names


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})


def add_large(index: Index, name: str) -> None:
    for number in range(120):
        index.add_file(name, f"{name}-1.{number}-py3-none-any.whl", b"", **{"yanked": number == 7})


@pytest.mark.usefixtures("two_processors")
def test_helper_process_parses_large_pages_like_the_main_process(
    index: Index, settings: Settings, tmp_path: Path, parsed_here: list[str]
) -> None:
    names = ["parrot", "cheese", "spam"]
    for name in names:
        add_large(index, name)
    there = pages(settings, names)
    assert not parsed_here
    for read in there:
        here = page(settings_for(index, tmp_path / "other"), read.name)
        assert (dict(read.listed), read.releases) == (dict(here.listed), here.releases)
        assert [read.files_of(it) for it in read.listed] == [
            here.files_of(it) for it in here.listed
        ]
        assert read.source.fingerprint == here.source.fingerprint
        assert not read.from_cache
    assert parsed_here == names


@pytest.mark.usefixtures("two_processors")
def test_page_is_parsed_without_the_helper_if_it_cannot_be_stored(
    index: Index, settings: Settings, parsed_here: list[str]
) -> None:
    text = b"{" + b" " * (1 << 16)
    index.answers["/simple/broken/"] = status(200, text, Content_Type=JSON)
    with pytest.raises(IndexProblem) as raised:
        pages(settings, ["broken"])
    assert raised.value.code is IndexFault.MALFORMED
    assert parsed_here == ["broken"]
    add_large(index, "parrot")
    settings.index_cache.mkdir(exist_ok=True)
    (settings.index_cache / "indexes").write_text("not a folder", encoding="utf-8")
    assert len(pages(settings, ["parrot"])[0].listed) == 120
    assert parsed_here == ["broken", "parrot"]


@pytest.mark.usefixtures("two_processors")
def test_index_pages_are_read_although_the_helper_process_dies(
    index: Index, settings: Settings, monkeypatch: pytest.MonkeyPatch, parsed_here: list[str]
) -> None:
    process, store = os.getpid(), IndexClient._store

    def dying(self: IndexClient, body: bytes, facts: dict[str, str]) -> bool:
        if os.getpid() != process and facts["name"] == "cheese":
            os._exit(1)
        return store(self, body, facts)

    monkeypatch.setattr(IndexClient, "_store", dying)
    for name in ("parrot", "cheese", "spam"):
        add_large(index, name)
    assert [len(it.listed) for it in pages(settings, ["parrot", "cheese", "spam"])] == [120] * 3
    assert "cheese" in parsed_here


@pytest.mark.usefixtures("two_processors")
def test_index_pages_are_read_although_no_helper_can_be_started(
    index: Index, settings: Settings, monkeypatch: pytest.MonkeyPatch, parsed_here: list[str]
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refused)
    add_large(index, "parrot")
    assert len(pages(settings, ["parrot"])[0].listed) == 120
    assert parsed_here == ["parrot"]


@pytest.mark.usefixtures("two_processors")
def test_helper_process_caches_metadata_in_the_background(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: cheese>=2\n")

    async def read(client: IndexClient, _helper: IndexHelper) -> MetadataRead:
        return await client.metadata((await client.project("parrot")).files[0])

    first = helped(settings, read)
    folder = settings.index_cache / "indexes"
    wait_until(lambda: list(folder.glob("*/metadata/*/*.metadata")), "it is stored")
    requests = len(index.seen)
    assert helped(settings, read) == first
    assert len(index.seen) == requests


def test_no_helper_process_is_started_on_a_single_processor(
    index: Index, settings: Settings, monkeypatch: pytest.MonkeyPatch, parsed_here: list[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0})
    add_large(index, "parrot")
    assert len(pages(settings, ["parrot"])[0].listed) == 120
    assert parsed_here == ["parrot"]


@pytest.mark.usefixtures("two_processors")
def test_many_large_pages_do_not_block_the_pipe_to_the_helper() -> None:
    """Answers wait while this process sends, so neither may block the other."""

    async def send_many() -> None:
        with closing(IndexHelper()) as helper:
            helper.start(lambda _body, _facts: True)
            answers = [helper.send(b"body", {}) for _ in range(5000)]
            assert all(await asyncio.gather(*[it for it in answers if it is not None]))
            further = helper.send(b"body", {})
            assert further is not None
            assert await further

    asyncio.run(send_many())
