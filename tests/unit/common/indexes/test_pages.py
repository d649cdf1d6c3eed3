"""What is read from pages, and what of hostile ones is left out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from common.errors import IndexProblem
from common.indexes.formats import PageText, parse_page
from common.indexes.pages import ProjectPage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://index.example/simple/parrot/"
DIGEST = "ab" * 32


def json_page(*files: Any, **keys: Any) -> ProjectPage:
    page = {"meta": {"api-version": "1.1"}, "name": "parrot", "files": files} | keys
    kind = "application/vnd.pypi.simple.v1+json"
    return parse_page("parrot", PageText(orjson.dumps(page), kind, URL), NOW)


def html_page(text: str) -> ProjectPage:
    return parse_page("parrot", PageText(text.encode(), "text/html; charset=UTF-8", URL), NOW)


def file(name: str, **keys: Any) -> dict[str, Any]:
    given = {key.replace("_", "-"): it for key, it in keys.items()}
    return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": DIGEST}} | given


def test_links_of_html_carry_what_the_standards_put_there() -> None:
    page = html_page(
        '<!DOCTYPE html><base href="/files/"><a href="parrot-1.0.tar.gz#sha256='
        f'{DIGEST}" data-requires-python="&gt;=3.8" data-yanked="">parrot-1.0.tar.gz</a>'
        f'<a href="p.whl" data-dist-info-metadata="sha256={DIGEST}">parrot-1.0-py3-none-any.whl</a>'
        '<a href="q.whl" data-core-metadata="true" data-provenance="https://x.example/p">'
        "parrot-1.1-py3-none-any.whl</a>"
    )
    source, wheel, later = page.files
    assert (source.sha256, source.requires_python, source.yanked) == (DIGEST, ">=3.8", True)
    assert source.url == "https://index.example/files/parrot-1.0.tar.gz"
    assert (source.yanked_reason, source.metadata_sha256, source.attested) == (None, None, None)
    assert (wheel.metadata_sha256, later.metadata_sha256, later.attested) == (DIGEST, "", True)


def test_spellings_of_one_version_are_one_release() -> None:
    files = [file("parrot-1.0.tar.gz"), file("parrot-1.0.0-py3-none-any.whl")]
    assert list(json_page(*files).releases) == ["1.0"]
    assert list(json_page(*files, versions=["1.0.0"]).releases) == ["1.0.0"]


def test_an_invalid_version_keeps_its_text() -> None:
    page = json_page(file("parrot-2004b-final.tar.gz"), file("parrot-1!2.0+Local.1.zip"))
    assert list(page.releases) == ["2004b-final", "1!2.0+local.1"]


def test_what_belongs_to_no_version_is_named_and_left_out() -> None:
    page = json_page(
        file("crow-1.0-py3-none-any.whl"),
        file("parrot.txt"),
        file("parrot-1.0-py3-none-any.whl"),
        file("parrot-1.0-py3-none-any.whl", hashes={"sha256": "cd" * 32}),
        file("parrot-1" + "-" * 200 + ".whl"),
        {"filename": 3},
        file("parrot-\x00.tar.gz"),
    )
    assert [it.sha256 for it in page.files] == [DIGEST]
    assert len(page.skipped) == 6


def test_what_is_broken_of_a_file_does_not_cost_the_file() -> None:
    broken = {"upload_time": "yesterday", "size": "big", "core_metadata": 7, "provenance": "no url"}
    (found,) = json_page(
        file("parrot-1.0.tar.gz", **broken), project_status={"status": "odd"}
    ).files
    assert (found.uploaded_at, found.size_bytes, found.metadata_sha256) == (None, None, None)
    assert found.sha256 == DIGEST


def test_attestations_are_unknown_where_the_api_has_none() -> None:
    plain, null = file("parrot-1.tar.gz"), file("parrot-2.tar.gz", provenance=None)
    offered = file("parrot-3.tar.gz", provenance="https://index.example/p")
    assert [it.attested for it in json_page(plain, null, offered).files] == [None, False, True]
    newer = json_page(plain, meta={"api-version": "1.3"})
    assert newer.files[0].attested is False


def test_the_digest_is_of_what_is_said_and_not_of_how() -> None:
    one, two = file("parrot-1.tar.gz"), file("parrot-2.tar.gz")
    page = json_page(one, two)
    assert page.digest == json_page(two, one | {"url": "https://other.example/t?token=1"}).digest
    assert page.digest != json_page(one, two | {"yanked": True}).digest


def test_a_page_of_unclosed_links_takes_no_longer_than_another() -> None:
    started = time.monotonic()
    html_page("<a>x" * 60_000)
    assert time.monotonic() - started < 5


def test_an_unknown_minor_version_is_read_and_another_major_one_is_not() -> None:
    assert json_page(file("parrot-1.tar.gz"), meta={"api-version": "1.99"}).files
    for version in ("2.0", "0.9", "x", None, 1):
        with pytest.raises(IndexProblem):
            json_page(meta={"api-version": version})
