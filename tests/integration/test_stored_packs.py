"""Packs in a store: added whole or not at all, exchanged in any order, followed at night."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from click.testing import CliRunner
from sqlalchemy import update

from adviser.packs.envelope import Assurance, read_private_key
from adviser.packs.pack_building import build_pack, sign_pack
from adviser.packs.pack_contents import check_contents
from adviser.packs.pack_files import Pack, opened
from adviser.packs.stored_packs import PackReader, _opened, known_hardware, remove_packed
from cli.guard import guard
from cli.ingest import ingest
from cli.pack import list_packs, remove, unfollow
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.exported_rows import ExportSelection
from graph.tables import PackRow
from ingest.runs import list_quarantine
from loop.pack_exchange import (
    add_from,
    follow_packs,
    pack_address,
    read_followed_addresses,
    write_index,
)
from model.errors import InvalidArgument, InvalidDocument, InvalidPack, Reason
from model.measurements.evidence import Evidence
from tests.factories.inspections import (
    inspection_files,
    measured,
    printed,
    specification_document,
    stack_jobs,
    status_document,
    write,
)
from tests.factories.packs import new_key
from tests.factories.universes import snapshot_of
from tests.services.commands import ROOT, row_counts, run_here, thoth, thoth_json, variables
from tests.services.databases import new_database
from tests.services.object_store import object_store
from tests.services.web import site

NOTHING = Evidence(datetime(2026, 1, 1, tzinfo=UTC))
VERSIONS = ("1.26.4", "2.1.0")
SNAPSHOT = snapshot_of({"numpy": {it: {} for it in VERSIONS}}, ["numpy"])
RATES = [100.0, 101.0, 99.5, 100.5, 100.2, 99.8, 100.1]


def output(rate: float) -> dict[str, Any]:
    """A job whose duration fits its rate."""
    job = measured(rate)
    result = job["@result"]
    result["elapsed"] /= rate
    result["repetitions"] = [it / rate for it in result["repetitions"]]
    return printed(job)


@pytest.fixture(scope="module")
def published(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with two packs of the same stacks, each signed with a key of its own.

    Of the same stacks, ``inspections/own`` was measured like the first.
    """
    folder = tmp_path_factory.mktemp("published")
    for name, gain in (("own", 1.3), ("one", 1.3), ("two", 0.7)):
        place = folder / "inspections" / name
        for session, (turn, version) in product(range(2), enumerate(VERSIONS)):
            outputs = [output(rate * (gain if turn else 1)) for rate in RATES]
            identifier = f"inspection-matmul-{name}{session}{turn:04}"
            jobs = stack_jobs(outputs, identifier, turn)
            for job in jobs:
                job["boot"] = f"{session}"
                job["schedule"]["run"] = f"{name} {session}"
            parts = specification_document({"numpy": version}), status_document()
            write(place / identifier, inspection_files(jobs, *parts))
        if name == "own":
            continue
        with new_database(postgresql, embedded_settings) as settings:
            engine = relational_engine(settings)
            done = CliRunner().invoke(ingest, ["inspections", str(place)], obj=settings)
            assert done.exit_code == 0, done.output
            for target in (name, f"{name}-again"):  # equal but for their names
                build_pack(engine, settings, folder / f"{target}.tar", ExportSelection())
            engine.dispose()
        new_key(folder / f"{name}.key")
        sign_pack(folder / f"{name}.tar", read_private_key(folder / f"{name}.key"),
                  Assurance.SELF_ATTESTED)  # fmt: skip
    return folder


@pytest.fixture
def packs(published: Path, tmp_path: Path) -> dict[str, Path]:
    """Both packs, for a test to change."""
    return {it.stem: Path(shutil.copy(it, tmp_path)) for it in published.glob("*.tar")}


