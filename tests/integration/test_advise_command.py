"""``thoth advise`` and its kin as a person runs them, on both stores."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from graph.engine import Stores
from graph.projection.outbox import only_projector
from graph.record.advice import AdviceFilter, advice_of, browse_advice
from tests.factories.releases import release, sdist_of, wheel_of
from tests.services.commands import WHERE, row_counts, thoth
from tests.services.projection import answer, deliver
from tests.services.projection import project as project_graph


@pytest.fixture
def known(stores: Stores) -> Stores:
    """``web`` needs ``core``; ``tool`` holds it back."""
    deliver(
        stores,
        [
            release("web", "3.0", ["core>=2"]),
            release("web", "2.0", ["core>=1"]),
            release("core", "2.0"),
            release("core", "1.1"),
            release("core", "1.0"),
            release("tool", "1.0", ["core<2"]),
        ],
    )
    return stores


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that asks for both."""
    (tmp_path / "requirements.in").write_text("web\ntool\n", encoding="utf-8")
    return tmp_path


def advised(stores: Stores, project: Path, *arguments: str) -> dict[str, Any]:
    done = thoth(stores.settings, "advise", str(project), *WHERE, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def versions(report: dict[str, Any], number: int = 0) -> dict[str, str]:
    packages = report["result"]["report"]["products"][number]["packages"]
    return {it["name"]: it["version"] for it in packages}


def test_advise_shows_and_records_the_advised_stacks(known: Stores, project: Path) -> None:
    report = advised(known, project, "--count", "2", "--labels", "team=blue")
    assert versions(report) == {"core": "1.1", "tool": "1.0", "web": "2.0"}
    assert versions(report, 1) == {"core": "1.0", "tool": "1.0", "web": "2.0"}
    assert report["result"]["parameters"]["labels"] == {"team": "blue"}
    with known.engine.connect() as connection:
        (head,) = browse_advice(connection, AdviceFilter(), limit=20)
        stored = advice_of(connection, known.settings, head.advice_id)
    assert head.advice_id == report["metadata"]["document_id"]
    assert stored is not None
    assert json.loads(stored.report) == report
    done = thoth(known.settings, "advise", str(project), *WHERE)
    assert done.returncode == 0
    assert "tool 1.0 requires core<2" in done.stdout
    assert "proven: no stack that meets the request ranks higher; adviser-" in done.stdout


def test_infeasible_request_shows_its_conflict_and_exits_with_1(
    known: Stores, project: Path
) -> None:
    (project / "requirements.in").write_text("web>=3\ntool\n", encoding="utf-8")
    done = thoth(known.settings, "advise", str(project), *WHERE)
    assert done.returncode == 1
    assert "No stack meets the request" in done.stdout
    with known.engine.connect() as connection:
        (head,) = browse_advice(connection, AdviceFilter(), limit=20)
    assert head.status == "infeasible"


def test_replayed_advice_is_identical_byte_by_byte(known: Stores, project: Path) -> None:
    identifiers = [
        advised(known, project, "--type", kind, "--count", str(count))["metadata"]["document_id"]
        for kind, count in (("latest", 1), ("stable", 3), ("security", 2))
    ]
    # What is known changes; what was known does not.
    deliver(known, [release("core", "1.2"), release("web", "2.1", ["core>=1"])])
    for identifier in identifiers:
        done = thoth(known.settings, "replay", identifier, "--threads", "2")
        assert done.returncode == 0, done.stderr
        assert "the same" in done.stdout
    assert versions(advised(known, project)) == {"core": "1.2", "tool": "1.0", "web": "2.1"}


def test_equal_snapshots_are_stored_once(known: Stores, project: Path) -> None:
    for _ in range(2):
        advised(known, project)
    with known.engine.connect() as connection:
        counted = connection.execute(text("SELECT kind, count(*) FROM documents GROUP BY kind"))
        kinds = dict(counted.all())
    assert (kinds["snapshot"], kinds["advice-request"], kinds["advice-files"]) == (1, 1, 1)
    # Equal knowledge of one day is equal evidence.
    assert (kinds["report"], kinds["evidence"]) == (2, 1)
    assert row_counts(known.engine)["advice"] == 2


def test_check_command_detects_a_forged_report(
    known: Stores, project: Path, tmp_path: Path
) -> None:
    report = advised(known, project)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    done = thoth(known.settings, "check", str(path))
    assert (done.returncode, done.stdout) == (0, "the report is correct: 1 stack verified\n")
    held = copy.deepcopy(report)
    report["result"]["report"]["products"][0]["packages"][0]["version"] = "1.0"
    path.write_text(json.dumps(report), encoding="utf-8")
    done = thoth(known.settings, "check", str(path))
    assert done.returncode == 1
    assert "core 1.0 may not be chosen" in done.stdout
    assert 'packages[0].version is "1.0" instead of "1.1"' in done.stdout
    identifier = held["metadata"]["document_id"]
    done = thoth(known.settings, "replay", identifier, "--known", str(tmp_path))
    assert done.returncode == 0, done.stderr
    held["metadata"]["document_id"] = "adviser-260101000000-00000000000000aa"
    path.write_text(json.dumps(held), encoding="utf-8")
    done = thoth(known.settings, "check", str(path))
    assert done.returncode == 2
    assert "not verified: every version may be chosen" in done.stdout
    files = ("--snapshot", f"{tmp_path}/snapshot.json", "--evidence", f"{tmp_path}/evidence.json")
    done = thoth(known.settings, "check", str(path), *files)
    assert done.returncode == 2
    assert "verified: every version may be chosen" in done.stdout
    assert done.stdout.count("not verified: ") == 1
    path.write_text("{}", encoding="utf-8")
    done = thoth(known.settings, "check", str(path))
    assert done.returncode == 2
    assert "not a report: it has no 'schema_version'" in done.stderr


def test_written_lock_passes_provenance_until_a_hash_changes(known: Stores, project: Path) -> None:
    output = project / "requirements.txt"
    report = advised(known, project, "-o", str(output))
    artifacts = report["result"]["report"]["products"][0]["artifacts"]
    assert output.name in {it["name"] for it in artifacts}
    done = thoth(known.settings, "provenance", str(output), "--json")
    assert done.returncode == 0, done.stdout
    lock = output.read_text(encoding="utf-8")
    first = lock.index("sha256:") + len("sha256:")
    output.write_text(lock[:first] + "0" * 64 + lock[first + 64 :], "utf-8")
    done = thoth(known.settings, "provenance", str(output), "--json")
    assert done.returncode == 1
    (issue,) = [it for it in json.loads(done.stdout) if it["type"] == "ERROR"]
    assert (issue["id"], issue["package_name"]) == ("INVALID-ARTIFACT-HASH", "core")


def test_why_and_why_not_explain_versions_of_the_advised_stack(
    known: Stores, project: Path
) -> None:
    at = ("--project", str(project), *WHERE)
    done = thoth(known.settings, "why", "core", *at)
    assert done.returncode == 0, done.stderr
    assert "this version: tool 1.0 requires core<2" in done.stdout
    assert "no core: impossible" in done.stdout
    assert thoth(known.settings, "why", "other", *at).returncode == 1
    done = thoth(known.settings, "why-not", "core==1.0", *at)
    assert done.returncode == 0, done.stderr
    assert "core 1.0 instead of 1.1" in done.stdout
    done = thoth(known.settings, "why-not", "web>=3", *at, "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["outcome"] == "conflict"
    assert told["conflict"]["steps"]


def test_release_without_hashes_is_advised_but_not_locked(stores: Stores, tmp_path: Path) -> None:
    files = [wheel_of("core", "1.0"), sdist_of("core", "1.0")]
    deliver(stores, [release("core", "1.0", files=[{**it, "sha256": None} for it in files])])
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    report = advised(stores, tmp_path)
    assert report["result"]["error"] is True
    done = thoth(stores.settings, "advise", str(tmp_path), *WHERE, "--format", "requirements")
    assert done.returncode == 1
    assert "core" in done.stderr


def test_advice_does_not_wait_for_a_running_projection(known: Stores, project: Path) -> None:
    with only_projector(known.engine, 1.0):
        advised(known, project)
    query = "MATCH (a:Advice) RETURN count(a)"
    assert answer(known, query) == [[0]]
    project_graph(known)
    assert answer(known, query) == [[1]]
