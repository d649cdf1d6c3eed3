"""Every question of the cookbook, asked of the bundled samples, is answered alike on both."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import neo4j
import pytest
import sqlalchemy
from sqlalchemy import insert, select

from common.inspection import Stack
from common.packages import package_version
from common.settings import Settings
from graph.commands.rendering import plain
from graph.engine import graph_database
from graph.projection import sync
from graph.reader import open_reader, run_query
from graph.repositories.advice import AdviceLinks, Recommended, add_advice
from graph.repositories.packages import add_entries
from graph.repositories.releases import ReleaseDelivery, add_releases
from graph.tables import (
    AffectedVersion,
    ArtifactInterface,
    ArtifactRow,
    Base,
    InspectionRow,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    ObservationRow,
    VulnerabilityRow,
)
from ingest.documents import Limits
from ingest.pipeline import ingest_inspections
from tests.factories.advices import advice_id, stored_advice
from tests.factories.generations import FOLDER
from tests.factories.inspections import (
    HOST,
    RUN,
    failed_status,
    inspection_files,
    measured,
    printed,
    specification_document,
    stack_jobs,
    write,
)
from tests.factories.releases import release

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"

_QUESTION = re.compile(
    r"^## \d+\. (?P<title>.+?)\n\n(?P<sentence>.+?)\n\n"
    r"(?:Parameters: `(?P<parameters>\{.+?\})`\n\n)?"
    r"```cypher\n(?P<query>.+?)\n```\n\nColumns: (?P<columns>.+?)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Question:
    title: str
    query: str
    parameters: dict[str, Any]
    columns: tuple[str, ...]


def questions() -> list[Question]:
    text = COOKBOOK.read_text(encoding="utf-8")
    return [
        Question(
            found["title"],
            found["query"],
            json.loads(found["parameters"] or "{}"),
            tuple(re.findall(r"`(\w+)`", found["columns"])),
        )
        for found in _QUESTION.finditer(text)
    ]


#: Parameters that fit made up documents, in place of those that fit the bundled samples.
MADE_UP = {
    "What differs between two stacks?": {
        "left": "sha256:0c25be8596768d43409e0f5107d46191e52f40999556b889325146c75f9759be",
        "right": "sha256:29e3038d1ce6d7255c811ead9c79402b1285f738974bdce82747153f0dcf2dad",
    },
    "Which packages of a stack changed most often among all stacks?": {
        "stack": "sha256:0c25be8596768d43409e0f5107d46191e52f40999556b889325146c75f9759be",
    },
}

#: Runs of our own, beside the samples: two stacks in turns, and one that could not be built.
BUILD = ("inspection-train-00000000", {"torch": "9.9.9"})
TRAINED = {"inspection-train-0000000a": 101.5, "inspection-train-0000000b": 203.0}


def own_inspections(folder: Path) -> None:
    """As the executor leaves them."""
    script = {"name": "train", "bundled": True}
    for turn, (name, rate) in enumerate(TRAINED.items()):
        result = printed(measured(rate, "images/s"), script="train", component="torch")
        jobs = stack_jobs([result] * 3, name, turn, script=script)
        jobs[1]["conditions"]["steal_share"] = 0.02 * turn
        stack = specification_document({"torch": f"2.{turn}.0"}, "train")
        write(folder / name, inspection_files(jobs, stack))
    broken = specification_document(BUILD[1], "train")
    status = failed_status("no-wheel", "torch 9.9.9 has no wheel for this Python")
    write(folder / BUILD[0], inspection_files((), broken, status))


def add_knowledge(connection: sqlalchemy.Connection, settings: Settings) -> None:
    """Releases, a vulnerability and native interfaces, of which some are in the stacks."""
    releases = [
        release("flask", "3.0.0", ["click>=8", "asgiref>=3 ; extra == 'async'"]),
        release("flask", "2.0.0", ["click>=7"]),
        release("pandas", "2.2.0", ["numpy>=1.26"]),
        release("old", "1.0.0", None, yanked=True, yanked_reason="leaks"),
    ]
    day = datetime(2026, 1, 1, tzinfo=UTC)
    added = add_releases(
        connection, settings, [ReleaseDelivery(it, "memory://", day) for it in releases]
    )
    assert len(added.new) == len(releases)
    one = {"document_id": str(releases[0].document_id)}
    numpy = "pkg:pypi/numpy@1.26.4"
    rows: list[tuple[type[Base], dict[str, Any]]] = [
        (VulnerabilityRow, {"vulnerability_id": HARM, "aliases": [HARM], "score": 7.5, **one}),
        *((AffectedVersion, {"vulnerability_id": HARM, "purl": purl})
          for purl in (numpy, "pkg:pypi/flask@2.0.0")),
        *((NativeInterfaceRow, {"interface": name, "library": "libc.so.6",
                                "version": name.partition(":")[2], **one})
          for name in ("libc.so.6:GLIBC_2.17", "libc.so.6:GLIBC_2.34")),
        (ArtifactRow, {"sha256": "a" * 64, "filename": WHEEL, "purl": numpy,
                       "imports": ["numpy"], "bundled": [], **one}),
        *((ArtifactInterface, {"sha256": "a" * 64, "interface": name})
          for name in ("libc.so.6:GLIBC_2.17", "libc.so.6:GLIBC_2.34")),
        (NativeEnvironmentRow, {"digest": "sha256:host", "kind": "host", "name": "build host",
                                "architecture": "x86_64", **one}),
        (NativeEnvironmentInterface, {"digest": "sha256:host",
                                      "interface": "libc.so.6:GLIBC_2.17"}),
    ]  # fmt: skip
    for model, row in rows:
        connection.execute(insert(model), row)
    entries = {
        "vulnerability": [HARM],
        "package_version": [numpy, "pkg:pypi/flask@2.0.0"],
        "artifact": ["a" * 64],
        "native_environment": ["sha256:host"],
    }
    add_entries(connection, entries)
    add_advices(connection, settings)


def add_advices(connection: sqlalchemy.Connection, settings: Settings) -> None:
    """One of a stack that was measured, with another that was not; one that found none."""
    measured_stack, new = (
        Stack.of((package_version("torch", version),)) for version in (TRAINED_VERSION, "2.9.0")
    )
    harmed = Stack.of((package_version("flask", "2.0.0"),))
    named = select(ObservationRow.observation_id).join(
        InspectionRow, InspectionRow.document_id == ObservationRow.document_id
    )
    evidence = connection.scalars(
        named.where(InspectionRow.stack_digest == measured_stack.digest)
    ).all()
    for number, links in enumerate(
        (
            AdviceLinks((Recommended(measured_stack, 0.5), Recommended(new, 0.25)), evidence),
            AdviceLinks((Recommended(harmed, 0.0),), [HARM]),
            AdviceLinks(),
        )
    ):
        assert add_advice(connection, settings, stored_advice(number), links)


TRAINED_VERSION = "2.0.0"
HARM = "CVE-2025-0001"
WHEEL = "numpy-1.26.4-cp311-cp311-linux_x86_64.whl"


@pytest.fixture
def answers(
    tmp_path: Path,
    settings: Settings,
    relational: sqlalchemy.Engine,
    graph_settings: Settings,
    graph_driver: neo4j.Driver,
) -> dict[str, Any]:
    """The rows of each question on one product, as JSON would hold them."""
    database = graph_database(graph_settings)
    own_inspections(tmp_path / "own")
    ingest_inspections(settings, relational, [str(FOLDER), str(tmp_path / "own")], Limits())
    with relational.begin() as connection:
        add_knowledge(connection, settings)
    sync(relational, graph_driver, database=database)
    found = {}
    with open_reader(graph_settings) as reader:
        for question in questions():
            result = run_query(
                reader,
                question.query,
                {**question.parameters, **MADE_UP.get(question.title, {})},
                timeout_s=20.0,
                row_limit=1000,
                database=database,
            )
            found[question.title] = (result.columns, plain(list(result.rows)))
    return found


#: What the first product answered; the second has to answer the same.
_said: dict[str, Any] = {}


def test_each_question_is_answered_and_alike_on_both_products(answers: dict[str, Any]) -> None:
    for question in questions():
        columns, rows = answers[question.title]
        assert columns == question.columns, question.title
        assert rows, question.title
        expected = _said.setdefault(question.title, rows)
        assert len(rows) == len(expected), question.title
        for row, other in zip(rows, expected, strict=True):
            assert [_close(value) for value in other] == row, question.title
    assert_known_answers(answers)


def test_there_are_questions_enough_and_each_block_is_one() -> None:
    blocks = COOKBOOK.read_text(encoding="utf-8").count("```cypher")
    assert len(questions()) == blocks >= 15


def assert_known_answers(answers: dict[str, Any]) -> None:
    """What the documents were made to show (``tests/factories/generations.py``) comes out."""
    columns, rows = answers["Which stack ran fastest, per indicator and hardware class?"]
    fastest = max(rows, key=lambda row: row[columns.index("stacks")])
    assert (fastest[0], fastest[columns.index("stacks")]) == ("PiMatmul", 5)
    assert fastest[columns.index("median_rate")] == pytest.approx(223.5e9, rel=0.01)
    assert fastest[columns.index("unit")] == "FLOP/s"
    _, rows = answers["What differs between two stacks?"]
    assert rows == [["numpy", "1.26.4", "1.24.3"], ["tensorflow-cpu", "2.15.1", "2.13.1"]]
    columns, rows = answers["Which version of a package first slowed an indicator?"]
    assert ("2.17.0", "2.16.2") in {tuple(row[1:3]) for row in rows}
    _, rows = answers[
        "Which package versions are in every stack that crashes, and in none that does not?"
    ]
    assert rows == [["numpy", "2.0.2", 1]]
    assert_own_answers(answers)
    assert_package_answers(answers)
    assert_advice_answers(answers)


def assert_package_answers(answers: dict[str, Any]) -> None:
    """Of the releases and the like that :func:`add_knowledge` made up."""
    _, rows = answers["Which versions require a package, and with which specifiers?"]
    assert rows == [["pandas", "2.2.0", ">=1.26", None, None]]
    _, rows = answers["What does each version of a package require?"]
    assert rows == [
        ["2.0.0", "click", ">=7", None],
        ["3.0.0", "asgiref", ">=3", 'extra == "async"'],
        ["3.0.0", "click", ">=8", None],
    ]
    _, rows = answers["Which versions can nobody choose, and why?"]
    assert ["old", "1.0.0", "unsolvable", "not_recorded", True, "leaks"] in rows
    _, rows = answers["Which packages are required most often, and are they known themselves?"]
    assert rows[0][:4] == ["click", 1, 2, 0]
    _, rows = answers["Which known vulnerabilities are in the stacks that were measured?"]
    assert [row[:5] for row in rows] == [[HARM, None, 7.5, "numpy", "1.26.4"]]
    _, rows = answers["Which versions of a package are free of known vulnerabilities?"]
    assert [row[0] for row in rows] == ["3.0.0"]
    _, rows = answers["What does a wheel need that an environment does not provide?"]
    assert rows == [["numpy", "1.26.4", "libc.so.6", "GLIBC_2.34", "build host"]]


def assert_advice_answers(answers: dict[str, Any]) -> None:
    """Of the advice that :func:`add_advices` made up."""
    columns, rows = answers["Which advised stacks were never measured?"]
    found = {row[columns.index("best_rank")]: row for row in rows}
    assert sorted(found) == [1, 2]
    assert [row[1:3] for row in rows] == [[1, 1], [1, 1]]
    columns, rows = answers["What evidence does an advice rest on?"]
    ((advice, indicator, _, _, observations, rate, unit, _),) = rows
    assert (advice, indicator) == (advice_id(0), "PiTrain")
    assert (observations, rate, unit) == (3, 101.5, "images/s")
    _, rows = answers["Which advice recommends a version that is known to be vulnerable?"]
    assert [row[:5] for row in rows] == [[advice_id(1), "latest", "flask", "2.0.0", HARM]]


def assert_own_answers(answers: dict[str, Any]) -> None:
    """Of the runs that :func:`own_inspections` made up."""
    _, rows = answers["Which stacks could not be built, and why?"]
    ((_, inspection, *why),) = rows
    assert inspection == BUILD[0]
    assert why == ["no-wheel", "torch 9.9.9 has no wheel for this Python", 1, "2024-05-01"]
    _, rows = answers["Which jobs of our own runs have no say, and why?"]
    ((host, inspection, _, *rest),) = rows
    assert (host, inspection) == (HOST, "inspection-train-0000000b")
    assert rest == ["measured", "steal", f"{RUN}:1", 1]
    columns, rows = answers["How many images per second does each stack train?"]
    found = [[row[columns.index(name)] for name in ("jobs", "median_rate")] for row in rows]
    assert found == [[2, 203.0], [3, 101.5]]


def _close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
