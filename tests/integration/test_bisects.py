"""Searches in the record: what is written after each block, read by command, API and pages."""

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete

from adviser.bisect.search import SearchState
from adviser.bisect.series import search_document
from cli.bisect_search import BisectRecorder, identity
from common.settings import Settings
from graph.engine import Stores
from graph.record.bisects import BisectFilter, bisect_named, browse_bisects
from graph.tables import BisectRow
from tests.factories.bisects import add_bisects, bisect_of, planted_search
from tests.services.commands import thoth
from tests.services.index import package_index
from tests.services.jobs import client_of


@pytest.fixture
def client(stores: Stores) -> Iterator[FlaskClient]:
    with client_of(stores.settings) as client:
        yield client


@pytest.fixture(autouse=True)
def no_search_remains(stores: Stores) -> Iterator[None]:
    yield
    with stores.engine.begin() as connection:
        connection.execute(delete(BisectRow))


def test_repeated_bisect_rewrites_its_rows(stores: Stores) -> None:
    series, states = planted_search()
    template = bisect_of(series, states[0])
    seen: list[str] = []
    for _ in range(2):  # the second run reads its jobs from the folder, so its states are equal
        recorder = BisectRecorder(stores.settings, template, True)
        with recorder.recording():
            recorder.open()
            for state in states:
                recorder.progress([(series, state)])
                with stores.engine.connect() as connection:
                    known = bisect_named(connection, template.bisect_id)
                assert known is not None
                assert list(known.searches) == [search_document(series, state)]
                assert known.jobs == state.jobs
                seen.append(known.state)
    assert seen == 2 * ([SearchState.RUNNING.value] * (len(states) - 1) + [SearchState.STEP.value])
    with stores.engine.connect() as connection:
        assert len(browse_bisects(connection, BisectFilter(), limit=10)) == 1


def test_interrupted_bisect_is_recorded_and_continued_by_a_later_run(stores: Stores) -> None:
    series, states = planted_search()
    template = bisect_of(series, states[0])
    recorder = BisectRecorder(stores.settings, template, True)

    def fail_after_a_block() -> None:
        with recorder.recording():
            recorder.open()
            recorder.progress([(series, states[1])])
            raise OSError("no answer of https://me:hunter2@index.example/simple\x00 ?")

    with pytest.raises(OSError, match="no answer"):
        fail_after_a_block()
    with stores.engine.connect() as connection:
        known = bisect_named(connection, template.bisect_id)
    assert known is not None
    assert known.state == "interrupted"
    assert known.reason == "no answer of https://index.example/simple\\x00 ?"
    assert known.jobs == states[1].jobs
    later = BisectRecorder(stores.settings, template, True)
    with later.recording():
        later.open()
        with stores.engine.connect() as connection:
            known = bisect_named(connection, template.bisect_id)
        assert known is not None
        assert (known.state, known.jobs) == ("running", states[1].jobs)
        assert list(known.searches) == [search_document(series, states[1])]
        later.progress([(series, states[-1])])
    with stores.engine.connect() as connection:
        known = bisect_named(connection, template.bisect_id)
    assert known is not None
    assert (known.state, known.reason) == ("step", None)


