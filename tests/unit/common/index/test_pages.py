"""What is read from pages, and what of hostile ones is left out."""

import time
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pypi_simple import DistributionPackage, UnparsableFilenameError, parse_filename

from common.index import page_entries, page_parsing
from common.index.page_parsing import PageText, parse_page
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import NO_FILES, ProjectPage
from tests.factories.case_files import described
from tests.factories.errors import raised
from tests.factories.golden import compare_views

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://index.example/simple/parrot/"
DIGEST = "ab" * 32
#: By this a page without files is known for an index's.
EMPTY = '<meta name="pypi:repository-version" content="1.0">'


def json_page(*files: Any, **keys: Any) -> ProjectPage:
    page = {"meta": {"api-version": "1.1"}, "name": "parrot", "files": files} | keys
    kind = "application/vnd.pypi.simple.v1+json"
    return parse_page("parrot", PageText(orjson.dumps(page), kind, URL), NOW)


def html_page(text: str) -> ProjectPage:
    return parse_page("parrot", PageText(text.encode(), "text/html; charset=UTF-8", URL), NOW)


def file(name: str, **keys: Any) -> dict[str, Any]:
    given = {key.replace("_", "-"): it for key, it in keys.items()}
    return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": DIGEST}} | given


LONG, NINES = "1" * 5_000, "1." + "9" * 5_000
PLAIN, LINK = file("parrot-1.0.tar.gz"), "<a href=a.zip>parrot-1.zip</a>"
STATUSES = ({"status": "deprecated", "reason": "use crow"}, {"status": "odd"}, "archived", None)


def in_charset(charset: str) -> ProjectPage:
    body = LINK.encode("utf-16" if charset == "utf-16" else "utf-8")
    return parse_page("parrot", PageText(body, f"text/html; charset={charset}", URL), NOW)


PAGES = {
    "links": html_page(
        '<!DOCTYPE html><base href="/files/"><a href="parrot-1.0.tar.gz#sha256='
        f'{DIGEST}" data-requires-python="&gt;=3.8" data-yanked="">parrot-1.0.tar.gz</a>'
        f'<a href="p.whl" data-dist-info-metadata="sha256={DIGEST}">parrot-1.0-py3-none-any.whl</a>'
        '<a href="q.whl" data-core-metadata="true" data-provenance="https://x.example/p">'
        "parrot-1.1-py3-none-any.whl</a>"
    ),
    "tags, as browsers read them": html_page(
        '<!-- <a href=no.zip>parrot-0.1.zip</a> --><!doctype a "><a href=0.zip>parrot-0.zip</a>'
        "<style><a href=no.zip>parrot-0.3.zip</a></style x><![CDATA[ <a ]]>"
        "<A\nHREF = a.zip?x=1&region=2&amp;y=3 title='>' hReF=no.zip>parrot-1.zip</A><p x=\">\">"
        "<a href='b.zip' data-yanked/>parrot-2<!-- x -->.zip<a href=c.zip>parrot-3.zip"
        "<script>'</a>'</script></a><a href='never.zip>parrot-4.zip</a>"
    ),
    **{
        f"the base {base[:9]!r}": html_page(f"<base href='{base}'>{LINK}")
        for base in ("http://[", "//[", "x" * 3_000, "", "?y")
    },
    **{
        f"the encoding {charset}": in_charset(charset)
        for charset in ("idna", "undefined", "punycode", "hex", "no-such", "utf-16")
    },
    "two spellings of a version": json_page(PLAIN, file("parrot-1.0.0-py3-none-any.whl")),
    "a version that is listed": json_page(PLAIN, versions=["1.0.0"]),
    "invalid versions": json_page(
        file("parrot-2004b-final.tar.gz"), file("parrot-1!2.0+Local.1.zip")
    ),
    "files that belong to no version": json_page(
        file("crow-1.0-py3-none-any.whl"),
        file("parrot.txt"),
        file("parrot-1.0-py3-none-any.whl"),
        file("parrot-1.0-py3-none-any.whl", hashes={"sha256": "cd" * 32}),
        file("parrot-1" + "-" * 200 + ".whl"),
        {"filename": 3},
        file("parrot-\x00.tar.gz"),
    ),
    "invalid facts of a file": json_page(
        file("parrot-1.0.tar.gz", upload_time="yesterday", size="big", core_metadata=7,
             provenance="no url"),
        project_status={"status": "odd"},
    ),
    "times that are none in UTC": json_page(
        file("parrot-1.tar.gz", upload_time="9999-12-31T23:59:59-23:00"),
        file("parrot-2.tar.gz", upload_time="0001-01-01T00:00:00+23:00"),
    ),
    "attestations": json_page(
        file("parrot-1.tar.gz"), file("parrot-2.tar.gz", provenance=None),
        file("parrot-3.tar.gz", provenance="https://index.example/p"),
    ),
    "no attestation, where the API has them": json_page(PLAIN, meta={"api-version": "1.3"}),
    "versions without files": json_page(PLAIN, versions=["0.9", "1.0", NINES, LONG]),
    "a file with a long version": json_page(file(f"parrot-{NINES}.tar.gz")),
    "an archived project": html_page(
        f'{EMPTY}<meta name="pypi:project-status" content="archived">{LINK}'
    ),
    **{f"the status {it}": json_page(**{"project-status": it}) for it in STATUSES},
    "a quarantined project": json_page(
        PLAIN, file("parrot-1.1-py3-none-any.whl"),
        **{"project-status": {"status": "quarantined"}},
    ),
}  # fmt: skip


