"""The files of ``thoth guard`` for code hosts: settled differences only, and no live text."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from adviser.answering.lock_comparison import guard_document
from adviser.guard import GuardResult, VersionVulnerability, YankedVersion, guard
from adviser.projects.locks import ProjectLock, read_lock
from adviser.projects.project import ProjectWarning, WarningCode
from adviser.vex import VexStatement, VexStatus
from cli.guard import comment_text, guard_lines, lock_notes, sarif_document
from cli.guard import guard as guard_command
from model.errors import InvalidArgument
from model.measurements.evidence import ADVISORIES
from tests.factories.evidence import HERE, Bench, jobs, measured, series
from tests.factories.requests import NOTHING
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

INDEX: Index = {"fast": {"2": {}, "1": {}}, "rest": {"2": {}, "1": {}}}
ONE, TWO = {"fast": "1", "rest": "1"}, {"fast": "2", "rest": "1"}
SILENT = replace(NOTHING, sources={ADVISORIES: None})
HOSTILE = "```\n<img src=x> @team #1 [a](http://a.example) </details>\x1b[31m"


def slower() -> GuardResult:
    snapshot = snapshot_of(INDEX, ["fast", "rest"])
    return guard(TWO, ONE, snapshot, measured().evidence(), ENVIRONMENT, HERE)


def results(upgrade: GuardResult, lock: Path) -> list[dict[str, Any]]:
    (run,) = sarif_document(upgrade, lock)["runs"]
    assert {it["id"] for it in run["tool"]["driver"]["rules"]} >= {
        it["ruleId"] for it in run["results"]
    }
    found: list[dict[str, Any]] = run["results"]
    return found


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a b").mkdir()
    path = Path("a b/app.txt")
    path.write_text("# via fast\nrest==1\nFast==1\n", encoding="utf-8")
    return path


def test_upgrade_without_a_measured_effect_makes_no_comment() -> None:
    for number in range(100):
        index: Index = {"rest": {str(it): {} for it in (number, number + 1)}}
        old, new = {"rest": str(number)}, {"rest": str(number + 1)}
        snapshot = snapshot_of(index, ["rest"])
        upgrade = guard(old, new, snapshot, SILENT, ENVIRONMENT, HERE)
        assert upgrade.changes
        assert upgrade.missing
        assert comment_text(upgrade, "app.txt") == ""


def test_guard_comment_shows_settled_differences_and_folds_the_rest() -> None:
    text = comment_text(slower(), "app.txt", ["pytest"])
    shown, _, folded = text.partition("<details>")
    assert shown.startswith("**thoth guard: 1 settled difference** in `app.txt`, result: harm\n")
    assert "\n  fast 1 is 23 % slower than 2 in PiMatmul" in shown
    assert "fast: 2 → 1" in folded
    assert "not compared: 1 package that differs, of groups" in folded
    assert "chance of even one false claim" in folded


def test_guard_comment_summarises_sizes_unless_verbose() -> None:
    bench = Bench()
    for size in (2**it for it in range(4, 14)):
        how = series(parameters={"matrix_size": size})
        for version, level in (("1", 0.0), ("2", 0.4 if size == 512 else 0.05)):
            bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(level), how)
    snapshot = snapshot_of(INDEX, ["fast", "rest"])
    upgrade = guard(TWO, ONE, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    short, long = (
        [it for it in guard_lines(upgrade, verbose=verbose) if it.startswith("  fast 1 is")]
        for verbose in (False, True)
    )
    assert (len(short), len(long)) == (2, 10)
    assert "in 9 series of PiMatmul" in short[0]
    assert "with matrix_size 512 (95 % interval" in short[1]
    assert any("--verbose" in it for it in guard_lines(upgrade))
    assert "10 settled differences" in comment_text(upgrade, "app.txt")


def test_guard_document_states_the_conditions_of_each_comparison() -> None:
    bench = measured()
    for version in "12":
        bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(count=3), series("PiConv2D"))
    snapshot = snapshot_of(INDEX, ["fast", "rest"])
    upgrade = guard(TWO, ONE, snapshot, bench.evidence(), ENVIRONMENT, HERE)
    document = guard_document(upgrade)
    assert [len(document[it]) for it in ("claims", "undetermined")] == [1, 1]
    for claim in (*document["claims"], *document["undetermined"]):
        assert claim["parameters"] == {"size": 512}
        assert (claim["hardware_digest"], claim["hardware_label"]) == (HERE, "this class")
        assert (claim["python_version"], claim["same_python"]) == ("3.11", True)


def test_guard_comment_escapes_hostile_text_and_has_a_size_limit() -> None:
    yanked = tuple(YankedVersion("fast", "1", HOSTILE * 5) for _ in range(1000))
    text = comment_text(replace(slower(), yanked=yanked), "app`@team`.txt")
    assert len(text) < 65_536
    assert "… and " in text
    assert "`app?@team?.txt`" in text
    opened = None
    for line in text.splitlines():
        fence = re.fullmatch(r"(`{4,}|```)(text)?", line)
        if fence and opened in (None, fence[1]):
            opened = None if opened else fence[1]
        elif opened is None:
            assert "<img" not in line
            assert "http" not in line
    assert opened is None
    assert "\x1b" not in text
    # Longer than any run of backticks within.
    assert "````text" in text


def test_sarif_places_harm_at_the_lock_line_of_its_package(lock: Path) -> None:
    (result,) = results(slower(), lock)
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b/app.txt"}, "region": {"startLine": 3}}
    assert (result["ruleId"], result["level"]) == ("slower", "error")
    upgrade = replace(
        slower(),
        introduced=(
            VersionVulnerability("fast", "1", "CVE-1", "high"),
            VersionVulnerability("fast", "1", "CVE-2", None),
        ),
        yanked=(YankedVersion("fast", "1", None),),
    )
    first = results(upgrade, lock)
    prints = [it["partialFingerprints"]["thothGuard/v1"] for it in first]
    assert len(set(prints)) == len(first) == 4
    lock.write_text("x==1\n" * 50 + lock.read_text("utf-8"), encoding="utf-8")
    claims = tuple(replace(it, observed_pct=it.observed_pct - 1) for it in upgrade.claims)
    second = results(replace(upgrade, claims=claims), lock)
    assert [it["partialFingerprints"]["thothGuard/v1"] for it in second] == prints
    assert second[0]["message"] != first[0]["message"]
    assert [it["locations"] for it in second] != [it["locations"] for it in first]


def test_vulnerability_closed_by_vex_is_listed_as_suppressed(lock: Path) -> None:
    why = VexStatement(frozenset(), VexStatus.FIXED, "backported", "vendor.json")
    closed = VersionVulnerability("fast", "1", "CVE-1", "high", why)
    upgrade = replace(slower(), closed=(closed,))
    text = "fixed: backported (vendor.json)"
    assert any(it.endswith(f"has CVE-1 (high), {text}") for it in guard_lines(upgrade))
    harm, suppressed = results(upgrade, lock)
    assert "suppressions" not in harm
    assert [it["justification"] for it in suppressed["suppressions"]] == [text]


def test_conda_packages_are_noted_once_for_two_revisions_of_a_lock() -> None:
    texts = [f"lists {it} conda packages" for it in (2, 3)]
    warnings = [ProjectWarning(WarningCode.CONDA, it, "pixi.lock:$") for it in texts]
    locks = [ProjectLock((), "pixi.lock", warnings=(it,)) for it in warnings]
    assert set(lock_notes(*locks)) == {f"pixi.lock: {texts[1]}"}


def test_guard_notes_say_that_packages_from_no_index_are_not_compared() -> None:
    text = "-e ./beside\n"
    lock = read_lock("lock.txt", {"lock.txt": text.encode()})
    assert set(lock_notes(lock, lock)) == {
        "lock.txt:1: './beside' is an editable install, so it is not compared"
    }


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.in", "Pipfile", "main.py"])
def test_proposal_replaces_no_file_that_is_no_lock(tmp_path: Path, name: str) -> None:
    new, output = tmp_path / "uv.lock", tmp_path / name
    new.write_text("version = 1\n", encoding="utf-8")
    arguments = ["old.txt", str(new), "--propose", "-o", str(output)]
    done = CliRunner().invoke(guard_command, arguments)
    assert isinstance(done.exception, InvalidArgument), done.exception
    assert str(output) in str(done.exception)


def test_proposal_without_a_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    output, new = str(tmp_path / "none" / "uv.lock"), tmp_path / "new.txt"
    new.write_text("core==1\n", encoding="utf-8")
    done = CliRunner().invoke(guard_command, ["old.txt", str(new), "--propose", "-o", output])
    assert isinstance(done.exception, InvalidArgument), done.exception
    assert str(done.exception) == f"there is no folder {tmp_path / 'none'}"