@pytest.fixture
def own(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a document store and a cache of their own."""
    return of_store(settings, tmp_path / "store")


def of_store(settings: Settings, folder: Path) -> Settings:
    url = (folder / "documents").as_uri()
    return replace(settings, document_store_url=url, index_cache=folder / "cache")


def evidence(settings: Settings, engine: sqlalchemy.Engine) -> Evidence:
    with engine.connect() as connection:
        return PackReader(connection, settings, NOTHING.as_of).with_packs(NOTHING, SNAPSHOT)


def bodies(settings: Settings) -> set[str]:
    folder = Path(settings.document_store_url.removeprefix("file://"))
    return {str(it) for it in folder.rglob("*") if it.is_file() and it.parent.name != "records"}


def test_order_of_added_packs_does_not_change_the_store(
    settings: Settings, postgresql: sqlalchemy.Engine, packs: dict[str, Path], tmp_path: Path
) -> None:
    seen = []
    for order in (("one", "two"), ("two", "one")):
        with new_database(postgresql, settings) as fresh:
            mine = of_store(fresh, tmp_path / f"store of {order[0]}")
            engine = relational_engine(mine)
            for name in order:
                assert add_from(mine, engine, str(packs[name]))[1]
            verdicts = thoth_json(mine, "stacks", INDEX_CACHE=str(mine.index_cache))
            seen.append((evidence(mine, engine).to_json(), json.dumps(verdicts)))
            engine.dispose()
    assert seen[0] == seen[1]
    assert {it["origin"] for it in json.loads(seen[0][1])["groups"]} == {
        opened(packs[it]).digest for it in ("one", "two")
    }


def test_pack_is_added_once_and_removed_completely(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    add_from(own, relational, str(packs["one"]))
    before, stored = row_counts(relational), bodies(own)
    (listed,) = json.loads(run_here(list_packs, own, "--json").stdout)["packs"]
    assert (listed["name"], listed["decides"]) == ("one", False)
    pack, new = add_from(own, relational, str(packs["two"]))
    assert new
    assert not add_from(own, relational, str(packs["two"]))[1]
    assert len(evidence(own, relational).packs) == 2
    removed = run_here(remove, own, pack.digest[:15])
    assert removed.exit_code == 0, removed.stderr
    assert row_counts(relational) == before
    assert bodies(own) == stored
    assert [it.name for it in evidence(own, relational).packs] == ["one"]
    assert not list(own.index_cache.glob(f"packs/{pack.digest[7:]}*"))


def test_invalid_pack_is_refused_as_a_whole(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    before = row_counts(relational)
    packs["one"].write_bytes(packs["one"].read_bytes().replace(b"1.26.4", b"1.26.5"))
    with pytest.raises(InvalidPack) as refused:
        add_from(own, relational, str(packs["one"]))
    assert refused.value.reason == Reason.TAMPERED
    assert row_counts(relational) == before


def test_pack_replaced_during_its_check_is_stored_in_the_checked_version(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def check_and_change(pack: Pack, progress: Any) -> None:
        check_contents(pack, progress)
        packs["one"].write_bytes(packs["two"].read_bytes())

    monkeypatch.setattr("adviser.packs.pack_contents.check_contents", check_and_change)
    pack, _ = add_from(own, relational, str(packs["one"]))
    assert [it.digest for it in evidence(own, relational).packs] == [pack.digest]


def test_pack_signed_again_with_another_key_is_refused(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path], published: Path
) -> None:
    pack, _ = add_from(own, relational, str(packs["one"]))
    sign_pack(packs["one"], read_private_key(published / "two.key"), Assurance.SELF_ATTESTED)
    with pytest.raises(InvalidPack) as refused:
        add_from(own, relational, str(packs["one"]))
    assert refused.value.reason == Reason.CONFLICTING_FIELDS
    assert [it.key for it in evidence(own, relational).packs] == [pack.key]


def test_parts_shared_with_a_removed_pack_are_kept(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    first, second = (add_from(own, relational, str(packs[it]))[0] for it in ("one", "one-again"))
    assert row_counts(relational)["pack_parts"] > row_counts(relational)["documents"]
    remove_packed(relational, own, first.digest)
    (kept,) = evidence(own, relational).packs
    assert kept.digest == second.digest


def test_own_measurements_confirm_or_overrule_packs(
    stores: Stores, packs: dict[str, Path], published: Path, tmp_path: Path
) -> None:
    policy, locks = tmp_path / "packs.toml", [tmp_path / f"{it}.txt" for it in VERSIONS]
    keys = [opened(packs[it]).key for it in ("one", "two")]
    policy.write_text("\n".join(f'[[rules]]\nkey = "{it}"\n' for it in keys))
    for path, version in zip(locks, VERSIONS, strict=True):
        path.write_text(f"numpy=={version}\n")
    mine = replace(of_store(stores.settings, tmp_path / "store"), packs_policy=policy)
    add_from(mine, stores.engine, str(packs["one"]))
    with stores.engine.connect() as connection:
        (hardware,) = known_hardware(connection, mine)
    options = ("--offline", "--python", "3.11", "--hardware", hardware.digest[7:15], "--json")

    def claim() -> dict[str, Any]:
        document = json.loads(run_here(guard, mine, *map(str, locks), *options).stdout)
        (found,) = document["claims"]
        assert found["verdict"] == "faster"
        return dict(found)

    assert claim()["origin"]["name"] == "one"
    add_from(mine, stores.engine, str(packs["two"]))
    assert run_here(ingest, mine, "inspections", str(published / "inspections/own")).exit_code == 0
    own = claim()
    assert (own.get("origin"), own["confirms"], own["overrules"]) == (None, ["one"], ["two"])


_KILLED = """
import os, signal, sys
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record import packs
from loop.pack_exchange import add_from

add, parts = packs.add_documents, []
def add_some(*arguments):
    parts.append(arguments)
    if len(parts) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(*arguments)
packs.add_documents = add_some
settings = Settings.from_env()
add_from(settings, relational_engine(settings), sys.argv[1])
"""


def test_killed_addition_of_a_pack_leaves_no_rows(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    before = row_counts(relational)
    command = [sys.executable, "-c", _KILLED, str(packs["one"])]
    done = subprocess.run(
        command, env=os.environ | variables(own), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert row_counts(relational) == before
    assert add_from(own, relational, str(packs["one"]))[1]


def test_damaged_pack_cache_is_rewritten(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    add_from(own, relational, str(packs["one"]))
    known = evidence(own, relational).to_json()
    with relational.connect() as connection:
        (hardware,) = known_hardware(connection, own)
    assert hardware.digest in evidence(own, relational).hardware
    (table,) = own.index_cache.glob("packs/*/observations/**/*.parquet")
    table.write_bytes(b"changed")
    _opened.cache_clear()
    assert evidence(own, relational).to_json() == known


def test_pack_with_too_many_measurements_is_not_used(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    add_from(own, relational, str(packs["one"]))
    monkeypatch.setattr("adviser.packs.pack_evidence.MAX_MEASUREMENTS", 1)
    assert evidence(own, relational) is NOTHING


def test_unreadable_pack_is_listed_but_not_used(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path]
) -> None:
    add_from(own, relational, str(packs["one"]))
    with relational.begin() as connection:
        connection.execute(update(PackRow).values(manifest="{}"))
    assert evidence(own, relational) is NOTHING
    (listed,) = json.loads(run_here(list_packs, own, "--json").stdout)["packs"]
    assert (listed["name"], listed["decides"]) == ("one", False)
    assert run_here(remove, own, "one").exit_code == 0


@pytest.mark.parametrize("place", ["folder", "site", "bucket"])
def test_followed_pack_addresses_are_checked_for_new_packs(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path], tmp_path: Path,
    place: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "published"
    folder.mkdir()
    with site() as served, ExitStack() as stack:
        addresses = {"folder": str(folder), "site": served.url, "bucket": "s3://knowledge/packs"}
        address = addresses[place]
        bucket = stack.enter_context(object_store(monkeypatch)) if place == "bucket" else None

        def publish(name: str, damaged: bool = False) -> None:
            archive = Path(shutil.copy(packs[name], folder))
            write_index(folder)
            if damaged:
                archive.write_bytes(archive.read_bytes().replace(b"1.26.4", b"1.26.5"))
            served.bodies.update({f"/{it.name}": it.read_bytes() for it in folder.iterdir()})
            if bucket is not None:
                bucket.put(f"{folder}/", "knowledge/packs/", recursive=True)

        publish("one")
        assert follow_packs(own, relational, address).added == ["one"]
        publish("two", damaged=True)
        night = read_followed_addresses(own, relational)
        assert night["refused"].keys() == {"two.tar"}
        (refused,) = list_quarantine(own)
        assert (refused.source, refused.place) == (address, "two.tar")
        publish("two")
        assert read_followed_addresses(own, relational)["added"] == ["two"]
        assert read_followed_addresses(own, relational)["added"] == list_quarantine(own) == []
        assert len(evidence(own, relational).packs) == 2


def test_nightly_run_reads_followed_pack_addresses(
    stores: Stores, packs: dict[str, Path], tmp_path: Path
) -> None:
    mine, folder = of_store(stores.settings, tmp_path / "store"), tmp_path / "published"
    folder.mkdir()
    write_index(folder)
    follow_packs(mine, stores.engine, str(folder))
    shutil.copy(packs["one"], folder)
    write_index(folder)
    night = thoth_json(mine, "ingest", "nightly", INDEX_CACHE=str(mine.index_cache))
    assert night["packs"] == {"addresses": 1, "added": ["one"], "refused": {}, "unread": {}}
    (folder / "packs.json").unlink()
    done = thoth(mine, "ingest", "nightly", "--json")
    assert run_here(unfollow, replace(mine, pack_addresses=("/else",)), str(folder)).exit_code == 0
    assert (done.returncode, *json.loads(done.stdout)["packs"]["unread"]) == (1, str(folder))


def test_pack_index_may_name_only_files_below_it(
    own: Settings, relational: sqlalchemy.Engine, packs: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    for address in ("../one", "/etc/passwd", "https://index.example/pack.tar", ".git/x"):
        entry = {"name": "p", "digest": "sha256:" + "a" * 64, "size_bytes": 1, "address": address}
        index = {"schema_version": "packs-1", "packs": [entry]}
        (folder / "packs.json").write_text(json.dumps(index))
        with pytest.raises(InvalidDocument) as refused:
            follow_packs(own, relational, str(folder))
        assert refused.value.field == "$.packs[0].address"
    shutil.copy(packs["one"], folder / "not one word.tar")
    with pytest.raises(InvalidArgument):
        write_index(folder)
    assert row_counts(relational)["followed_addresses"] == 0


def test_packs_are_read_only_from_allowed_addresses(own: Settings, tmp_path: Path) -> None:
    limited = replace(own, pack_addresses=("https://packs.example/ours", str(tmp_path)))
    assert pack_address(limited, "https://packs.example/ours/one.tar")
    assert pack_address(limited, str(tmp_path / "one"))
    for address in (
        "https://packs.example/ours-too/one.tar", "https://packs.example/ours/%2E%2e/one.tar", "https://jo:secret@packs.example/ours/one.tar",
        "ftp://packs.example/one.tar", str(tmp_path / ".." / "one"), "/etc",
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            pack_address(limited, address)
