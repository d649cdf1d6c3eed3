"""The index client against a real server that is at times slow, broken or hostile."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import socket
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeVar

import pytest

from common.errors import IndexFault, IndexProblem
from common.indexes.client import IndexClient, Limits
from common.indexes.configured import index_of
from common.indexes.core_metadata import parse_core_metadata
from common.indexes.pages import IndexFile, ProjectPage
from common.settings import Settings
from tests.services.index import JSON, PASSWORD, Index, package_index, raw, status

LIMITS = Limits(
    attempts=2, connect_s=0.5, silence_s=0.3, deadline_s=0.8, pause_s=0.01, page_bytes=1 << 20,
    metadata_bytes=64 << 10, archive_bytes=1 << 20,
)  # fmt: skip
T = TypeVar("T")


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True, ranges=True, validators=True) as served:
        yield served


@pytest.fixture
def settings(tmp_path: Path, index: Index) -> Settings:
    return settings_for(index, tmp_path)


def settings_for(index: Index, home: Path, hosts: str = "") -> Settings:
    return Settings.from_env(
        {
            "THOTH_HOME": str(home),
            "PACKAGE_INDEXES": f"own={index.url}",
            "PACKAGE_FILE_HOSTS": hosts,
        }
    )


def ask(
    settings: Settings, question: Callable[[IndexClient], Awaitable[T]], limits: Limits = LIMITS
) -> T:
    """Ask the index ``own`` by a new client."""

    async def asked() -> T:
        async with IndexClient(settings, index_of(settings, "own", {}), limits) as client:
            return await question(client)

    return asyncio.run(asked())


def page(settings: Settings, name: str = "parrot", limits: Limits = LIMITS) -> ProjectPage:
    return ask(settings, lambda client: client.project(name, max_age_s=0), limits)


def problem(settings: Settings, name: str = "parrot", limits: Limits = LIMITS) -> IndexProblem:
    with pytest.raises(IndexProblem) as raised:
        page(settings, name, limits)
    assert PASSWORD not in str(raised.value)
    return raised.value


def metadata_of(settings: Settings, file: IndexFile, limits: Limits = LIMITS) -> Any:
    return ask(settings, lambda client: client.metadata(file), limits)


def only_file(settings: Settings) -> IndexFile:
    return page(settings).files[0]


# Pages


def test_a_page_names_files_by_version_with_all_that_is_said_of_them(
    index: Index, settings: Settings
) -> None:
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


def test_html_says_the_same(tmp_path: Path) -> None:
    with package_index(protected=False) as index:
        index.add_wheel("parrot", "1.0")
        assert list(page(settings_for(index, tmp_path)).releases) == ["1.0"]


def test_a_young_page_is_not_asked_for_and_an_old_one_only_confirmed(
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


def test_the_cache_outlives_the_client_and_a_new_release_replaces_it(
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


def test_last_modified_confirms_too(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    moment = format_datetime(datetime.now(UTC), usegmt=True)
    kind, body = index.page("parrot")
    path = "/simple/parrot/"
    index.answers[path] = [status(200, body, Content_Type=kind, Last_Modified=moment), status(304)]
    page(settings)
    assert page(settings).from_cache
    assert index.seen[1][1]["if-modified-since"] == moment


def test_a_broken_cache_is_no_cache(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    page(settings)
    for path in settings.home.rglob("*.zst"):
        path.write_bytes(path.read_bytes()[:-5])
    assert not ask(settings, lambda client: client.project("parrot")).from_cache


def test_a_page_without_files_is_known_by_what_it_says_of_itself(
    index: Index, settings: Settings
) -> None:
    body = b'<meta name="pypi:repository-version" content="1.0"><title>Links for parrot</title>'
    index.answers["/simple/parrot/"] = status(200, body, Content_Type="text/html")
    assert page(settings).files == ()


def test_a_page_for_logging_in_does_not_replace_what_is_kept(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    page(settings)
    index.answers["/simple/parrot/"] = [status(200, b"log in", Content_Type="text/html")]
    assert problem(settings).code is IndexFault.WRONG_CONTENT_TYPE
    assert page(settings).from_cache


@pytest.mark.parametrize("sign", ["@", "\\u0040"])
def test_a_page_that_names_users_is_not_kept_and_its_files_can_be_fetched(
    index: Index, settings: Settings, sign: str
) -> None:
    index.add_wheel("parrot", "1.0")
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"http://me:SECRET{sign}127.0.0.1:{index.port}/files/parrot/{name}"
    _, body = index.page("parrot")
    body = body.replace(b"\\\\u0040", b"\\u0040")
    index.answers["/simple/parrot/"] = status(200, body, Content_Type=JSON, ETag='"1"')
    assert metadata_of(settings, only_file(settings)).source == "wheel-range"
    expected = "Basic " + base64.b64encode(b"me:SECRET").decode()
    assert index.seen[-1][1]["authorization"] == expected
    assert not list((settings.home / "cache").rglob("pages/*"))


def test_pages_with_tokens_and_metadata_are_kept_for_the_owner_only(
    index: Index, settings: Settings
) -> None:
    secret = "Requires-Dist: seed @ https://me:SECRET@h.example/seed.whl?sig=SECRET\n"
    index.add_wheel("parrot", "1.0", metadata=secret)
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"/files/parrot/{name}"
    (settings.home / "cache").mkdir(mode=0o755)
    read = metadata_of(settings, only_file(settings))
    assert "SECRET" in read.text
    again = metadata_of(settings, only_file(settings))
    assert "seed @ https://h.example/seed.whl\n" in again.text
    places = [settings.home / "cache", *(settings.home / "cache").rglob("*")]
    assert len(places) >= 7
    assert not [it for it in places if it.stat().st_mode & 0o077]


@pytest.mark.parametrize("host", ["0177.0.0.1", "①②⑦.0.0.1", "u:p/w@127.0.0.1", "a..b"])
def test_an_address_that_is_none_is_refused_and_the_file_is_not_called_broken(
    index: Index, settings: Settings, host: str
) -> None:
    index.add_wheel("parrot", "1.0")
    name = next(iter(index.files["parrot"]))
    index.facts[name]["url"] = f"http://{host}:9/{name}"
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code in (IndexFault.ADDRESS_REFUSED, IndexFault.UNREACHABLE)
    assert "p/w" not in str(refused.value)


def test_ten_thousand_versions_are_read_in_a_moment(index: Index, settings: Settings) -> None:
    for number in range(10_000):
        index.add_file("parrot", f"parrot-1.{number}-py3-none-any.whl", b"")
    started = time.monotonic()
    found = page(settings, limits=replace(LIMITS, page_bytes=16 << 20, deadline_s=20, silence_s=20))
    assert len(found.releases) == 10_000
    assert time.monotonic() - started < 5


def test_credentials_go_to_the_index_only(tmp_path: Path) -> None:
    with package_index(json=True) as index, package_index(protected=False) as other:
        index.add_wheel("parrot", "1.0")
        other.add_wheel("parrot", "1.1")
        settings = settings_for(index, tmp_path, hosts="127.0.0.1")
        assert page(settings).files[0].version == "1.0"
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        index.answers["/simple/parrot/"] = status(302, Location=elsewhere)
        assert page(settings).files[0].version == "1.1"
        assert "authorization" in index.seen[-1][1]
        assert "authorization" not in other.seen[-1][1]
        index.answers.clear()
        wrong = index.url.replace(PASSWORD, "wrong")
        refused = problem(replace(settings, package_indexes=(("own", wrong),)))
    assert (refused.code, refused.status) == (IndexFault.UNAUTHORIZED, 401)


def test_a_keyring_is_asked_once_the_index_refuses(tmp_path: Path) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend
    from keyring.credentials import SimpleCredential

    class Ring(KeyringBackend):  # type: ignore[misc]
        priority = 1

        def get_credential(self, service: str, username: str | None) -> SimpleCredential:
            return SimpleCredential("reader", PASSWORD)

        def get_password(self, service: str, username: str) -> str:
            return PASSWORD

        def set_password(self, service: str, username: str, password: str) -> None:
            raise AssertionError("nothing is kept")

    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    try:
        with package_index(json=True) as index:
            index.add_wheel("parrot", "1.0")
            bare = index.url.replace(f"reader:{PASSWORD}@", "")
            settings = replace(settings_for(index, tmp_path), package_indexes=(("own", bare),))
            assert page(settings).files
            assert len(index.seen) == 2
    finally:
        keyring.set_keyring(before)


# What goes wrong with pages


def test_a_project_that_is_not_there(index: Index, settings: Settings) -> None:
    assert problem(settings).code is IndexFault.NOT_FOUND
    assert problem(settings, "../../etc").code is IndexFault.NOT_FOUND
    assert len(index.seen) == 1


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (IndexFault.WRONG_CONTENT_TYPE, b"<html>", "image/png"),
        (IndexFault.MALFORMED, b"<html>please log in</html>", JSON),
        (IndexFault.WRONG_CONTENT_TYPE, b"", "text/html"),
        (IndexFault.WRONG_CONTENT_TYPE, b'<h1>log in</h1><a href="/in">log in</a>', "text/html"),
        (IndexFault.MALFORMED, b'{"meta": {"api-version": "1.0"}, "files": [', JSON),
        (IndexFault.MALFORMED, b'{"files": []}', JSON),
        (IndexFault.MALFORMED, b"[" * 100_000, JSON),
        (IndexFault.UNSUPPORTED_VERSION, b'{"meta": {"api-version": "2.0"}, "files": []}', JSON),
        (
            IndexFault.UNSUPPORTED_VERSION,
            b'<meta name="pypi:repository-version" content="2.0"><a href="x">x</a>',
            "text/html",
        ),
    ],
)
def test_a_page_that_is_none(
    index: Index, settings: Settings, code: IndexFault, body: bytes, kind: str
) -> None:
    index.answers["/simple/parrot/"] = status(200, body, Content_Type=kind)
    refused = problem(settings)
    assert (refused.code, refused.retryable) == (code, False)
    assert len(index.seen) == 1


def silent(handler: BaseHTTPRequestHandler) -> None:
    handler.served.closing.wait(5)  # type: ignore[attr-defined]


def half_open(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    silent(handler)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while not handler.served.closing.wait(0.05):  # type: ignore[attr-defined]
        handler.wfile.write(b" ")


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (IndexFault.TIMEOUT, silent),
        (IndexFault.TIMEOUT, half_open),
        (IndexFault.TIMEOUT, dripping),
        (IndexFault.TRUNCATED, raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")),
        (
            IndexFault.TRUNCATED,
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        ),
        (IndexFault.TRUNCATED, raw(b"")),
        (IndexFault.TRUNCATED, status(200, gzip.compress(b"{}")[:-6], Content_Encoding="gzip")),
        (
            IndexFault.TRUNCATED,
            raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html><a href='"),
        ),
        (IndexFault.HTTP_STATUS, status(503)),
    ],
)
def test_what_may_pass_is_reported_as_such(
    index: Index, settings: Settings, code: IndexFault, answer: Any
) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = answer
    started = time.monotonic()
    refused = problem(settings, limits=replace(LIMITS, attempts=1))
    assert time.monotonic() - started < 2
    assert (refused.code, refused.retryable) == (code, True)


@pytest.mark.parametrize("answer", [silent, half_open, raw(b""), status(503), status(429)])
def test_what_passes_is_not_seen(index: Index, settings: Settings, answer: Any) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = [answer]
    assert page(settings).files
    assert len(index.seen) == 2


def test_a_cache_that_cannot_be_written_costs_no_answer(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    (settings.home / "cache").touch()
    assert page(settings).files


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (IndexFault.MALFORMED, raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        (IndexFault.MALFORMED, status(200, b"{}", Content_Encoding="br")),
        (IndexFault.MALFORMED, status(200, b"not packed at all", Content_Encoding="gzip")),
        (IndexFault.TOO_LARGE, status(200, b" ", Content_Length=str(1 << 40))),
        (IndexFault.TOO_LARGE, raw(b"HTTP/1.0 200 OK\r\n\r\n" + b" " * (2 << 20))),
        (
            IndexFault.TOO_LARGE,
            status(200, gzip.compress(bytes(200 << 20), 1), Content_Encoding="gzip"),
        ),
        (IndexFault.HTTP_STATUS, status(418)),
        (IndexFault.REDIRECT_REFUSED, status(302, Location="file:///etc/passwd")),
        (IndexFault.TOO_MANY_REDIRECTS, status(302, Location="/simple/parrot/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://10.0.0.1/simple/parrot/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://169.254.169.254/latest/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://[::1]:8080/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://2130706433:1/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://localhost:1/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://[64:ff9b:1::a00:1]/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://xn--zz/")),
        (IndexFault.MALFORMED, raw(b"HTTP/1.1 200 OK\r\nx" * 3000 + b"\r\n\r\n")),
    ],
)
def test_what_will_not_pass_is_asked_once(
    index: Index, settings: Settings, code: IndexFault, answer: Any
) -> None:
    index.answers["/simple/parrot/"] = answer
    refused = problem(settings, limits=replace(LIMITS, archive_bytes=1 << 20))
    assert (refused.code, refused.retryable) == (code, False)
    assert len(str(refused)) < 400


def test_cookies_go_nowhere(index: Index, settings: Settings, tmp_path: Path) -> None:
    with package_index(protected=False, json=True) as other:
        for served in (index, other):
            served.add_wheel("parrot", "1.0")
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        cookie = "word=hidden; Path=/; Max-Age=9999"
        sent_on = status(302, Location=elsewhere, Set_Cookie=cookie)
        index.answers["/simple/parrot/"] = [sent_on, sent_on]
        named = settings_for(index, tmp_path, hosts="127.0.0.1")

        async def twice(client: IndexClient) -> None:
            for _ in range(2):
                await client.project("parrot", max_age_s=0)

        ask(named, twice)
        seen = [*index.seen, *other.seen]
        assert len(seen) == 4
        assert not any("cookie" in headers for _, headers in seen)


def test_what_confirms_a_page_and_cannot_be_sent_back_is_not(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    index.validators = False
    kind, body = index.page("parrot")
    answer = status(200, body, Content_Type=kind, ETag='"\xe9"', Last_Modified="\xe9")
    index.answers["/simple/parrot/"] = answer
    assert page(settings).files == page(settings).files
    assert len(index.seen) == 2


def test_another_port_of_the_indexs_own_address_is_private(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    with package_index(protected=False) as other:
        other.add_wheel("parrot", "1.0")
        elsewhere = f"http://127.0.0.1:{other.port}/simple/parrot/"
        index.answers["/simple/parrot/"] = status(302, Location=elsewhere)
        assert problem(settings).code is IndexFault.ADDRESS_REFUSED
        assert other.seen == []
        named = settings_for(index, tmp_path, hosts="127.0.0.1")
        assert page(named).files


def test_another_name_of_the_indexs_own_address_and_port_is_allowed(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    elsewhere = f"http://localhost:{index.port}/simple/parrot/"
    index.answers["/simple/parrot/"] = [status(302, Location=elsewhere)]
    assert page(settings).files


def test_an_index_that_asks_for_patience_gets_it(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = [status(429, Retry_After="1")]
    started = time.monotonic()
    assert page(settings).files
    assert time.monotonic() - started >= 1
    index.answers["/simple/parrot/"] = status(429, Retry_After="3600")
    refused = problem(settings)
    assert (refused.code, refused.status, refused.retry_after_s) == ("http_status", 429, 3600)
    assert time.monotonic() - started < 3


def test_an_index_that_is_not_there(tmp_path: Path, index: Index) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        settings = replace(settings_for(index, tmp_path), package_indexes=(("own", url),))
        assert problem(settings).code is IndexFault.UNREACHABLE


def test_what_fails_in_tls_is_not_tried_again(tmp_path: Path, index: Index) -> None:
    url = f"https://127.0.0.1:{index.port}/simple"
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", url),))
    refused = problem(settings)
    assert (refused.code, refused.retryable) == (IndexFault.UNREACHABLE, False)


def test_a_proxy_of_the_environment_is_used(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_wheel("parrot", "1.0")
    kind, body = index.page("parrot")
    url = "http://index.example/simple"
    index.answers[f"{url}/parrot/"] = status(200, body, Content_Type=kind)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{index.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", url),))
    assert page(settings).files
    index.answers[f"{url}/parrot/"] = status(302, Location="http://10.0.0.1/")
    assert problem(settings).code is IndexFault.ADDRESS_REFUSED


# Metadata


def test_a_metadata_file_is_preferred(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.offer_metadata("parrot-1.0-py3-none-any.whl", b"Name: parrot\n")
    read = metadata_of(settings, only_file(settings))
    assert (read.text, read.source, read.static) == ("Name: parrot\n", "metadata-file", True)
    assert index.paths[1:] == ["/files/parrot/parrot-1.0-py3-none-any.whl.metadata"]


def test_another_metadata_file_than_promised_is_refused(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.offer_metadata("parrot-1.0-py3-none-any.whl", b"Name: parrot\n")
    index.beside["parrot-1.0-py3-none-any.whl"] = b"Name: crow\n"
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code is IndexFault.HASH_MISMATCH


def test_a_metadata_file_that_is_not_there_is_read_from_the_wheel(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    index.facts["parrot-1.0-py3-none-any.whl"]["core-metadata"] = True
    read = metadata_of(settings, only_file(settings))
    assert parse_core_metadata(read.text).requires_dist == ("seed",)
    assert read.source == "wheel-range"


def test_the_end_of_a_wheel_is_enough_and_is_read_once(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n", padding=400_000)
    file = only_file(settings)

    async def twice(client: IndexClient) -> tuple[Any, Any, int]:
        first = await client.metadata(file)
        return first, await client.metadata(file), client.traffic.bytes_received

    first, second, received = ask(settings, twice)
    assert first == second
    assert first.source == "wheel-range"
    assert len(index.seen) == 2
    assert received < 40_000


def test_metadata_far_from_the_end_is_found_by_its_place(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    name = "parrot-1.0-py3-none-any.whl"
    moved = with_members_behind(index.files["parrot"][name], 3000)
    index.add_file("parrot", name, moved)
    file = only_file(settings)
    read = metadata_of(settings, file)
    assert "seed" in read.text
    assert len(index.seen) == 4
    without_size = replace(file, size_bytes=None, sha256=None)
    assert metadata_of(settings, without_size).text == read.text


def test_a_large_table_of_contents_is_not_read_where_its_end_says_enough(
    index: Index, settings: Settings
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(3000):
            archive.writestr(f"parrot/{number:05}.txt", b"")
        archive.writestr("parrot-1.0.dist-info/METADATA", b"Name: parrot\n")
    index.add_file("parrot", "parrot-1.0-py3-none-any.whl", packed.getvalue())
    assert metadata_of(settings, only_file(settings)).text == "Name: parrot\n"
    assert len(index.seen) == 3


def with_members_behind(wheel: bytes, count: int) -> bytes:
    packed = io.BytesIO(wheel)
    with zipfile.ZipFile(packed, "a") as archive:
        for number in range(count):
            archive.writestr(f"parrot/{number:05}.txt", b"")
    return packed.getvalue()


def test_a_server_without_ranges_gives_the_whole_wheel_once(
    index: Index, settings: Settings
) -> None:
    index.ranges = False
    index.add_wheel("parrot", "1.0", padding=100_000)
    assert metadata_of(settings, only_file(settings)).source == "wheel"
    assert len(index.seen) == 2


def test_a_large_wheel_of_a_server_without_ranges_is_left_alone(
    index: Index, settings: Settings
) -> None:
    index.ranges = False
    index.add_wheel("parrot", "1.0", padding=2 << 20)
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code is IndexFault.NO_RANGE


def test_a_server_that_does_not_count_from_the_end_is_asked_for_all(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0", padding=100_000)
    file = replace(only_file(settings), size_bytes=None)
    index.answers["/files/parrot/parrot-1.0-py3-none-any.whl"] = [status(501)]
    assert metadata_of(settings, file).source == "wheel"


@pytest.mark.parametrize(
    ("fact", "code"),
    [
        ({"size": 17}, IndexFault.SIZE_MISMATCH),
        ({"size": 50_000}, IndexFault.SIZE_MISMATCH),
        ({"hashes": {"sha256": "0" * 64}}, IndexFault.HASH_MISMATCH),
    ],
)
@pytest.mark.parametrize("name", ["parrot-1.0-py3-none-any.whl", "parrot-1.0.tar.gz"])
def test_a_file_that_is_not_what_its_page_promised(
    index: Index, settings: Settings, fact: dict[str, Any], code: IndexFault, name: str
) -> None:
    index.add_wheel("parrot", "1.0")
    index.add_source("parrot", "1.0")
    index.facts[name].update(fact)
    (file,) = (it for it in page(settings).files if it.filename == name)
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, file)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "answer",
    [
        status(206, b"x" * 100),
        status(206, b"x" * 100, Content_Range="bytes 0-9/100"),
        status(206, b"x" * 100, Content_Range="bytes 0-99/*"),
        status(206, b"x" * 100, Content_Range="bytes 9-0/100"),
    ],
)
def test_a_part_that_does_not_say_which_it_is(
    index: Index, settings: Settings, answer: Any
) -> None:
    index.add_wheel("parrot", "1.0")
    file = only_file(settings)
    index.answers["/files/parrot/parrot-1.0-py3-none-any.whl"] = answer
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, file)
    assert refused.value.code is IndexFault.MALFORMED


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("promised", [True, False])
def test_another_part_than_the_end_is_refused(
    index: Index, settings: Settings, first: int, promised: bool
) -> None:
    index.add_wheel("parrot", "1.0")
    file = only_file(settings)
    header = f"bytes {first}-{first + 99}/{file.size_bytes}"
    answer = status(206, b"x" * 100, Content_Range=header)
    index.answers["/files/parrot/parrot-1.0-py3-none-any.whl"] = answer
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, file if promised else replace(file, size_bytes=None))
    assert refused.value.code is IndexFault.MALFORMED


def test_a_server_that_gives_less_than_was_asked_for_is_asked_for_the_rest(
    index: Index, settings: Settings
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(3000):
            archive.writestr(f"parrot/{number:05}.txt", b"")
        archive.writestr("parrot-1.0.dist-info/METADATA", b"Name: parrot\n")
    data, name = packed.getvalue(), "parrot-1.0-py3-none-any.whl"
    index.add_file("parrot", name, data)
    file = only_file(settings)

    def part(first: int, last: int) -> Any:
        header = f"bytes {first}-{last}/{len(data)}"
        return status(206, data[first : last + 1], Content_Range=header)

    place = data.index(b"PK\x03\x04", data.index(b"parrot/02999.txt"))
    answers = [part(len(data) - (32 << 10), len(data) - 1), part(place, place + 9)]
    index.answers[f"/files/parrot/{name}"] = answers
    assert metadata_of(settings, file).text == "Name: parrot\n"


def test_a_file_at_an_address_that_is_none_is_refused(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.facts["parrot-1.0-py3-none-any.whl"]["url"] = "http://xn--zz/f"
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    assert refused.value.code is IndexFault.ADDRESS_REFUSED


def test_a_file_at_a_private_address_is_not_fetched(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    name = "parrot-1.0-py3-none-any.whl"
    for url in ("http://192.168.0.1/x.whl", "file:///etc/passwd"):
        index.facts[name]["url"] = url
        with pytest.raises(IndexProblem) as refused:
            metadata_of(settings, only_file(settings))
        assert refused.value.code is IndexFault.ADDRESS_REFUSED


@pytest.mark.parametrize(
    ("version", "dynamic", "static"),
    [("2.1", "", False), ("2.2", "", True), ("2.2", "Dynamic: Requires-Dist\n", False)],
)
def test_a_source_distribution_says_whether_its_requirements_hold(
    index: Index, settings: Settings, version: str, dynamic: str, static: bool
) -> None:
    head = f"Metadata-Version: {version}\nName: parrot\nVersion: 1.0\n"
    index.add_source("parrot", "1.0", information=f"{head}{dynamic}Requires-Dist: seed\n")
    file = only_file(settings)
    read = metadata_of(settings, file)
    assert (read.source, read.static) == ("sdist", static)
    assert metadata_of(settings, file) == read
    assert len(index.seen) == 2


def test_a_download_is_checked_and_leaves_nothing_if_it_is_another(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    digest = index.add_wheel("parrot", "1.0")
    target = tmp_path / "parrot.whl"
    file = only_file(settings)
    ask(settings, lambda client: client.download(file, target))
    assert f"sha256:{hashlib.sha256(target.read_bytes()).hexdigest()}" == digest
    index.add_wheel("parrot", "1.0", "FORGED = True")
    with pytest.raises(IndexProblem):
        ask(settings, lambda client: client.download(file, target))
    assert not target.exists()


def test_no_more_than_four_connections_are_open(index: Index, settings: Settings) -> None:
    open_now, most = 0, 0

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        time.sleep(0.05)
        open_now -= 1
        body = json.dumps({"meta": {"api-version": "1.0"}, "name": "x", "files": []}).encode()
        status(200, body, Content_Type=JSON)(handler)

    names = [f"parrot{number}" for number in range(12)]
    index.answers.update({f"/simple/{name}/": slowly for name in names})

    async def all_of(client: IndexClient) -> None:
        await asyncio.gather(*(client.project(name) for name in names))

    ask(settings, all_of)
    assert 2 <= most <= 4


# Folders


def test_a_folder_of_wheels_is_an_index(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0", metadata="Requires-Dist: seed\n")
    index.add_wheel("crow", "1.0")
    folder = tmp_path / "wheels"
    folder.mkdir()
    for files in index.files.values():
        for name, data in files.items():
            (folder / name).write_bytes(data)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    (file,) = page(settings).files
    assert (file.version, file.sha256) == (
        "1.0",
        hashlib.sha256(index.files["parrot"][file.filename]).hexdigest(),
    )
    assert "seed" in metadata_of(settings, file).text
    assert problem(settings, "gull").code is IndexFault.NOT_FOUND
    assert index.seen == []


def test_a_tree_of_pages_is_an_index_that_does_not_leave_its_place(
    index: Index, tmp_path: Path
) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    project = tmp_path / "web" / "simple" / "parrot"
    packages = tmp_path / "web" / "simple" / "packages"
    project.mkdir(parents=True)
    packages.mkdir()
    (packages / name).write_bytes(data)
    (tmp_path / "web" / name).write_bytes(data)
    link = project / "index.html"
    link.write_text(f'<a href="../packages/{name}">{name}</a>')
    root = (tmp_path / "web" / "simple").as_uri()
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", root),))
    assert metadata_of(settings, only_file(settings)).source == "wheel"
    (packages / "away").symlink_to(tmp_path / "web")
    for outside in (f"../../{name}", f"../packages/away/{name}"):
        link.write_text(f'<a href="{outside}">{name}</a>')
        assert _refusal(settings) is IndexFault.ADDRESS_REFUSED
    link.rename(tmp_path / "web" / "page.html")
    link.symlink_to(tmp_path / "web" / "page.html")
    assert problem(settings).code is IndexFault.ADDRESS_REFUSED


def test_a_folder_of_wheels_is_not_left_by_a_link(index: Index, tmp_path: Path) -> None:
    index.add_wheel("parrot", "1.0")
    name, data = next(iter(index.files["parrot"].items()))
    (tmp_path / name).write_bytes(data)
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / name)
    settings = replace(settings_for(index, tmp_path), package_indexes=(("own", folder.as_uri()),))
    assert only_file(settings).sha256 is None
    assert _refusal(settings) is IndexFault.ADDRESS_REFUSED


def _refusal(settings: Settings) -> IndexFault:
    with pytest.raises(IndexProblem) as refused:
        metadata_of(settings, only_file(settings))
    return refused.value.code
