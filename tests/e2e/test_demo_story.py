"""The demo's story: every command says of NumPy what the others say of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.services.commands import ROOT
from tests.services.installation import Installation

PROJECT = "samples/project"
#: Where the samples were measured.
WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64", "--hardware", "fa9f8e70")
BY_SPEED = ("--type", "performance", *WHERE)
VERSIONS = ("1.24.4", "1.26.4", "2.0.2", "2.2.6", "2.3.5", "2.4.6")


@pytest.fixture
def demo(fresh: Installation) -> Installation:
    """The samples of the demo, taken in as the demo does."""
    fresh.thoth("ingest", "inspections", "samples/inspections.tar.gz")
    fresh.thoth("packages", "import", "samples/packages.jsonl.gz", "--as-of", "2026-11-21")
    return fresh


@pytest.mark.slow
def test_other_commands_confirm_the_advice_of_the_demo(demo: Installation, tmp_path: Path) -> None:
    unlocked = tmp_path / "unlocked"
    unlocked.mkdir()
    (unlocked / "requirements.in").write_text((ROOT / PROJECT / "requirements.in").read_text())
    advised = {advised_version(demo, project) for project in (PROJECT, str(unlocked))}
    assert len(advised) == 1, "the lock decides nothing that is not settled"
    (version,) = advised

    faster, slower = settled_by_stacks(demo)
    assert not {pair for pair in faster if pair[1] == version}, "none is settled to be faster"
    newer = [it for it in VERSIONS if VERSIONS.index(it) > VERSIONS.index(version)]
    assert all(any((other, it) in faster for other in VERSIONS) for it in newer)

    for old, new in ((old, new) for old in VERSIONS for new in (version,) if old != new):
        assert guarded(demo, tmp_path, old, new) in {"no_harm", "unknown"}, (old, new)
    for loser, winner in slower:
        assert guarded(demo, tmp_path, winner, loser) == "harm", (winner, loser)

    why = demo.thoth("why", "numpy", "--project", PROJECT, *BY_SPEED)
    assert f"numpy {version}" in why
    assert "worse" not in why
    why_not = demo.thoth("why-not", "numpy==2.3.5", "--project", PROJECT, *BY_SPEED)
    apart = ("2.3.5", version) in slower
    assert ("performance" in why_not) is apart

    first = first_by_claims(demo, "faster")
    assert first, "the advice recorded what it claims"
    assert first <= faster
    assert first_by_claims(demo, "slower") <= slower


def advised_version(demo: Installation, project: str) -> str:
    """The NumPy that is advised, and whether its reason claims anything unsettled."""
    report = demo.json("advise", project, *BY_SPEED, "--json")["result"]["report"]
    (numpy,) = (it for it in report["products"][0]["packages"] if it["name"] == "numpy")
    assert "worse" not in numpy["why"]["message"]
    assert report["family"]["error_rate"] == 0.05
    return str(numpy["version"])


def settled_by_stacks(demo: Installation) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Pairs of versions of which ``thoth stacks`` calls the first one faster, and slower."""
    faster, slower = set(), set()
    digests = numpy_stacks(demo.json("stacks", "--json"))
    for baseline, digest in digests.items():
        document = demo.json("stacks", "--baseline", digest, "--json")
        for stack in stacks_beside(document, digest):
            pair = (stack["component_version"], baseline)
            if stack["comparison"]["verdict"] == "faster":
                faster.add(pair)
            elif stack["comparison"]["verdict"] == "slower":
                slower.add(pair)
    assert {(two, one) for one, two in faster} == slower, "each pair is told alike from both sides"
    return faster, slower


def numpy_stacks(document: Any) -> dict[str, str]:
    """Digests of the stacks by their NumPy."""
    return {
        stack["component_version"]: stack["stack_digest"]
        for group in document["groups"]
        for stack in group["stacks"]
        if stack["component"] == "numpy"
    }


def stacks_beside(document: Any, digest: str) -> list[Any]:
    """Those that are compared with one stack."""
    return [
        stack
        for group in document["groups"]
        if group["baseline"] and group["baseline"]["stack_digest"] == digest
        for stack in group["stacks"]
        if stack["comparison"]
    ]


def guarded(demo: Installation, folder: Path, old: str, new: str) -> str:
    """The outcome of ``thoth guard`` for one change of the project's NumPy."""
    text = (ROOT / PROJECT / "requirements.txt").read_text()
    locks = []
    for version in (old, new):
        lock = folder / f"numpy-{version}.txt"
        lock.write_text(re.sub(r"numpy==\S+", f"numpy=={version}", text))
        locks.append(str(lock))
    done = demo.run("thoth", "guard", *locks, *WHERE, "--json")
    assert done.stdout, done.stderr
    outcome = str(json.loads(done.stdout)["outcome"])
    assert done.returncode == {"no_harm": 0, "harm": 1, "unknown": 4}[outcome]
    return outcome


def first_by_claims(demo: Installation, verdict: str) -> set[tuple[str, str]]:
    """Answers to the cookbook's fourth question: versions, and what they are compared with."""
    text = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    query = re.search(r"## 4\. .*?```cypher\n(.*?)```", text, re.DOTALL)
    assert query
    parameters = {"package": "numpy", "indicator": "PiConv2D", "verdict": verdict}
    given = [part for it in parameters.items() for part in ("--param", "=".join(it))]
    rows = demo.json("cypher", query[1], *given, "--format", "json")["rows"]
    return {(row["version"], row["baseline_version"]) for row in rows}