def test_bisect_continues_without_postgresql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.from_env(
        {"THOTH_HOME": str(tmp_path), "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    )
    series, states = planted_search()
    for wanted in (True, False):
        recorder = BisectRecorder(settings, bisect_of(series, states[0]), wanted)
        with recorder.recording():
            recorder.open()
            recorder.progress([(series, states[-1])])
        warned = "the search is not recorded: PostgreSQL" in capsys.readouterr().err
        assert warned is wanted


def test_bisect_continued_in_a_folder_keeps_its_identifier() -> None:
    first = identity({"question": {}})
    assert identity({"bisect": first}) == first
    assert identity({})["bisect_id"] != first["bisect_id"]


def test_recorded_command_continues_the_bisect_unchanged(stores: Stores) -> None:
    with package_index(protected=False) as index:
        for version in ("1.0", "1.1"):
            index.add_wheel("numpy", version)
        arguments = (
            "bisect", "numpy>=1", "--pi", "import", "-p", "reps=1", "--index", "own",
            "--max-jobs", "4", "--wait", "60", "--share-machine",
        )  # fmt: skip
        thoth(stores.settings, *arguments, PACKAGE_INDEXES=f"own={index.url}")
    (search,) = orjson.loads(thoth(stores.settings, "bisects", "--json").stdout)["bisects"]
    given, recorded = shlex.split(search["command"]), ["thoth", *arguments]
    assert sorted(given) == sorted(recorded)


def test_bisect_measures_a_user_script_in_each_stack(stores: Stores, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import importlib.metadata, json\n"
        "document = {'name': 'Mine', 'component': 'numpy', '@parameters': {}}\n"
        "document['@result'] = {'rate': 1.0, 'elapsed': 1.0}\n"
        "print(json.dumps(document | {'numpy': importlib.metadata.version('numpy')}))\n"
    )
    locks = [tmp_path / "old.txt", tmp_path / "new.txt"]
    with package_index(protected=False) as index:
        for lock, version in zip(locks, ("1.0", "1.1"), strict=True):
            index.add_wheel("numpy", version)
            lock.write_text(f"numpy=={version}\n")
        arguments = (
            "bisect", *map(str, locks), "--index", "own", "--max-jobs", "40",
            "--out", str(tmp_path / "out"), "--share-machine", "--trust-script",
            "--script", str(script),
        )  # fmt: skip
        done = thoth(stores.settings, *arguments, PACKAGE_INDEXES=f"own={index.url}")
    assert "no lasting step of 3 % or more" in done.stdout, done.stderr
    assert done.returncode == 0
    results = [orjson.loads(it.read_bytes()) for it in tmp_path.glob("out/*/results/*/result")]
    # On a busy machine, some jobs are unstable, and others take their places.
    counts = Counter(it["stdout"]["numpy"] for it in results)
    assert (counts.keys(), min(counts.values()) >= 2) == ({"1.0", "1.1"}, True)
    (search,) = orjson.loads(thoth(stores.settings, "bisects", "--json").stdout)["bisects"]
    assert search["indicator"] == "mine.py"
    assert sorted(shlex.split(search["command"])) == sorted(["thoth", *arguments])


def test_bisect_command_lists_searches_and_shows_details(stores: Stores) -> None:
    empty = thoth(stores.settings, "bisects")
    assert "No search is recorded" in empty.stdout
    with stores.engine.begin() as connection:
        add_bisects(connection)
    listed = orjson.loads(thoth(stores.settings, "bisects", "--json").stdout)["bisects"]
    assert [it["bisect_id"] for it in listed] == [
        "bisect-running",
        "bisect-stopped",
        "bisect-ended",
    ]
    shown = thoth(stores.settings, "bisects", "bisect-ended").stdout
    for text in ("step", "numpy 1.8 → numpy 1.9", "slower", "numpy 1.15: no wheel", "--pi matmul"):
        assert text in shown
    stopped = thoth(stores.settings, "bisects", "--state", "stopped", "--package", "NumPy")
    assert "the limit of 8 jobs was reached" in " ".join(stopped.stdout.split())
    assert "bisect-ended" not in stopped.stdout


def test_api_pages_through_bisects(stores: Stores, client: FlaskClient) -> None:
    with stores.engine.begin() as connection:
        add_bisects(connection)
    names, address = [], "/api/v2/bisects?limit=2"
    while address:
        listed = client.get(address).get_json()
        names += [it["bisect_id"] for it in listed["items"]]
        address = listed["next"]
    assert names == ["bisect-running", "bisect-stopped", "bisect-ended"]
    assert all("searches" not in it for it in listed["items"])
    (ended,) = client.get("/api/v2/bisects?state=step").get_json()["items"]
    document = client.get(f"/api/v2/bisects/{ended['bisect_id']}").get_json()
    (search,) = document["searches"]
    assert document["sentence"] == search["sentence"]
    assert search["confirmation"]["verdict"] == "slower"
    chances = [search["posterior"]["none"], *(it["chance"] for it in search["posterior"]["steps"])]
    assert sum(chances) == pytest.approx(1)
    assert client.get("/api/v2/bisects?package=pandas").get_json()["items"] == []
    assert client.get("/api/v2/bisects/none").status_code == 404
    assert client.get("/api/v2/bisects?state=lost").status_code == 400
