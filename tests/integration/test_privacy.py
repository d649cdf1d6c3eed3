"""No name, address, home folder or machine of a person is in any row, body or node."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from graph.engine import Stores
from graph.record import advisories
from graph.record.documents import INLINE_LIMIT_BYTES
from ingest.advisories import sync
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.benchmark_files import sample, sample_text, write_files
from tests.factories.documents import GENERATIONS, document_2020_02
from tests.factories.releases import release, release_document
from tests.services.advisories import Record
from tests.services.commands import ROOT, thoth
from tests.services.projection import deliver
from tests.services.stored_texts import stored_texts

DATA = Path(os.environ.get("THOTH_REAL_DATA") or ROOT.parent / "shared" / "data")
SAMPLES = ROOT / "samples"

_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b", re.IGNORECASE)
_FOLDER_OF_PERSON = re.compile(r"/(?:home|Users)/(\w+)|[A-Z]:\\+Users\\+(\w+)")
#: Users of container images.
_ROLES = {"amun", "solver"}
_NAMED = re.compile(r'"(?:author|poc_name|poc_email|authorEmail)" *: *"([^"]+)"')
#: Organisations, which paths of entries name; `source` is such a path.
_PUBLIC = {"Google", "Google Cloud TPU", "HaifanData"}


def run(settings: Settings, *command: str | Path, codes: tuple[int, ...] = (0,)) -> None:
    done = thoth(settings, *map(str, command))
    assert done.returncode in codes, (command, done.stderr)


def test_stores_contain_no_personal_data_of_ingested_documents(
    stores: Stores, tmp_path: Path
) -> None:
    mail, settings = "adalind.person@mail.example", stores.settings
    inspection = json.loads(next(GENERATIONS.rglob("*.json")).read_text("utf-8"))
    inspection |= {"author": "Adalind Person", "note": f"asked {mail}", "submitter_email": mail}
    release = release_document(
        "flask", license=f"MIT, {mail}", yanked=True, yanked_reason=f"asked {mail}"
    )
    advisory = osv(
        "GHSA-9",
        affected("flask", ("introduced", "0")),
        details=f"Found by {mail}",
        credits=[{"name": "Adalind Person", "contact": [f"mailto:{mail}"], "type": "FINDER"}],
    )
    entry, table = (it.decode() for it in sample("dawnbench/plain").values())
    entry = entry.replace("Jo Doe", "Adalind Person").replace("jo@mail.example", mail)
    write_files(
        tmp_path,
        {
            "inspections/whole.json": json.dumps(inspection),
            "inspections/late.json": json.dumps(document_2020_02(datetime=f"by {mail}")),
            "inspections/twice.json": f'{{"{mail}": 1, "{mail}": 2}}',
            "inspections/cut.json": f'{{"exit_code": 0, "stdout": "{mail}',
            "releases.jsonl": json.dumps(release),
            "results/CIFAR10/train/a.json": entry,
            "results/CIFAR10/train/a.tsv": table,
            "results/a.log": '/home/adalind/run.sh\n__exp.node_id__="adalind-laptop"\n'
            + sample_text("hpe-dlcookbook/plain"),
        },
    )
    archive = write_archive(tmp_path / "all.zip", [advisory])
    run(settings, "ingest", "inspections", tmp_path / "inspections", codes=(1,))
    run(settings, "packages", "import", tmp_path / "releases.jsonl")
    run(settings, "advisories", "sync", archive)
    run(settings, "ingest", "benchmarks", tmp_path / "results")
    texts = list(stored_texts(stores))
    assert sum(it.startswith("quarantine: ") for it in texts) == 3
    for kind in ("body of inspection", "body of release", "body of advisory", "graph: "):
        assert any(it.startswith(kind) for it in texts), kind
    assert [it for it in texts if re.search("adalind|person@|mailto", it, re.IGNORECASE)] == []


def test_advisory_sync_removes_personal_data_from_stored_advisories(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = "adalind.person@mail.example"
    persons = {"credits": [{"name": "Adalind Person"}], "details": f"Found by {mail}"}
    # Too large for PostgreSQL.
    long = random.Random(1).randbytes(INLINE_LIMIT_BYTES).hex()
    first = [
        osv("GHSA-8", credits=persons["credits"], database_specific={"text": long}),
        osv("GHSA-9", **persons),
        osv("CVE-9", affected("flask", ("introduced", "1"))),
    ]
    changed = osv("GHSA-9", modified="2024-02-01T00:00:00Z", aliases=["CVE-9"], **persons)
    record = Record(stores.settings, stores.engine, tmp_path)
    folder = Path(stores.settings.document_store_url.removeprefix("file://"))
    deliver(stores, [release("flask", "2.0")])
    with monkeypatch.context() as earlier:
        earlier.setattr(sync, "without_persons", lambda value, canonical: (value, canonical))
        earlier.setattr(advisories, "SCHEMA_VERSION", "osv-1")
        earlier.setattr(sync, "SCHEMA_VERSION", "osv-1")
        assert record.sync(*first).new == 3
        assert record.sync(changed, name="later.zip").updated == 1
    run(stores.settings, "graph", "sync")
    assert sum("Adalind" in it for it in stored_texts(stores)) == 3
    affecting = record.pairs

    count = (
        "SELECT schema_version, count(*) FROM documents WHERE kind = 'advisory'"
        " GROUP BY schema_version"
    )
    with monkeypatch.context() as killed:
        killed.setattr(sync, "delete_unreferenced_bodies", interrupt)
        with pytest.raises(KeyboardInterrupt):
            record.sync(changed, name="later.zip")
    assert record.sync(changed, name="later.zip").unchanged
    run(stores.settings, "graph", "sync")
    texts = list(stored_texts(stores))
    assert [it for it in texts if re.search("adalind|person@", it, re.IGNORECASE)] == []
    assert record.rows(count) == [("osv-2", 4)]
    assert len(list(folder.rglob("*.zst"))) == 1
    assert record.pairs == affecting
    run(stores.settings, "record", "verify")
    run(stores.settings, "graph", "verify")


def interrupt(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_samples_contain_no_personal_data(stores: Stores) -> None:
    load(stores.settings, SAMPLES / "inspections.tar.gz", SAMPLES / "packages.jsonl.gz")
    assert personal_texts(stores, set()) == []


@pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)
def test_real_documents_contain_no_personal_data(stores: Stores) -> None:
    files = [it for it in DATA.rglob("*") if it.is_file() and it.stat().st_size < 2**20]
    contents = [it.read_text(encoding="utf-8", errors="replace") for it in files]
    names = {name for content in contents for name in _NAMED.findall(content)} - _PUBLIC
    assert len(names) > 2
    # A submission in another form is refused.
    folders = [it for it in DATA.iterdir() if it.name != "sources"]
    folders += [DATA / "sources" / it for it in ("django-asv", "sunpy-asv", "llm-serving")]
    run(stores.settings, "ingest", "benchmarks", *folders, codes=(1,))
    load(stores.settings, DATA, *DATA.rglob("*.jsonl.gz"))
    personal = personal_texts(
        stores, {it.lower() for it in names} | {"authoremail", "poc_", "@cornell"}
    )
    assert personal == []


def load(settings: Settings, inspections: Path, *releases: Path) -> None:
    run(settings, "ingest", "inspections", inspections, codes=(0, 1))
    for path in releases:
        run(settings, "packages", "import", path, codes=(0, 1))
    run(settings, "graph", "sync")


def personal_texts(stores: Stores, names: set[str]) -> list[str]:
    """What names a person, with the text around it."""
    personal: list[str] = []
    for text in stored_texts(stores):
        given = text.replace(str(DATA), "").replace(str(ROOT), "")
        lower = given.lower()
        places: list[Any] = [it.start() for it in _MAIL.finditer(given) if "git@" not in it[0]]
        places += [
            it.start() for it in _FOLDER_OF_PERSON.finditer(given) if (it[1] or it[2]) not in _ROLES
        ]
        places += [lower.find(it) for it in names if it in lower]
        personal += [f"{text[:40]} … {given[max(0, it - 60) : it + 60]}" for it in places]
    return personal
