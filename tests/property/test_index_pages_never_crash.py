"""Whatever an index sends, it is a page, metadata, or an :class:`IndexProblem`."""

import asyncio
import hashlib
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.version import Version

from common.formats.core_metadata import parse_core_metadata
from common.http.fetching import (
    FetchLimits,
    FetchRequest,
    FetchResponse,
    redirect_target,
    status_problem,
)
from common.http.transport import Head
from common.index.page_parsing import PageText, logger, parse_page
from common.index.release_metadata import fetch_metadata
from model.errors import IndexProblem
from model.packages.project_pages import IndexFile, spelling
from tests.effort import examples
from tests.factories.archives import zip_of
from tests.factories.changed_documents import Path, json_values, replaced

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://index.example/simple/parrot/"
JSON, HTML = "application/vnd.pypi.simple.v1+json", "text/html"
WHEEL = "parrot-1.0-py3-none-any.whl"
DIGEST = "ab" * 32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00", "http://[", "http://xn--zz/",
     "//[::1]:x/", "1" * 5_000, "x" * 3_000, "1.1", "1!2.0+local.1", "parrot-1.0.tar.gz", WHEEL,
     "\0", "sha256", DIGEST]
)  # fmt: skip
values = json_values(texts, keys=texts)

PAGE = {
    "meta": {"api-version": "1.1"},
    "name": "parrot",
    "versions": ["1.0", "1.0.0"],
    "files": [
        {
            "filename": WHEEL,
            "url": f"../../files/{WHEEL}",
            "hashes": {"sha256": DIGEST},
            "requires-python": ">=3.8",
            "core-metadata": {"sha256": DIGEST},
            "yanked": "broken",
            "size": 100,
            "upload-time": "2024-02-03T04:05:06Z",
            "provenance": "https://index.example/p",
        }
    ],
}
PATHS: list[Path] = [
    ("meta",), ("meta", "api-version"), ("files",), ("versions",), ("versions", 0), ("files", 0),
    *(("files", 0, key) for key in PAGE["files"][0]),
    ("files", 0, "hashes", "sha256"), ("files", 0, "core-metadata", "sha256"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_unforeseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The net below the parsers is for what these tests do not find."""

    def found(event: str, **more: Any) -> None:
        raise AssertionError(event)

    monkeypatch.setattr(logger, "exception", found)


def check_words(problem: IndexProblem) -> None:
    """They are stored, and PostgreSQL takes no NUL."""
    assert len(str(problem)) < 600
    assert "\0" not in str(problem)


def check(body: bytes, kind: str, url: str = URL) -> None:
    try:
        page = parse_page("parrot", PageText(body, kind, url), NOW)
    except IndexProblem as problem:
        check_words(problem)
        return
    contents = page.contents.listed()
    assert dict(page.listed) == contents
    assert list(page.listed) == list(contents)
    assert {it: page.files_of(it) for it in page.listed} == dict(page.releases)
    assert all(it.size_bytes is None or it.size_bytes >= 0 for it in page.files)
    assert {it.uploaded_at.tzinfo for it in page.files if it.uploaded_at} <= {UTC}


@given(path=st.sampled_from(PATHS), value=values)
@example(path=("files", 0, "upload-time"), value="9999-12-31T23:59:59-23:00")
@example(path=("files", 0, "upload-time"), value="0001-01-01T00:00:00+23:00")
@example(path=("meta", "api-version"), value="1" * 5_000)
@example(path=("meta", "api-version"), value="x" * 3_000_000)
@example(path=("versions", 0), value="1" * 5_000)
@settings(max_examples=examples(800), deadline=None)
def test_json_index_page_with_any_value_replaced_is_read_or_refused(path: Path, value: Any) -> None:
    with suppress(orjson.JSONEncodeError):
        check(orjson.dumps(replaced(PAGE, path, value)), JSON)


pieces = st.sampled_from(
    [
        f'<a href="../{WHEEL}#sha256={DIGEST}" data-yanked="x">', f"{WHEEL}</a>", "<a ", "<a href=",
        "<a href='http://[/x'>", "<a href=//xn--zz/>", "<base href='http://['>",
        "<base href='/b/'>", "<!--", "-->", "<!", "<?", "</", "<script>", "</script>", "<style",
        "'", '"', "=", "/", ">",
        "&#" + "9" * 5_000 + ";", "&#xD800;", "&amp", "parrot-1.0.tar.gz", "\0", "\ufffe",
        '<meta name="pypi:repository-version" content="', '">', "1.0", "9" * 5_000,
    ]
)  # fmt: skip
CHARSETS = "utf-8 idna punycode undefined hex utf-16 latin-1 unicode_escape é ."
kinds = st.sampled_from(CHARSETS.split()).map(lambda it: f"text/html; charset={it}")


@given(st.lists(pieces | texts, max_size=12).map("".join), kinds)
@example("<base href='http://['><a href=x>parrot-1.0.zip", HTML)
@example("parrot", f"{HTML}; charset=idna")
@example("parrot", f"{HTML}; charset=undefined")
@example("<a href=x>&#" + "9" * 5_000 + ";", HTML)
@settings(max_examples=examples(800), deadline=None)
def test_html_index_page_of_random_tags_is_read_or_refused(page: str, kind: str) -> None:
    check(page.encode(), kind)


@given(st.binary(max_size=200), st.sampled_from([JSON, HTML, "", "x"]) | kinds | texts, texts)
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_are_read_as_an_index_page_or_refused(body: bytes, kind: str, url: str) -> None:
    check(body, kind, url)


versions = st.builds(
    "{}{}.{}{}{}".format,
    st.sampled_from(["", "1!", "0!", "v"]), st.integers(0, 20),
    st.sampled_from(["0", "0.0", "1", "10"]),
    st.sampled_from(["", "a1", ".post0", ".dev1", "rc.01"]), st.sampled_from(["", "+a.1", "+A-01"]),
)  # fmt: skip


@given(versions, versions)
@settings(max_examples=examples(500), deadline=None)
def test_version_keys_are_equal_exactly_for_equal_versions(one: str, other: str) -> None:
    assert (spelling(one)[0] == spelling(other)[0]) == (Version(one) == Version(other))


def wheel() -> bytes:
    members = dict.fromkeys((f"parrot/{number:05}.txt" for number in range(1_500)), "")
    members["parrot-1.0.dist-info/METADATA"] = "Name: parrot\n"
    return zip_of(members, zipfile.ZIP_STORED)


DATA = wheel()


class Served:
    """Stands in for the fetcher: parts as an index likes to give them."""

    def __init__(self, give: Callable[[int, int], tuple[bytes, str]]) -> None:
        self.limits = FetchLimits()
        self._give = give

    async def fetch(self, wanted: FetchRequest) -> FetchResponse:
        first, _, last = wanted.headers["Range"].removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, len(DATA) - int(last))
        end = int(last) + 1 if first else len(DATA)
        body, header = self._give(begin, end)
        wanted.into.seek(0)
        wanted.into.truncate()
        wanted.into.write(body[: wanted.limits[206]])
        wanted.into.seek(0)
        return FetchResponse(206, {"content-range": header}, wanted.url)


def run(question: Awaitable[Any]) -> Any:
    async def asked() -> Any:
        return await question

    return asyncio.run(asked())


offsets = st.integers(-3, 3) | st.integers(-len(DATA), len(DATA)) | st.just(0)


@given(
    given_size=st.booleans(),
    with_hash=st.booleans(),
    shifts=st.lists(st.tuples(offsets, offsets, offsets | st.just(10**17)), max_size=4),
)
@example(given_size=True, with_hash=True, shifts=[(-len(DATA), 100 - len(DATA), 0)])
@example(given_size=True, with_hash=True, shifts=[(0, 0, 0), (0, -10, 0)])
@settings(max_examples=examples(400), deadline=None)
def test_wrong_byte_ranges_of_a_wheel_never_give_wrong_metadata(
    given_size: bool, with_hash: bool, shifts: list[tuple[int, int, int]]
) -> None:
    left = list(shifts)

    def give(begin: int, end: int) -> tuple[bytes, str]:
        first, last, size = left.pop(0) if left else (0, 0, 0)
        begin = min(max(0, begin + first), len(DATA) - 1)
        end = min(max(begin + 1, end + last), len(DATA))
        return DATA[begin:end], f"bytes {begin}-{end - 1}/{len(DATA) + size}"

    size = len(DATA) if given_size else None
    digest = hashlib.sha256(DATA).hexdigest() if with_hash else None
    file = IndexFile(WHEEL, "1.0", "wheel", digest, size, url="https://index.example/x.whl")
    served: Any = Served(give)
    try:
        read = run(fetch_metadata(served, file))
    except IndexProblem as problem:
        check_words(problem)
        return
    assert read.text == "Name: parrot\n"


@given(st.lists(texts | st.sampled_from(["Name: ", "Metadata-Version: ", "\n", " ", ":"])))
@example(["Metadata-Version: ", "9" * 5_000, ".1\n"])
@settings(max_examples=examples(300), deadline=None)
def test_any_core_metadata_text_is_read_without_a_crash(text: list[str]) -> None:
    assert parse_core_metadata("".join(text)).is_static in (True, False)


@given(st.integers(400, 599), texts | st.from_regex(r"[A-Z][a-z]{2}, \d{1,5} Jan \d+ \d+:\d+"))
@example(429, "Fri, 31 Dec 9999 23:59:59 -2300")
@settings(max_examples=examples(300), deadline=None)
def test_any_http_error_status_becomes_an_index_problem(status: int, after: str) -> None:
    assert status_problem(Head(status, {"retry-after": after}), "x").status == status


@given(texts)
@settings(max_examples=examples(200), deadline=None)
def test_any_index_redirect_leads_to_http_or_is_refused(location: str) -> None:
    with suppress(IndexProblem):
        assert redirect_target(URL, location, "x").startswith("http")
