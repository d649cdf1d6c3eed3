"""``thoth monkey`` as a person runs it, on both stores."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from graph.engine import Stores
from pis.amun.specification import load_specification
from tests.factories.releases import release, sdist_of
from tests.services.commands import WHERE, thoth
from tests.services.index import package_index
from tests.services.projection import deliver


@pytest.fixture
def known(stores: Stores) -> Stores:
    """``web`` needs ``numpy``; versions 3 of ``web`` and 1 of ``numpy`` never meet."""
    deliver(
        stores,
        [
            release("web", "3.0", ["numpy>=2"]),
            release("web", "2.0", ["numpy>=1"]),
            release("numpy", "3.0"),
            release("numpy", "2.0"),
            release("numpy", "1.0"),
        ],
    )
    return stores


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "requirements.in").write_text("web\nnumpy\n", encoding="utf-8")
    return folder


def monkey(stores: Stores, project: Path, *arguments: str) -> dict[str, Any]:
    done = thoth(stores.settings, "monkey", str(project), *WHERE, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def refused(stores: Stores, project: Path, *arguments: str) -> str:
    done = thoth(stores.settings, "monkey", str(project), *WHERE, *arguments)
    assert done.returncode == 1, done.stderr
    return done.stdout + done.stderr


def test_stack_generator_counts_and_shows_stacks_without_writing(
    known: Stores, project: Path, tmp_path: Path
) -> None:
    size = monkey(known, project, "--count")
    assert size["product_of_direct_requirements"] == "6"
    assert size["valid_stacks"] == {"exact": True, "number": "5", "low": "5", "high": "5"}
    assert size["unread_versions"] == {}
    report = monkey(known, project, "--strategy", "all", "--dry-run")
    assert sorted(tuple(it["packages"].values()) for it in report["stacks"]) == [
        ("1.0", "2.0"), ("2.0", "2.0"), ("2.0", "3.0"), ("3.0", "2.0"), ("3.0", "3.0"),
    ]  # fmt: skip
    assert [it.name for it in project.iterdir()] == ["requirements.in"]
    conflict = refused(known, project, "--dry-run", "--constraint", "numpy<1")
    assert "a constraint of the request says numpy<1" in conflict
    # Other packages keep the versions of a lock.
    lock = tmp_path / "requirements.txt"
    base = ("--base", str(lock), "--only-packages", "numpy", "--dry-run")
    lock.write_text("web==2.0\nnumpy==1.0\n", encoding="utf-8")
    versions = [
        it["packages"] for it in monkey(known, project, "--strategy", "all", *base)["stacks"]
    ]
    assert {it["web"] for it in versions} == {"2.0"}
    assert {it["numpy"] for it in versions} == {"1.0", "2.0", "3.0"}
    lock.write_text("web==1.0\n", encoding="utf-8")
    assert "--base: web 1.0 does not meet the request" in refused(known, project, *base)
    lock.write_text("flask==3.0\n", encoding="utf-8")
    done = thoth(known.settings, "monkey", str(project), *WHERE, *base)
    assert "--base: the lock has no package of this project" in done.stderr
    (project / "requirements.in").write_text("web>=3\nnumpy<2\n", encoding="utf-8")
    assert json.loads(refused(known, project, "--count", "--json"))["valid_stacks"]["number"] == "0"


def test_stack_generator_continues_and_writes_specifications_once(
    known: Stores, project: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stacks"
    arguments = ("--strategy", "all", "--pi", "import", "--out", str(out))
    first = monkey(known, project, *arguments, "--stacks", "2")
    names = [it["specifications"]["import"] for it in first["stacks"]]
    written = {name: (out / name).stat().st_mtime_ns for name in names}
    for name in names:
        specification = load_specification(json.loads((out / name).read_text("utf-8")))
        assert specification.script == "import"
        assert specification.batch_size == 5
        assert len(specification.lock.packages) == 2
    more = monkey(known, project, *arguments, "--stacks", "3")
    assert [it["packages"] for it in more["stacks"][:2]] == [
        it["packages"] for it in first["stacks"]
    ]
    assert {name: (out / name).stat().st_mtime_ns for name in names} == written
    assert json.loads((out / "monkey.json").read_text("utf-8")) == more
    done = thoth(known.settings, "monkey", str(project), *WHERE, *arguments, "--seed", "7")
    assert done.returncode == 2
    assert "belongs to a run with other options" in done.stderr


def test_stack_generator_counts_submitted_and_unwritable_stacks(
    known: Stores, project: Path, tmp_path: Path
) -> None:
    shown = []
    for name, more in (("numpy", ()), ("torch", ("-p", "framework=torch"))):
        options = ("--strategy", "all", "--pi", "import", "--out", str(tmp_path / name))
        done = thoth(
            known.settings, "monkey", str(project), *WHERE, *options, "--submit", "queue", *more
        )
        shown.append(done.stdout + done.stderr)
    assert "5 inspections submitted; see monkey.json" in shown[0]
    assert "5 stacks not written: parameters.framework: import measures torch" in shown[1]


def test_dry_run_names_stacks_that_cannot_be_written(known: Stores, project: Path) -> None:
    options = ("--strategy", "all", "--dry-run")
    measured = refused(known, project, *options, "--pi", "import", "-p", "framework=torch")
    message = "5 stacks not written: parameters.framework: import measures torch"
    assert message in measured
    deliver(known, [release("numpy", "4.0", files=[sdist_of("numpy", "4.0")])])
    without = refused(known, project, *options)
    assert "2 stacks not written: numpy 4.0 has no wheel with a known hash" in without


def test_generated_stacks_are_submitted_once(known: Stores, project: Path, tmp_path: Path) -> None:
    arguments = ("--strategy", "all", "--pi", "import", "--out", str(tmp_path / "stacks"))
    first = monkey(known, project, *arguments, "--submit", "queue")
    again = monkey(known, project, *arguments, "--submit", "queue")
    inspections = [it["inspections"] for it in first["stacks"]]
    assert [it["inspections"] for it in again["stacks"]] == inspections
    assert len({name for it in inspections for name in it.values()}) == 5
    with known.engine.connect() as connection:
        jobs = text("SELECT count(*) FROM procrastinate_jobs WHERE queue_name = 'inspections'")
        assert connection.scalar(jobs) == 5


def test_stack_generator_reads_versions_and_requirements_from_an_index(
    stores: Stores, project: Path
) -> None:
    """``web 1.0`` needs an old ``numpy`` that no newer stack needs."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as index:
        index.add_wheel("web", "2.0", metadata="Requires-Dist: numpy>=2\n")
        index.add_wheel("web", "1.0", metadata="Requires-Dist: numpy<2\n")
        for version in ("3.0", "2.0", "1.0"):
            index.add_wheel("numpy", version)
        (project / "requirements.in").write_text("web\n", encoding="utf-8")
        done = thoth(
            stores.settings, "monkey", str(project), *WHERE, "--strategy", "all", "--dry-run",
            "--json", PACKAGE_INDEXES=f"pypi={index.url}",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    stacks = sorted(tuple(it["packages"].values()) for it in report["stacks"])
    assert stacks == [("1.0", "1.0"), ("3.0", "2.0")]
    assert report["unread_versions"] == {"numpy": 1}
