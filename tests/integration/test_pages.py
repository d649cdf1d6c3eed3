"""The pages on the bundled samples and on an empty record: every page, and what protects it."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, update
from werkzeug.test import TestResponse, encode_multipart

from api.access import SESSION_COOKIE
from api.http.request_context import REQUEST_BYTES
from api.pages.operation import STEP_LABELS
from api.pages.site import POLICY
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.access import Scope, create_token, revoke_token
from graph.record.bisects import write_bisect
from graph.record.freshness import BACKUP, INDEX, INSPECTIONS, add_successes, set_sources
from graph.record.quarantine import QuarantineReason, add_refusals
from graph.tables import HardwareRow, PackageVersionRow
from loop.night import STEPS
from tests.factories.advisories import add_versions, osv, write_archive
from tests.factories.affected_stacks import add_affected_stack
from tests.factories.bisects import add_bisects, bisect_of, flat_search, planted_search
from tests.factories.golden import compare_with_golden
from tests.factories.inspections import (
    MATMUL,
    hwinfo,
    inspection_files,
    measured,
    printed,
    specification_document,
    stack_jobs,
    write,
)
from tests.factories.nights import add_night
from tests.services.commands import ROOT, thoth
from tests.services.databases import new_database
from tests.services.filled import got
from tests.services.jobs import client_of

#: Begin a line of their own.
_BLOCKS = {
    "h1", "h2", "h3", "p", "li", "tr", "dt", "dd", "option", "label", "legend", "caption",
    "summary", "pre", "form", "figure", "svg", "title",
}  # fmt: skip
#: Say nothing of a page, or the same on every page.
_SKIPPED = {"head", "header", "script", "style"}
_BEGAN = datetime.now(UTC)
#: What differs from run to run, and digests, which nobody reads to their end.
_VOLATILE = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d(:|%3A)\d\d((:|%3A)\d\d(\.\d+)?)?(Z|\+00:00)?", "TIME"),
    (r"\bafter [\d.]+ s\b", "after N s"),
    (r"adviser-\d+-[0-9a-f]+", "adviser-N"),
    (r"(sha256(:|%3A))?([0-9a-f]{8})[0-9a-f]{56}", r"\3…"),
    # Tests share one graph, which others may have emptied.
    (r"(Graph behind the record\0)[^\0]*", r"\1…"),
)


def page_text(page: str) -> str:
    """What a page shows: its text, cells apart from each other, links and values of its forms."""
    parser = _PageText()
    parser.feed(page)
    text = "".join(parser.parts)
    # A run may begin before midnight.
    today = f"{_BEGAN:%Y-%m-%d}|{datetime.now(UTC):%Y-%m-%d}"
    for pattern, name in (*_VOLATILE, (today, "TODAY")):
        text = re.sub(pattern, name, text)
    lines = (" ".join(line.split()) for line in text.split("\0"))
    return "".join(f"{line}\n" for line in lines if line)


class _PageText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped: str | None = None
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self._skipped is None and tag in _SKIPPED:
            self._skipped = tag
        elif tag in _BLOCKS:
            self.parts.append("\0")
        elif tag in {"td", "th"}:
            self.parts.append(" | ")
        elif tag == "a":
            self._links.append(values.get("href", ""))
        elif tag == "input" and values.get("type") != "hidden":
            self._add(f" [{values.get('name')}: {values.get('value', '')}]")
        if "selected" in values or "checked" in values:
            self._add("* ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = None
        elif tag == "a":
            self._add(f" <{self._links.pop()}>")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def _add(self, text: str) -> None:
        if self._skipped is None:
            self.parts.append(text)


#: Pages that need no object of the record.
_LISTS = (
    "/", "/ask", "/packages", "/inspections", "/stacks", "/reports", "/compare", "/changes",
    "/benchmarks", "/bisects", "/loop", "/trust", "/sign-in",
)  # fmt: skip
_HOSTILE = "<script>alert(1)</script>\"'><svg onload=alert(1)>\u202e\x1b[31m"


@pytest.fixture(scope="module")
def browser(filled_app: Flask) -> FlaskClient:
    return filled_app.test_client()


@pytest.fixture
def empty(stores: Stores) -> Iterator[FlaskClient]:
    with client_of(stores.settings) as client:
        yield client


def _page(client: FlaskClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.get_data(as_text=True)
    assert response.mimetype == "text/html"
    assert response.headers["Content-Security-Policy"] == POLICY
    return response.get_data(as_text=True)


def _links(content: str) -> set[str]:
    return {it.replace("&amp;", "&") for it in re.findall(r'href="(/[^"#]*)"', content)}


#: Pages of the samples, by the name of their golden file.
_SAMPLES = {
    "home": "/", "ask": "/ask", "packages": "/packages", "packages-found": "/packages?like=NUM",
    "packages-none": "/packages?like=nothing-like-it", "package": "/packages/numpy",
    "version": "/packages/flask/versions/3.1.3", "stacks": "/stacks", "stack": "/stacks/{stack}",
    "stacks-filtered": "/stacks?hardware={hardware:.15}&indicator=PiMatmul&limit=1",
    "stack-without-result": "/stacks/{failed}", "compare": "/compare",
    "compare-chosen": "/compare?baseline={baseline}",
    "comparison": "/compare?baseline={baseline}&candidate={stack}",
    "reports": "/reports?indicator=PiMatmul", "report": "/reports/{series}",
    "series": "/series/{series}", "inspections": "/inspections?indicator=PiConv2D",
    "inspection": "/inspections/{inspection}", "job": "/jobs/{job}",
    "hardware": "/hardware/{hardware}", "hardware-unmeasured": "/hardware/{other}",
    "changes": "/changes?package=numpy", "benchmarks": "/benchmarks?metric=median_rate",
    "bisects-none": "/bisects?indicator=PiMatmul",
    "vulnerability": "/vulnerabilities/PYSEC-2023-62", "trust": "/trust",
    "question": "/questions/24", "sign-in": "/sign-in",
}  # fmt: skip
#: Pages of a night, of searches and of a vulnerable stack.
_STORIES = {
    "loop": "/loop", "home-after-a-night": "/", "hardware-alike": "/hardware/a",
    "bisects": "/bisects",
    **{f"bisect-{it}": f"/bisects/bisect-{it}" for it in ("ended", "flat", "new")},
    "package-affected": "/packages/a-lib", "package-unaffected": "/packages/a-web",
    "vulnerability-of-a-stack": "/vulnerabilities/CVE-2026-1",
}  # fmt: skip


@pytest.fixture(scope="module")
def objects(filled: Settings, browser: FlaskClient) -> dict[str, str]:
    """Names of some objects of the samples."""
    (group,) = got(browser, "/api/v2/comparison-groups?package=numpy&indicator=PiConv2D")["items"]
    stacks = got(browser, "/api/v2/stacks?measured=false")["items"]
    query = "package=numpy&version=2.4.6&indicator=PiConv2D&outcome=measured&limit=1"
    (job,) = got(browser, f"/api/v2/observations?{query}")["items"]
    classes = {it["measured"]: it["digest"] for it in _hardware(browser)}
    with client_of(filled, Scope.ADMIN) as operator:
        (advice,) = got(operator, "/api/v2/advice")["items"]
    return {
        "series": group["comparison_key"], "baseline": group["baseline"]["stack_digest"],
        "stack": next(it["stack_digest"] for it in group["stacks"] if it["comparison"]),
        "failed": next(it["digest"] for it in stacks if it["inspections"]),
        "job": job["observation_id"], "inspection": job["document_id"],
        "hardware": classes[True], "other": classes[False], "advice": advice["advice_id"],
    }  # fmt: skip


def _hardware(client: FlaskClient) -> list[dict[str, Any]]:
    """Both hardware classes, with whether something was measured on them."""
    return [
        {**it, "measured": measured}
        for measured in (True, False)
        for it in got(client, f"/api/v2/hardware?measured={str(measured).lower()}")["items"]
    ]


@pytest.mark.parametrize("name", _SAMPLES)
def test_each_page_shows_the_sample_data(
    browser: FlaskClient, objects: dict[str, str], name: str
) -> None:
    text = page_text(_page(browser, _SAMPLES[name].format_map(objects)))
    assert "`" not in text, "backticks are code"
    compare_with_golden(f"pages/{name}.txt", text)


_SAME = {"source": "measured", "vendor": "V", "family": 6, "cpus": 2}
#: Hardware classes that differ from the first one in their flags, or in their processor.
_ALIKE = {"a": _SAME, "b": _SAME | {"flags": ["avx2"]}, "c": _SAME | {"family": 7}}


@pytest.fixture(scope="module")
def stories(postgresql: Engine, embedded_settings: Settings) -> Iterator[FlaskClient]:
    with new_database(postgresql, replace(embedded_settings, rate_limit=None)) as settings:
        engine = relational_engine(settings)
        with engine.begin() as connection:
            add_night(connection)
            add_bisects(connection)
            write_bisect(connection, bisect_of(*flat_search(), "flat"))
            series, (*_, last) = planted_search()
            unmeasured = replace(bisect_of(series, last, "new"), state="running", searches=[])
            write_bisect(connection, unmeasured)
            add_affected_stack(connection)
            connection.execute(insert(HardwareRow), [
                {"digest": f"sha256:{it}", "label": f"class {it}", "identity": identity,
                 "document_id": "sha256:none"}
                for it, identity in _ALIKE.items()
            ])  # fmt: skip
        engine.dispose()
        with client_of(settings, Scope.READ) as client:
            yield client


@pytest.mark.parametrize("name", _STORIES)
def test_each_page_shows_recorded_objects(stories: FlaskClient, name: str) -> None:
    compare_with_golden(f"pages/{name}.txt", page_text(_page(stories, _STORIES[name])))


def test_advice_page_shows_the_evidence_for_named_hardware(
    browser: FlaskClient, objects: dict[str, str]
) -> None:
    content = _page(browser, f"/advice/{objects['advice']}")
    assert "3 of 7 packages were measured in this version on" in content
    assert "show what was measured of other versions" in content
    assert "What would change it?" in content
    assert "You named no hardware" not in content


def test_every_step_of_a_loop_night_has_a_page_label() -> None:
    assert STEP_LABELS.keys() == STEPS.keys()


def test_list_pages_work_with_an_empty_record(empty: FlaskClient) -> None:
    for address in _LISTS:
        assert "<h1>" in _page(empty, address)


def test_history_page_shows_every_job_of_the_series(browser: FlaskClient) -> None:
    groups = got(browser, "/api/v2/comparison-groups?package=numpy")["items"]
    history = f"/series/{groups[0]['comparison_key']}"
    document = got(browser, f"/api/v2{history}")
    jobs = [job for run in document["runs"] for job in run["jobs"]]
    assert len(jobs) == document["observations"] == sum(it["jobs"] for it in groups[0]["stacks"])
    for run in document["runs"]:
        counted = [it["rate"] for it in run["jobs"] if it["left_out"] is None]
        assert run["median_rate"] == pytest.approx(median(counted))
    assert got(browser, f"/api/v2{history}?limit=1")["runs"] == document["runs"][-1:]
    _page(browser, "/series/none", 404)
    _page(browser, f"{history}?limit=0", 400)
    everything = got(browser, "/api/v2/comparison-groups")["items"]
    assert got(browser, "/api/v2/comparison-groups?newest=20")["items"] == everything
    (one,) = got(browser, "/api/v2/comparison-groups?newest=1")["items"]
    assert one["comparison_key"] in {it["comparison_key"] for it in everything}
    for group in everything:
        key, python, recent = (group[it] for it in ("comparison_key", "python_version", "recent"))
        history = got(browser, f"/api/v2/series/{key}?python={python}")
        assert recent["observations"] == history["observations"]
        assert recent["inspections"] == len(history["runs"])
        medians = [it["median_rate"] for it in history["runs"] if it["median_rate"] is not None]
        assert recent["rates"] == pytest.approx(medians)


def test_api_error_is_shown_to_browsers_as_a_page(browser: FlaskClient) -> None:
    assert "no package is called" in _page(browser, "/packages/there-is-none", 404)
    assert "no vulnerability is called" in _page(browser, "/vulnerabilities/CVE-1999-0001", 404)
    assert "not a cursor of this list" in _page(browser, "/packages?after=x", 400)


def test_unknown_url_is_answered_as_page_or_problem_document(browser: FlaskClient) -> None:
    headers = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    response = browser.get("/nowhere", headers=headers)
    assert response.status_code == 404
    assert "<h1>Not found</h1>" in response.get_data(as_text=True)
    assert response.headers["Content-Security-Policy"] == POLICY
    for address, accept in (("/nowhere", {}), ("/api/v2/nowhere", headers)):
        response = browser.get(address, headers=accept)
        assert response.status_code == 404
        assert response.mimetype == "application/problem+json"


def test_form_submitted_from_another_site_is_refused(empty: FlaskClient) -> None:
    response = empty.post("/ask", data={"text": "flask\n", "form_token": "guessed"})
    assert response.status_code == 403
    empty.get("/ask")
    response = empty.post("/ask", data={"text": "flask\n"})
    assert response.status_code == 403


def test_pasted_lock_may_be_as_large_as_an_uploaded_file(empty: FlaskClient) -> None:
    token = _form_token(empty.get("/compare"))
    hashes = " ".join(f"--hash=sha256:{number:064x}" for number in range(20))
    lock = "".join(f"package-{number}==1 {hashes}\n" for number in range(400))
    assert 500_000 < len(lock) < 1_000_000

    def answer(**fields: str) -> TestResponse:
        boundary, body = encode_multipart({"form_token": token, **fields})
        kind = f"multipart/form-data; boundary={boundary}"
        return empty.post("/compare/locks", data=body, content_type=kind)

    assert answer(old=lock, new=lock).status_code == 200
    large = answer(old="x" * REQUEST_BYTES, new=lock)
    parts = answer(**{f"field{number}": "" for number in range(1001)})
    for refused in (large, parts):
        assert refused.status_code == 413
        assert "<h1>Too large</h1>" in refused.text


def test_uploaded_project_file_is_decoded_by_its_byte_order_mark(empty: FlaskClient) -> None:
    token = _form_token(empty.get("/ask"))

    def answer(data: bytes) -> TestResponse:
        upload = (io.BytesIO(data), "requirements.txt")
        return empty.post("/ask", data={"form_token": token, "uploads": upload})

    accepted = answer("flask\n".encode("utf-16"))
    assert accepted.status_code == 303
    refused = answer(b"# gr\xfcn")
    assert refused.status_code == 422
    assert "byte 4 is not valid utf-8" in refused.text
    nothing = empty.post("/ask", data={"form_token": token, "text": " "})
    assert nothing.status_code == 422
    assert "paste requirements, or choose files" in nothing.text


def test_trust_page_shows_the_age_of_the_oldest_source_of_each_kind(
    stores: Stores, empty: FlaskClient
) -> None:
    with stores.engine.begin() as connection:
        set_sources(connection, INSPECTIONS, ["/secret/folder", "/other"])
        add_successes(connection, INSPECTIONS, ["/other"])
        add_successes(connection, INDEX, ["pypi"])
        add_successes(connection, BACKUP, ["backup"])
    sources = {it["kind"]: it for it in empty.get("/api/v2/status").get_json()["sources"]}
    assert sources["inspections"] == {"kind": "inspections", "sources": 2, "read_at": None}
    assert sources["index"]["read_at"] is not None
    content = _page(empty, "/")
    assert "<dt>Package indexes</dt><dd>read completely " in content
    assert "<dt>Last complete backup</dt><dd>20" in content
    assert "secret" not in content


def test_advice_page_marks_an_advised_version_with_a_vulnerability(
    empty: FlaskClient, stores: Stores, tmp_path: Path
) -> None:
    (tmp_path / "requirements.in").write_text("flask\n", encoding="utf-8")
    advisories = write_archive(tmp_path / "all.zip", [osv("CVE-2026-1", summary="Leaks cookies")])
    releases = ROOT / "samples" / "packages.jsonl.gz"
    for command in (
        ("packages", "import", str(releases), "--as-of", "2026-11-21"),
        ("advisories", "sync", str(advisories)),
        ("advise", str(tmp_path), "--python", "3.12", "--platform", "linux_x86_64", "--offline"),
    ):
        assert thoth(stores.settings, *command).returncode == 0
    with client_of(stores.settings, Scope.ADMIN) as operator:
        (advice,) = operator.get("/api/v2/advice").get_json()["items"]
    content = _page(empty, f"/advice/{advice['advice_id']}")
    assert "flask with known vulnerabilities; " in content
    # Notes about other packages are folded.
    without_notes = re.sub(r"<details>.*?</details>", "", content, flags=re.DOTALL)
    assert "affected by CVE-2026-1" in without_notes


def test_opening_a_why_not_link_starts_no_request(filled: Settings, browser: FlaskClient) -> None:
    with client_of(filled, Scope.ADMIN) as operator:
        (advice,) = operator.get("/api/v2/advice").get_json()["items"]
    address = f"/advice/{advice['advice_id']}/why-not"
    question = f"{address}?requirement={quote(_HOSTILE, safe='')}"
    content = _page(browser, question)
    assert "Nobody asked this about the advice yet" in content
    assert "<script>alert" not in content
    assert browser.get(f"/api/v2{question}").status_code == 404
    assert browser.get(address).location == f"/advice/{advice['advice_id']}"
    _page(browser, "/advice/none/why-not?requirement=numpy", 404)


def test_trust_page_shows_the_quarantine_and_the_age_of_the_data(
    stores: Stores, empty: FlaskClient
) -> None:
    content = _page(empty, "/trust")
    assert "Nothing is in the quarantine" in content
    assert "<dt>Last document</dt>" in content
    refusal = QuarantineReason("inspection", "/secret/folder", "", "invalid_json", "$", "no")
    with stores.engine.begin() as connection:
        add_refusals(connection, [refusal])
    content = _page(empty, "/trust")
    assert "<code>invalid_json</code>: 1" in content
    assert "secret" not in content
    settings = stores.settings
    budget = f"at most {settings.loop_jobs} jobs, for at most {settings.loop_minutes:g} minutes"
    assert budget in _page(empty, "/loop")


def test_package_page_shows_effects_of_one_hardware_class(
    stores: Stores, empty: FlaskClient, tmp_path: Path
) -> None:
    sizes = [MATMUL | {"matrix_size": it} for it in (64, 128)]
    for number, (version, model, parameters) in enumerate(
        (version, model, parameters)
        for version in ("2.0.2", "2.1.0")
        for model, some in ((106, sizes), (107, sizes[:1]))
        for parameters in some
    ):
        outputs = [printed(measured(it, parameters=parameters)) for it in (90.0, 91.0)]
        jobs = stack_jobs(
            outputs, f"inspection-{number}", hwinfo=hwinfo(model=model, brand_raw=f"CPU {model}")
        )
        files = inspection_files(jobs, specification_document({"numpy": version}))
        write(tmp_path / f"inspection-{number}", files)
    done = thoth(stores.settings, "ingest", "inspections", str(tmp_path))
    assert done.returncode == 0, done.stderr
    groups = empty.get("/api/v2/comparison-groups").get_json()["items"]
    first, second = (
        next(it["hardware"]["digest"] for it in groups if model in it["hardware"]["label"])
        for model in ("106", "107")
    )
    content = _page(empty, "/packages/numpy")
    heads = re.findall(r'<th scope="col">PiMatmul<br><span class="note">([^<]*)</span>', content)
    assert heads == ["matrix_size 64", "matrix_size 128"]
    assert f"/packages/numpy?hardware={second}" in _links(content)
    content = _page(empty, f"/packages/numpy?hardware={second}")
    heads = re.findall(r'<th scope="col">PiMatmul<br><span class="note">([^<]*)</span>', content)
    assert heads == [""]
    assert f"/packages/numpy?hardware={first}" in _links(content)
    content = _page(empty, "/packages/numpy?hardware=none")
    assert "on the hardware class that the address names" in content


def test_start_page_shows_how_much_was_measured(browser: FlaskClient, empty: FlaskClient) -> None:
    coverage = browser.get("/api/v2/coverage").get_json()
    groups = browser.get("/api/v2/comparison-groups?limit=50").get_json()["items"]
    stacks = [it for group in groups for it in group["stacks"]]
    releases = {(it["component"], it["component_version"]) for it in stacks}
    assert coverage["packages"] == len({name for name, _ in releases})
    assert coverage["versions"] == len(releases)
    assert coverage["stacks"] == len({it["stack_digest"] for it in stacks})
    assert coverage["hardware"] == len({it["hardware"]["digest"] for it in groups})
    assert coverage["measurements"] == 200
    nothing = empty.get("/api/v2/coverage").get_json()
    assert {name for name, value in nothing.items() if value == 0} >= {"packages", "measurements"}
    content = _page(empty, "/")
    assert "Nothing was measured yet" in content
    assert "hardware class</li>" not in content


def test_hardware_page_shows_coverage_and_the_nearest_classes(browser: FlaskClient) -> None:
    measured, _ = _hardware(browser)
    coverage = got(browser, f"/api/v2/hardware/{measured['digest']}/coverage")
    assert sum(it["measurements"] for it in coverage["indicators"]) == 200
    conv2d = {it["package"]: it for it in coverage["indicators"] if it["indicator"] == "PiConv2D"}
    assert conv2d.keys() == {"numpy", "tensorflow-cpu", "torch"}
    query = "indicator=PiConv2D&package=numpy"
    (group,) = got(browser, f"/api/v2/comparison-groups?{query}")["items"]
    assert conv2d["numpy"]["measurements"] == sum(it["jobs"] for it in group["stacks"])
    assert conv2d["numpy"]["stacks"] == len(group["stacks"])
    versions = {it["component_version"] for it in group["stacks"]}
    assert set(conv2d["numpy"]["versions"]) == versions
    # The other class of the samples is one whose properties no document says.
    assert (measured["identity"]["source"], coverage["nearest"]) == ("measured", [])
    assert len(got(browser, "/api/v2/hardware")["items"]) == 2


def test_package_page_shows_import_names(stores: Stores, empty: FlaskClient) -> None:
    names = ["google", "google.lib"]
    with stores.engine.begin() as connection:
        for version, imports in (("1.9", names), ("1.10", [*names, "lib2"]), ("2", None)):
            (purl,) = add_versions(connection, f"a-lib=={version}")
            source = None if imports is None else "central-directory"
            row = update(PackageVersionRow).where(PackageVersionRow.purl == purl)
            connection.execute(row.values(state="solved", imports=imports, imports_source=source))
    document = got(empty, "/api/v2/packages/A.Lib/modules")
    assert document["items"] == [
        {"module": "google.lib", "releases": 2, "oldest": "1.9", "newest": "1.10"},
        {"module": "lib2", "releases": 1, "oldest": "1.10", "newest": "1.10"},
    ]
    assert (document["releases"], document["unknown_releases"]) == (2, 1)
    content = _page(empty, "/packages/a-lib")
    assert "<code>import google.lib</code>, in all 2 releases whose names are known" in content
    assert "<code>import lib2</code>, in 1 of 2 releases, 1.10" in content
    assert "1 other release was read whose names are not known" in content
    first = got(empty, "/api/v2/packages/a-lib/modules?limit=1")
    assert [first["items"], got(empty, first["next"])["items"]] == [
        document["items"][:1], document["items"][1:],
    ]  # fmt: skip


def test_api_lists_ranges_and_versions_that_a_vulnerability_affects(browser: FlaskClient) -> None:
    document = browser.get("/api/v2/vulnerabilities/CVE-2023-30861").get_json()
    assert document["packages"] == [
        {
            "name": "flask",
            "ranges": [">=0, <2.2.5", ">=2.3.0, <2.3.2", ">=0, <2.2.5, >=2.3.0, <2.3.2"],
            "versions": ["2.2.4", "2.3.0", "2.3.1"],
        }
    ]
    assert document["affected_versions"] == 0


def test_operator_page_shows_the_state_of_the_service(stores: Stores, empty: FlaskClient) -> None:
    refused = _page(empty, "/operator", 401)
    assert "Sign in with a token</a>" in refused
    assert "Bearer" not in refused
    document = empty.get("/api/v2/operation").get_json()
    assert document["hint"] == "send it in the header `Authorization: Bearer <token>`"
    with client_of(stores.settings, Scope.READ) as reader:
        assert "Sign in with another token</a>" in _page(reader, "/operator", 403)
        assert 'href="/operator"' not in _page(reader, "/")
    with client_of(stores.settings, Scope.ADMIN) as operator:
        assert 'href="/operator"' in _page(operator, "/")
        content = _page(operator, "/operator")
        document = operator.get("/api/v2/operation").get_json()
    assert "Both stores answer, and 0 workers run." in content
    assert [it["queue"] for it in document["queues"]] == ["people", "bulk", "inspections"]
    assert [it["task"] for it in document["schedules"]] == ["cron.prune"]
    assert document["disk"]["free_bytes"] <= document["disk"]["total_bytes"]
    assert document["database_bytes"] > sum(it["size_bytes"] for it in document["tables"]) > 0


def test_question_page_needs_the_cypher_scope_and_valid_parameters(
    filled: Settings, browser: FlaskClient
) -> None:
    assert "/questions/2" in _links(_page(browser, "/questions"))
    _page(browser, "/questions/24?run=1", 401)
    _page(browser, "/questions/99", 404)
    with client_of(filled, Scope.CYPHER) as analyst:
        _page(analyst, "/questions/38?smallest=big&run=1", 400)
        _page(analyst, "/questions/24?format=csv", 400)


def test_inspection_page_offers_to_measure_again(browser: FlaskClient) -> None:
    (inspection,) = got(browser, "/api/v2/inspections?limit=1")["items"]
    address = f"/inspections/{inspection['document_id']}"
    content = _page(browser, address)
    assert f"{address}/specification.json" in _links(content)
    response = browser.get(f"{address}/specification.json")
    document = browser.get(f"/api/v2{address}/document").get_json()
    assert response.get_json() == document["specification"]
    name = f"specification-{inspection['document_id'][7:15]}.json"
    assert name in response.headers["Content-Disposition"]
    assert f"thoth inspect {name} --ingest" in content


def test_inspection_page_links_to_lock_and_logs(
    stores: Stores, browser: FlaskClient, empty: FlaskClient, tmp_path: Path
) -> None:
    inspections = browser.get("/api/v2/inspections?limit=50").get_json()["items"]
    known = next(it for it in inspections if it["stack_digest"])
    address = f"/inspections/{known['document_id']}"
    assert {f"{address}/requirements.txt", f"{address}/log.txt"} <= _links(_page(browser, address))
    lock = browser.get(f"{address}/requirements.txt")
    stack = browser.get(f"/api/v2/stacks/{known['stack_digest']}").get_json()
    for package in stack["packages"]:
        assert f"{package['name']}=={package['version']}" in lock.text
    assert "--hash=sha256:" in lock.text
    assert "has no log" in browser.get(f"{address}/log.txt").text
    files = inspection_files(stack_jobs([90.0], "inspection-matmul-0000000c"))
    files |= {"build/log": b"<b>\x1b[31m built\n", "results/0/log": b"ran\n"}
    write(tmp_path / "inspection-matmul-0000000c", files)
    done = thoth(stores.settings, "ingest", "inspections", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (ingested,) = empty.get("/api/v2/inspections").get_json()["items"]
    logs = empty.get(f"/inspections/{ingested['document_id']}/log.txt")
    assert logs.mimetype == "text/plain"
    assert logs.text == "=== build ===\n<b>\\x1b[31m built\n\n=== job 0 ===\nran\n"


def test_inspections_without_a_measured_library_name_the_packages_that_differ(
    stores: Stores, empty: FlaskClient, tmp_path: Path
) -> None:
    outputs = [printed(measured(90.0)) | {"name": "PiMine", "component": None}]
    for number, version in enumerate(("1.0", "2.0")):
        specification = specification_document({"a-lib": version, "a-web": "3.0"}, "mine.py")
        name = f"inspection-{number}"
        write(tmp_path / name, inspection_files(stack_jobs(outputs, name), specification))
    done = thoth(stores.settings, "ingest", "inspections", str(tmp_path))
    assert done.returncode == 0, done.stderr
    content = _page(empty, "/inspections")
    assert '<div class="note">a-lib 1.0</div>' in content
    assert '<div class="note">a-lib 2.0</div>' in content
    (address, _) = sorted(it for it in _links(content) if it.startswith("/inspections/"))
    assert ", a-web 3.0</div>" in _page(empty, address)


def test_browser_session_has_the_scopes_of_its_token(stores: Stores, empty: FlaskClient) -> None:
    with stores.engine.begin() as connection:
        token, secret = create_token(connection, "a page", [Scope.READ], None)
    form = _form_token(empty.get("/sign-in"))
    refused = empty.post("/sign-in", data={"form_token": form, "token": "thoth_wrong"})
    assert refused.status_code == 401
    assert empty.get_cookie(SESSION_COOKIE) is None
    data = {"form_token": form, "token": secret}
    for target in ("//elsewhere.example/", "/\t/elsewhere.example/", "/a\r\nSet-Cookie: b=c"):
        opened = empty.post("/sign-in", data={**data, "next": target})
        assert (opened.status_code, opened.location) == (303, "/")
    for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "same-site"}):
        assert empty.post("/sign-in", data=data, headers=headers).status_code == 403
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert empty.post("/sign-in", data=data, headers=own).status_code == 303
    cookie = opened.headers.getlist("Set-Cookie")[-1]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert secret not in cookie
    assert "Sign out a page" in _page(empty, "/")
    # The cookie opens pages only, never the API, where no form token protects writes.
    assert empty.get("/api/v2/advice").status_code == 401
    with stores.engine.begin() as connection:
        revoke_token(connection, token.token_id)
    assert "Sign out" not in _page(empty, "/")


def _form_token(response: TestResponse) -> str:
    match = re.search(r'name="form_token" value="([^"]+)"', response.text)
    assert match is not None
    return match[1]