def test_index_page_gives_its_files_and_skipped_entries() -> None:
    views = {}
    for title, page in PAGES.items():
        lines = [f"{version}: {len(files)} files" for version, files in page.releases.items()]
        lines += [line for it in page.files for line in described([it], "file")]
        lines += [f"skipped: {it[:40]!r}" for it in page.skipped]
        views[title] = "\n".join([*lines, *described(page.status, "status", item=True)])
        assert {it: page.files_of(it) for it in page.listed} == page.releases
        assert (page.digest == NO_FILES) == (not page.files)
    compare_views("index_pages", views)


def test_index_page_digest_ignores_order_and_urls() -> None:
    one, two = file("parrot-1.tar.gz"), file("parrot-2.tar.gz")
    page = json_page(one, two)
    assert page.digest == json_page(two, one | {"url": "https://other.example/t?token=1"}).digest
    assert page.digest != json_page(one, two | {"yanked": True}).digest


def test_html_page_without_files_is_refused_unless_it_is_an_index_page() -> None:
    assert html_page(EMPTY).files == ()
    assert html_page('<a href="parrot-1.0.tar.gz#sha256=">parrot-1.0.tar.gz</a>').files
    assert html_page('<a href="crow-1.0.tar.gz?token=1">crow</a>').skipped
    for text in ("", "<h1>log in</h1><a href='/login'>log in</a>", "<a href='../'>up</a>"):
        with pytest.raises(IndexProblem):
            html_page(text)


def test_file_listed_with_two_hashes_is_a_conflict_and_keeps_the_first() -> None:
    one = file("parrot-1.0.tar.gz")
    others = [one | {"hashes": it} for it in ({"sha256": "cd" * 32}, {"md5": "00"}, {})]
    page = json_page(one, one, *others)
    assert page.conflicts == (("1.0", "parrot-1.0.tar.gz", DIGEST, "cd" * 32),)
    assert [it.sha256 for it in page.files] == [DIGEST]
    assert page.digest != json_page(one).digest == json_page(one, one, *others[1:]).digest


UNENDING = [
    "<a ", "<a href=", "<a href='x' ", "<a b='", '<a b="', "<a/", "<a =", "<a>x", "</a", "</", "<",
    "<!", "<!--", "<![CDATA[", "<?", "<style", "<style>", "<script>", "<a>&#", "<a>&" + "a" * 40,
]  # fmt: skip


