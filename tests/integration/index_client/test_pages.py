"""The index client and pages of projects: what they say, and what is kept of them."""

from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime

from common.index.client import IndexClient
from common.settings import Settings
from model.errors import IndexFault
from model.packages.project_pages import ProjectPage
from tests.services.index import Index, status
from tests.services.index_client import ask, page, problem


def test_page_lists_files_by_version_with_every_attribute(index: Index, settings: Settings) -> None:
    digest = index.add_wheel("parrot", "1.0")
    index.add_source("parrot", "1.0")
    facts = {"yanked": "broken", "requires-python": ">=3.8", "upload-time": "2024-02-03T04:05:06Z"}
    index.add_file("parrot", "parrot-2!1.5+cu12-py3-none-any.whl", b"", **facts)
    found = page(settings, "Parrot")
    assert list(found.releases) == ["1.0", "2!1.5+cu12"]
    assert [it.kind for it in found.releases["1.0"]] == ["wheel", "sdist"]
    assert f"sha256:{found.files[0].sha256}" == digest
    file = found.files[2]
    assert (file.yanked, file.yanked_reason, file.requires_python) == (True, "broken", ">=3.8")
    assert file.uploaded_at == datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert file.as_document()["upload_time"] == "2024-02-03T04:05:06.000000Z"


def test_cached_page_is_used_while_fresh_and_then_revalidated(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")

    async def three(client: IndexClient) -> list[ProjectPage]:
        return [await client.project("parrot", age) for age in (0, 600, 0)]

    first, young, confirmed = ask(settings, three)
    assert len(index.seen) == 2
    assert "if-none-match" in index.seen[1][1]
    assert [it.from_cache for it in (first, young, confirmed)] == [False, True, True]
    assert first.as_of == young.as_of < confirmed.as_of
    assert first.files == young.files == confirmed.files


def test_cached_page_beyond_its_age_is_revalidated(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    page(settings)
    index.add_wheel("parrot", "1.1")
    kept = ask(settings, lambda client: client.project("parrot"))
    confirmed = ask(
        replace(settings, index_page_age_s=1e-9), lambda client: client.project("parrot")
    )
    assert list(kept.releases) == ["1.0"]
    assert list(confirmed.releases) == ["1.0", "1.1"]


def test_later_client_uses_the_cached_page_until_a_release_appears(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    before = page(settings)
    assert ask(settings, lambda client: client.project("parrot")).from_cache
    index.add_wheel("parrot", "1.1")
    after = page(settings)
    assert not after.from_cache
    assert list(after.releases) == ["1.0", "1.1"]
    assert before.digest != after.digest


def test_cached_page_is_revalidated_by_last_modified(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    moment = format_datetime(datetime.now(UTC), usegmt=True)
    kind, body = index.page("parrot")
    path = "/simple/parrot/"
    index.answers[path] = [status(200, body, Content_Type=kind, Last_Modified=moment), status(304)]
    page(settings)
    assert page(settings).from_cache
    assert index.seen[1][1]["if-modified-since"] == moment


def test_damaged_cache_entry_is_read_again(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    page(settings)
    for path in settings.home.rglob("*.page"):
        path.write_bytes(path.read_bytes()[:-5])
    assert not ask(settings, lambda client: client.project("parrot")).from_cache


def test_a_login_page_does_not_replace_the_cached_page(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    page(settings)
    index.answers["/simple/parrot/"] = [status(200, b"log in", Content_Type="text/html")]
    assert problem(settings).code is IndexFault.WRONG_CONTENT_TYPE
    assert page(settings).from_cache
