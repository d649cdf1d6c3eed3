"""``thoth advise`` over an index that is broken, hostile, slow or gone: what it says and leaves."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.index.cache import IndexCache
from common.index.configuration import index_of
from common.settings import Settings
from graph.engine import Stores
from tests.factories.archives import tar_of, zip_of
from tests.requirements import needs
from tests.services.commands import ROOT, THOTH, WHERE, row_counts, thoth, variables
from tests.services.index import JSON, Answer, Index, dripping, silent, status
from tests.services.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that asks for ``app``."""
    return asking(tmp_path, "app")


def asking(folder: Path, *names: str) -> Path:
    (folder / "requirements.in").write_text("\n".join(names), encoding="utf-8")
    return folder


def at(index: Index, **more: str) -> dict[str, str]:
    return {"PACKAGE_INDEXES": f"pypi={index.url}", **more}


def advise(
    stores: Stores, index: Index, project: Path, **more: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """``thoth advise --fetch --json``, and the report that it printed."""
    done = thoth(
        stores.settings, "advise", str(project), *WHERE, "--fetch", "--json", **at(index, **more)
    )
    assert "Traceback" not in done.stderr
    return done, json.loads(done.stdout)["result"]["report"]


def packages_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (product,) = report["products"]
    return {it["name"]: it for it in product["packages"]}


def versions(report: dict[str, Any]) -> dict[str, str]:
    return {name: it["version"] for name, it in packages_of(report).items()}


def intact(stores: Stores, index: Index) -> bool:
    """Whether every row of the record equals its document, and the graph equals the record."""
    checks = (("record", "verify"), ("graph", "verify"))
    done = [thoth(stores.settings, *it, **at(index)) for it in checks]
    assert all(it.returncode == 0 for it in done), [it.stdout + it.stderr for it in done]
    assert not list(stores.settings.index_cache.rglob("*.tmp"))
    return True


HEAD = "Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n"
_INFO = "{name}-2.0.dist-info/METADATA"
Fault = Callable[[Index, str], None]


def wheel(data: Callable[[str], bytes]) -> Fault:
    """A wheel with these bytes."""
    return lambda index, name: void(
        index.add_file(name, f"{name}-2.0-py3-none-any.whl", data(name))
    )


def sdist(data: Callable[[str], bytes]) -> Fault:
    """A source distribution with these bytes."""
    return lambda index, name: void(index.add_file(name, f"{name}-2.0.tar.gz", data(name)))


def void(_result: object) -> None:
    """Nothing."""


def beside(text: str) -> Fault:
    """A good wheel with this metadata file beside it."""

    def add(index: Index, name: str) -> None:
        index.add_wheel(name, "2.0")
        index.offer_metadata(f"{name}-2.0-py3-none-any.whl", text.format(name=name).encode())

    return add


def changed_beside(index: Index, name: str) -> None:
    beside(HEAD)(index, name)
    index.beside[f"{name}-2.0-py3-none-any.whl"] = b"Name: other\n"


def changed(index: Index, name: str) -> None:
    index.add_wheel(name, "2.0")
    file = f"{name}-2.0-py3-none-any.whl"
    index.facts[file]["hashes"] = {"sha256": "0" * 64}


def answering(answer: Answer) -> Fault:
    """A good wheel, for which the index gives this answer."""

    def add(index: Index, name: str) -> None:
        index.add_wheel(name, "2.0")
        index.answers[f"/files/{name}/{name}-2.0-py3-none-any.whl"] = answer

    return add


def metadata(name: str) -> dict[str, str | bytes]:
    return {_INFO.format(name=name): HEAD.format(name=name)}


#: What is wrong with version 2.0, and what the answer says of it.
FILES: dict[str, tuple[Fault, str]] = {
    "bare": (wheel(lambda name: zip_of({f"{name}.py": ""})), "it contains no METADATA"),
    "cut": (wheel(lambda name: zip_of(metadata(name))[:80]), "is not a zip file"),
    "bomb": (
        wheel(lambda name: zip_of({_INFO.format(name=name): bytes(256 << 20)})),
        "METADATA of bomb-2.0-py3-none-any.whl is larger than 4,194,304 bytes",
    ),
    "othername": (beside("Metadata-Version: 2.1\nName: web\nVersion: 2.0\n"), "that of web 2.0"),
    "otherversion": (
        beside("Metadata-Version: 2.1\nName: {name}\nVersion: 3.0\n"), "that of otherversion 3.0"
    ),
    "otherhash": (changed_beside, "expected: "),
    "changed": (changed, "expected: 00000000"),
    "invalid": (beside(HEAD + "Requires-Dist: ???\n"), "'???'"),
    "deleted": (answering(status(404)), "404 Not Found"),
    "forbidden": (answering(status(403)), "403 Forbidden"),
    "typed": (answering(status(200, b"<html>", Content_Type="text/html")), "expected: "),
    "huge": (
        sdist(lambda name: tar_of({f"{name}-2.0/PKG-INFO": bytes(64 << 20)})),
        "PKG-INFO of huge-2.0.tar.gz is larger than",
    ),
    "linked": (sdist(lambda name: tar_of({f"{name}-2.0/PKG-INFO": None})), "PKG-INFO is a link"),
    "torn": (
        sdist(lambda name: tar_of({f"{name}-2.0/PKG-INFO": HEAD.format(name=name)})[:60]),
        "it ends early",
    ),
    "outside": (sdist(lambda name: tar_of({"../../PKG-INFO": HEAD})), "no metadata"),
}  # fmt: skip


def test_advice_names_unreadable_files_and_uses_older_versions(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    for name, (fault, _) in FILES.items():
        index.add_wheel(name, "1.0")
        fault(index, name)
    project = asking(tmp_path, *FILES)
    done, report = advise(stores, index, project)
    assert done.returncode == 0, done.stderr
    assert versions(report) == dict.fromkeys(FILES, "1.0")
    for name, (_, cause) in FILES.items():
        told = packages_of(report)[name]["why"]["message"]
        assert told.startswith("2.0: ")
        assert cause in told, (name, told)
        assert name in told.removeprefix("2.0: "), told
    passing = {it["package_name"] for it in report["stack_info"] if it["code"] == "unread"
               and "package_name" in it}  # fmt: skip
    assert passing <= {"otherhash", "changed", "deleted", "forbidden", "typed", "bomb", "huge"}
    assert report["search"]["unavailable"] == 7
    assert intact(stores, index)
    again = thoth(stores.settings, "advise", str(project), *WHERE, "--offline", "--json")
    assert versions(json.loads(again.stdout)["result"]["report"]) == dict.fromkeys(FILES, "1.0")


_TOO_LONG = json.dumps({"meta": {"api-version": "1.0"}, "files": [], "rest": "x" * (2 << 20)})
#: What is wrong with the page of a package, and what the answer says.
PAGES: dict[str, tuple[Answer, str]] = {
    "forbidden": (status(403), "the server answers 403 Forbidden [unauthorized]"),
    "busy": (status(429, Retry_After="3600"), "429 Too Many Requests, and asks to wait 3,600 s"),
    "circle": (status(302, Location="/simple/circle/"), "redirected more than 5 times"),
    "image": (status(200, b"\x89PNG", Content_Type="image/png"), "is image/png"),
    "html": (status(200, b"<html>log in</html>", Content_Type="text/html"), "is not one of an"),
    "json": (status(200, b'{"meta":', Content_Type=JSON), "is broken JSON"),
    "long": (
        status(200, _TOO_LONG.encode(), Content_Type=JSON),
        "is larger than 1,048,576 bytes, the limit in INDEX_PAGE_MB",
    ),
}


def test_unreadable_index_page_is_not_reported_as_a_conflict(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.answers.update({f"/simple/{name}/": answer for name, (answer, _) in PAGES.items()})
    project = asking(tmp_path, "app", "nowhere", *PAGES)
    done, report = advise(stores, index, project, INDEX_PAGE_MB="1")
    assert done.returncode == 3, done.stderr
    missing = [it for it in report["stack_info"] if it["code"] == "package_missing"]
    notes = {it["package_name"]: it["message"] for it in missing}
    assert notes.keys() == {*PAGES, "nowhere"}
    for name, (_, cause) in PAGES.items():
        assert notes[name].startswith(f"{name} is required, and it was not read from pypi")
        assert cause in notes[name]
        assert f"still missing: {name}: it was not read from pypi" in done.stderr
    assert notes["nowhere"] == "nowhere is required, and pypi does not have it"
    assert "no stack of the versions that were read meets the request" in report["ERROR"]
    assert not [it for it in report["stack_info"] if it["code"] == "fetch"]
    assert intact(stores, index)
    shown = thoth(stores.settings, "packages", "show", "html", **at(index))
    assert shown.returncode != 0


def test_advice_names_the_requirement_on_an_unreadable_package(
    stores: Stores, index: Index, project: Path
) -> None:
    index.add_wheel("app", "1.2", metadata="Requires-Dist: gone\n")
    index.answers["/simple/gone/"] = status(403)
    done, report = advise(stores, index, project)
    assert (done.returncode, versions(report)["app"]) == (0, "1.1")
    (note,) = [it for it in report["stack_info"] if it["code"] == "package_missing"]
    assert note["type"] == "WARNING"
    assert note["message"].startswith("gone: it was not read from pypi: ")
    assert note["message"].endswith(", so versions that require it do not count")
    assert "warning: gone, which only other packages require: it was not read" in done.stderr
    assert "hint:" not in done.stderr


def test_unreadable_versions_are_not_counted_as_read(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.add_wheel("only", "1.0")
    index.answers["/files/only/only-1.0-py3-none-any.whl"] = status(403)
    done, _ = advise(stores, index, asking(tmp_path, "only"))
    assert done.returncode == 3
    assert "read 0 of 1 listed releases" in done.stderr
    assert "still missing: only: no version of it was read; 1.0: " in done.stderr
    assert "hint: run the command again" in done.stderr
    shown = thoth(stores.settings, "advise", str(tmp_path), *WHERE, "--fetch", **at(index))
    assert "No stack of the versions that were read meets the request:" in shown.stdout
    assert "nothing is proven: 1 package or version was not read" in shown.stdout


def test_quarantined_project_is_reported_without_proposing_a_build(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    index.add_wheel("taken", "1.0")
    project = asking(tmp_path, "taken")
    done, _ = advise(stores, index, project)
    assert done.returncode == 0
    index.states["taken"] = {"status": "quarantined"}
    done, report = advise(stores, index, project, INDEX_PAGE_AGE_S="0.001")
    assert done.returncode == 1
    assert "has put the project into quarantine" in report["ERROR"] + done.stderr
    assert not [it for it in report["stack_info"] if it["code"] == "package_unsolvable"]


@pytest.mark.parametrize("answer", [dripping, silent])
def test_silent_index_is_given_up_at_the_index_time_limit(
    stores: Stores, index: Index, project: Path, answer: Answer
) -> None:
    index.answers["/simple/lib/"] = answer
    done, report = advise(stores, index, project, INDEX_TIME_S="1")
    assert done.returncode == 3
    assert "the time for reading was over after 1 s (INDEX_TIME_S)" in done.stderr
    assert report["search"]["unavailable"] >= 1
    assert intact(stores, index)
    index.answers.clear()
    done, report = advise(stores, index, project)
    assert (done.returncode, versions(report)) == (0, {"app": "1.1", "lib": "2.0"})


def test_reading_of_broken_versions_ends_at_the_index_time_limit(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    files = {f"wreck-1.{number}-py3-none-any.whl": b"broken" for number in range(1500)}
    index.files["wreck"] = files
    # The index of the test answers fewer requests in this time, however fast the machine is.
    done, _ = advise(stores, index, asking(tmp_path, "wreck"), INDEX_TIME_S="0.5")
    assert done.returncode == 3, done.stderr
    assert "the time for reading was over after 0.5 s (INDEX_TIME_S)" in done.stderr


def outdate(settings: Settings, index: Index) -> None:
    """Make all pages in the cache a day old."""
    cache = IndexCache(settings.index_cache, index_of(settings, "pypi", at(index)))
    for name in index.files:
        kept = cache.page(name)
        assert kept is not None
        page = replace(kept.page, as_of=datetime.now(UTC) - timedelta(days=1))
        cache.keep_page(name, replace(kept, page=page))


def test_advice_reports_the_age_of_cached_pages_if_the_index_is_down(
    stores: Stores, index: Index, project: Path
) -> None:
    assert advise(stores, index, project)[0].returncode == 0
    outdate(replace(stores.settings, package_indexes=(("pypi", index.url),)), index)
    index.answers.update({f"/simple/{name}/": silent for name in index.files})
    done, report = advise(stores, index, project, INDEX_TIME_S="1")
    assert (done.returncode, versions(report)) == (0, {"app": "1.1", "lib": "2.0"}), done.stderr
    assert "warning: pypi does not answer, so 2 pages are from the cache, the oldest" in done.stderr


def test_version_yanked_since_the_last_advice_is_not_advised(
    stores: Stores, index: Index, project: Path
) -> None:
    assert versions(advise(stores, index, project)[1])["app"] == "1.1"
    outdate(replace(stores.settings, package_indexes=(("pypi", index.url),)), index)
    index.facts["app-1.1-py3-none-any.whl"]["yanked"] = "it loses data"
    done, report = advise(stores, index, project)
    assert (done.returncode, versions(report)["app"]) == (0, "1.0")
    assert packages_of(report)["app"]["why"]["message"] == "1.1 was yanked"
    assert intact(stores, index)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_interrupted_read_does_not_break_the_next_command(
    stores: Stores, index: Index, project: Path, number: signal.Signals, code: int
) -> None:
    index.answers["/simple/lib/"] = silent
    before = row_counts(stores.engine)
    command = [THOTH, "advise", str(project), *WHERE, "--fetch"]
    environment = os.environ | variables(stores.settings, **at(index))
    reading = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: "/simple/lib/" in index.paths, "it reads the page of lib")
        reading.send_signal(number)
        _, stderr = reading.communicate()
    finally:
        reading.kill()
    assert reading.returncode == code
    assert b"Traceback" not in stderr
    assert row_counts(stores.engine) == before
    index.answers.clear()
    done, report = advise(stores, index, project)
    assert (done.returncode, versions(report)) == (0, {"app": "1.1", "lib": "2.0"})
    assert intact(stores, index)


@needs("bwrap")
def test_full_disk_below_the_index_cache_is_reported(
    stores: Stores, index: Index, project: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    full = ("bwrap", "--dev-bind", "/", "/", "--size", "4096", "--tmpfs", str(cache))
    environment = os.environ | variables(stores.settings, **at(index, INDEX_CACHE=str(cache)))
    done = subprocess.run(
        [*full, THOTH, "advise", str(project), *WHERE, "--fetch", "--json"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert versions(json.loads(done.stdout)["result"]["report"]) == {"app": "1.1", "lib": "2.0"}
    assert "No space left on device" in done.stderr