@pytest.mark.parametrize("piece", UNENDING)
def test_unclosed_tags_are_parsed_in_linear_time(piece: str) -> None:
    started = time.process_time()
    html_page(EMPTY + piece * (300_000 // len(piece)))
    # A parser that looks for each end anew takes from 10 s to minutes.
    assert time.process_time() - started < 3


def test_versions_with_colliding_hashes_are_parsed_in_linear_time() -> None:
    modulus = 2**61 - 1  # of Python's hashes of numbers
    versions = [f"1.{number * modulus}" for number in range(15_000)]
    started = time.process_time()
    json_page(file("parrot-1.tar.gz"), versions=versions)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "declared",
    [
        b'"' + b"1" * 5_000 + b'"',
        b'"' + b"x" * 3_000_000 + b'"',
        b'"1.\\u0000"',
        b"[" * 900 + b"]" * 900,
    ],
    ids=["number", "long", "nul", "deep"],
)
def test_index_text_is_shortened_in_error_messages(declared: bytes) -> None:
    body = b'{"meta": {"api-version": ' + declared + b'}, "files": []}'
    for page in (
        PageText(body, "application/json", URL),
        PageText(b"", "application/" + "x" * 100_000, URL),
        PageText(b"", "text/\0html", URL),
    ):
        with pytest.raises(IndexProblem) as refused:
            parse_page("parrot", page, NOW)
        assert len(str(refused.value)) < 400
        assert str(refused.value).isprintable()


def test_unexpected_parser_error_is_reported_as_a_malformed_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise OverflowError

    monkeypatch.setattr(page_parsing, "_summaries", fails)
    with raised(IndexProblem, code=IndexFault.MALFORMED) as refused:
        json_page(file("parrot-1.tar.gz"))
    assert "OverflowError" in refused.value.message
    (record,) = caplog.records
    assert (record.levelname, record.message) == ("ERROR", "answer_not_foreseen")
    assert record.exc_info is not None


def test_index_api_version_is_accepted_by_its_major_number() -> None:
    assert json_page(file("parrot-1.tar.gz"), meta={"api-version": "1.99"}).files
    for version in ("2.0", "0.9", "x", None, 1):
        with pytest.raises(IndexProblem):
            json_page(meta={"api-version": version})


@pytest.mark.parametrize(
    ("filename", "is_listed"),
    [
        ("parrot-0.13.1.py2-win-amd64.exe", False),
        ("parrot-0.13.1.win32-py2.7.exe", True),
        ("parrot-0.13.1.win-amd64.msi", True),
        ("parrot-0.13.1.deb", False),
        ("parrot-0.13.1.tar.lzma", True),
        ("parrot-0.13.1.tar.gz.asc", False),
    ],
)
def test_only_file_names_without_a_version_are_skipped(filename: str, is_listed: bool) -> None:
    """The library that parses odd names takes long to load, and knows no more of the others."""
    page = json_page(file(filename))
    assert (list(page.listed), page.skipped) == (
        (["0.13.1"], ()) if is_listed else ([], (filename,))
    )
    if is_listed:
        assert parse_filename(filename, "parrot")[1] == "0.13.1"
    else:
        with pytest.raises(UnparsableFilenameError):
            parse_filename(filename, "parrot")


@pytest.mark.parametrize(
    "url",
    [
        "https://files.example/parrot.zip",
        "http://files.example:8080/a/../parrot.zip",
        "/files/./parrot.zip?a=b#sha256=cd",
        "../../files/../parrot.zip",
        "//files.example/parrot.zip",
        "files/parrot.zip",
        "/files/parrot%2D1.zip ",
    ],
)
def test_relative_file_urls_are_resolved_against_the_page(url: str) -> None:
    """Usual entries are read without the library that reads the others."""
    entry = file("parrot-1.0.zip", url=url)
    expected = DistributionPackage.from_json_data(entry, "parrot", URL)
    assert [it.url for it in json_page(entry).files] == [expected.url]


@pytest.mark.parametrize("url", ["https://files.example/{}", "/files/{}", "../../files/{}"])
def test_common_mirror_urls_are_read_by_the_fast_parser(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_entries, "_package", None)
    entry = file("parrot-1.0.zip", url=url.format("parrot-1.0.zip"), upload_time=None)
    assert json_page(entry).files[0].url.startswith("https://")
