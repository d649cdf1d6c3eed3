"""``--fetch``: what a request lacks is read from indexes of our own, then answered."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from graph.engine import Stores
from graph.projection import lag
from graph.record.freshness import FEW_ENTRIES
from graph.record.releases import ReleaseDelivery, add_releases
from graph.tables import OutboxEntry
from tests.factories.advisories import HIGH, affected, osv
from tests.factories.releases import release
from tests.services.advisories import Record
from tests.services.commands import thoth
from tests.services.index import Index, package_index, status
from tests.services.ports import closed_port

WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")


@pytest.fixture
def other() -> Iterator[Index]:
    """A second index, empty."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that asks for ``app``."""
    return asking(tmp_path, "app\n")


def asking(folder: Path, manifest: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "requirements.in").write_text(manifest, encoding="utf-8")
    return folder


def at(index: Index, **more: Index) -> dict[str, str]:
    """The variables that name the default index, and others."""
    urls = {"pypi": index.url, **{name: it.url for name, it in more.items()}}
    return {"PACKAGE_INDEXES": " ".join(f"{name}={url}" for name, url in urls.items())}


def versions(stdout: str) -> dict[str, str]:
    report: dict[str, Any] = json.loads(stdout)
    (product,) = report["result"]["report"]["products"]
    return {it["name"]: it["version"] for it in product["packages"]}


def asked_for(index: Index) -> set[str]:
    return {path for path in index.paths if path.startswith("/simple/")}


def test_optimal_advice_is_possible_with_an_empty_store(
    stores: Stores, index: Index, project: Path
) -> None:
    fetch = ("advise", str(project), *WHERE, "--fetch", "--json")
    done = thoth(stores.settings, *fetch, **at(index))
    assert done.returncode == 0, done.stderr
    assert versions(done.stdout) == {"app": "1.1", "lib": "2.0"}
    assert json.loads(done.stdout)["result"]["report"]["certificate"]["status"] == "optimal"
    assert "read 2 of 3 listed releases of 2 packages" in done.stderr
    assert "in 1 round and 4 requests (0.0 MB)" in done.stderr
    asked = list(index.paths)
    again = thoth(stores.settings, *fetch, **at(index))
    assert versions(again.stdout) == {"app": "1.1", "lib": "2.0"}
    assert "read " not in again.stderr
    assert index.paths == asked
    revisions = [
        json.loads(it.stdout)["result"]["report"]["certificate"]["snapshot"] for it in (done, again)
    ]
    assert revisions[0] == revisions[1]


def test_advice_from_the_store_first_updates_the_graph(
    stores: Stores, index: Index, project: Path
) -> None:
    # An advice over all listed versions stores releases in the same way, without projecting them.
    releases = [release("lib", f"1.{number}") for number in range(FEW_ENTRIES)]
    with stores.engine.begin() as connection:
        deliveries = [ReleaseDelivery(it, "test", datetime.now(UTC)) for it in releases]
        add_releases(connection, stores.settings, deliveries)
    behind = lag(stores.engine).count
    assert behind > FEW_ENTRIES
    (project / "requirements.in").write_text("lib\n", encoding="utf-8")
    offline = ("advise", str(project), *WHERE, "--offline", "--json")
    done = thoth(stores.settings, *offline, **at(index))
    assert done.returncode == 0, done.stdout + done.stderr
    assert versions(done.stdout) == {"lib": f"1.{FEW_ENTRIES - 1}"}
    assert f"the graph is {behind} changes behind the record: catching up" in done.stderr
    assert "warning" not in done.stderr
    assert lag(stores.engine).count == 0


def test_infeasibility_is_not_concluded_from_an_outdated_graph(
    stores: Stores, index: Index, project: Path
) -> None:
    stored = thoth(stores.settings, "advise", str(project), *WHERE, "--json", **at(index))
    assert stored.returncode == 0, stored.stderr
    with stores.engine.begin() as connection:
        # The projection refuses entries of a newer version, before it projects packages.
        entries = [{"kind": "forecast", "key": "1"}, {"kind": "package", "key": "app"}]
        connection.execute(insert(OutboxEntry), entries)
    (project / "requirements.in").write_text("app>=9\n", encoding="utf-8")
    done = thoth(stores.settings, "advise", str(project), *WHERE, "--offline", **at(index))
    assert done.returncode == 3
    assert "changes behind the record, the oldest of" in done.stderr
    assert "warning: the graph is still" in done.stderr
    assert "changes are not projected yet: app" in done.stderr
    assert "thoth graph sync" in done.stderr
    assert "proven: no stack" not in done.stdout


def test_archived_project_is_reported_online_and_later_offline(
    stores: Stores, index: Index, project: Path
) -> None:
    index.states["lib"] = {"status": "archived", "reason": "use app"}

    def told(*how: str) -> list[str]:
        done = thoth(stores.settings, "advise", str(project), *WHERE, *how, "--json", **at(index))
        assert done.returncode == 0, done.stderr
        (product,) = json.loads(done.stdout)["result"]["report"]["products"]
        return [it["message"] for it in product["justification"] if "archived" in it["code"]]

    message = "pypi says that lib is archived: use app"
    assert told("--fetch") == [message]
    assert told("--offline", "--type", "security") == [message]


def test_offline_advice_with_an_empty_store_names_the_remedy(
    stores: Stores, index: Index, project: Path
) -> None:
    done = thoth(stores.settings, "advise", str(project), *WHERE, "--offline", **at(index))
    assert done.returncode == 3
    assert "nothing is proven: 1 package or version was not read" in done.stdout
    (line,) = [it for it in done.stdout.splitlines() if "the store has none" in it]
    assert "none of the required packages: `thoth advise` without `--offline` reads" in line
    assert "--fetch" not in done.stdout
    assert "`thoth packages add app`" in line
    assert index.paths == []


def test_why_and_why_not_read_missing_packages(stores: Stores, index: Index, project: Path) -> None:
    index.add_wheel("extra", "1.0")
    at_project = ("--project", str(project), *WHERE, "--fetch", "--json")
    done = thoth(stores.settings, "why", "lib", *at_project, **at(index))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == "2.0"
    done = thoth(stores.settings, "why-not", "extra==1.0", *at_project, **at(index))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "possible"


def test_package_names_owned_by_an_index_are_taken_from_no_other_index(
    stores: Stores, index: Index, other: Index, tmp_path: Path
) -> None:
    """Somebody has published our names on the first index."""
    other.add_wheel("acmeapp", "1.0", metadata="Requires-Dist: AcmeCore\nRequires-Dist: lib\n")
    other.add_wheel("acmecore", "1.0")
    for name in ("acmeapp", "acmecore", "acmegone"):
        index.add_wheel(name, "99.0")
    project = asking(tmp_path / "ours", "acmeapp\n")
    searching = ("--index", "pypi", "--index", "other", "--json")
    fetch = ("advise", str(project), *WHERE, "--fetch")
    confused = thoth(stores.settings, *fetch, *searching, **at(index, other=other))
    assert versions(confused.stdout)["acmeapp"] == "99.0"
    owned = {**at(index, other=other), "INDEX_NAMESPACES": "other=ACME*,lib-*"}
    ours = {"acmeapp": "1.0", "acmecore": "1.0", "lib": "2.0"}
    index.seen.clear()
    for arguments in ((*fetch, *searching), (*fetch, "--index", "pypi", "--json")):
        done = thoth(stores.settings, *arguments, **owned)
        assert done.returncode == 0, done.stderr
        assert versions(done.stdout) == ours
    assert not any("acme" in path for path in asked_for(index))
    assert "the index other owns this name" in done.stdout
    # Both are in the store by now.
    offline = ("advise", str(project), *WHERE, "--offline", *searching)
    assert versions(thoth(stores.settings, *offline, **owned).stdout) == ours
    gone = asking(tmp_path / "gone", "acmegone\n")
    missing = thoth(stores.settings, "advise", str(gone), *WHERE, "--fetch", *searching, **owned)
    assert missing.returncode == 1
    assert "acmegone: other does not have it" in missing.stderr
    misspelt = {**at(index), "INDEX_NAMESPACES": "othr=acme*"}
    for mode, code in (("--fetch", 3), ("--offline", 1)):
        closed = thoth(stores.settings, "advise", str(project), *WHERE, mode, **misspelt)
        assert closed.returncode == code
        (warning,) = [it for it in closed.stdout.splitlines() if it.startswith("warning: the inde")]
        assert "INDEX_NAMESPACES says that only this index may have acme*" in warning
        assert "--index" not in warning
    fetched = thoth(stores.settings, "advise", str(project), *WHERE, "--fetch", **misspelt)
    only = "acmeapp: only othr may have it (INDEX_NAMESPACES), but the index othr is not configured"
    assert only in fetched.stderr
    assert (
        "hint: configure the index on this machine (PACKAGE_INDEXES), or correct" in fetched.stderr
    )


def test_package_with_a_named_index_is_requested_from_no_other_index(
    stores: Stores, index: Index, other: Index, tmp_path: Path
) -> None:
    index.add_wheel("mine", "9.0")
    (tmp_path / "Pipfile").write_text(
        f"""
[[source]]
name = "pypi"
url = "{index.url}"
verify_ssl = false

[[source]]
name = "own"
url = "{other.url}"
verify_ssl = false

[packages]
app = "*"
mine = {{version = "*", index = "own"}}
""",
        encoding="utf-8",
    )
    fetch = ("advise", str(tmp_path), *WHERE, "--fetch", "--json")
    unknown = thoth(stores.settings, *fetch, **at(index))
    assert unknown.returncode == 3
    assert json.loads(unknown.stdout)["result"]["report"]["certificate"]["status"] == "unknown"
    assert f"still missing: mine: the index {other.url} is not configured" in unknown.stderr
    missing = thoth(stores.settings, *fetch, **at(index, own=other))
    assert missing.returncode == 1
    assert "still missing: mine: own does not have it" in missing.stderr
    assert "(--index); configured: pypi, " in missing.stderr
    other.add_wheel("mine", "1.0")
    done = thoth(stores.settings, *fetch, **at(index, own=other))
    assert done.returncode == 0, done.stderr
    assert versions(done.stdout)["mine"] == "1.0"
    assert "/simple/mine/" not in asked_for(index)


def test_advice_from_the_store_names_the_unreachable_index(
    stores: Stores, index: Index, other: Index, tmp_path: Path
) -> None:
    index.add_wheel("app", "1.2", metadata="Requires-Dist: later\n")
    project = asking(tmp_path, "app\n")
    known = thoth(stores.settings, "packages", "add", "app", **at(index))
    assert known.returncode == 0, known.stderr
    other.add_wheel("later", "6.6.6")
    gone = f"pypi=http://127.0.0.1:{closed_port()}/simple other={other.url}"
    done = thoth(
        stores.settings, "advise", str(project), *WHERE, "--fetch", "--json",
        "--index", "pypi", "--index", "other", PACKAGE_INDEXES=gone,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert versions(done.stdout) == {"app": "1.1", "lib": "2.0"}
    assert "warning: app: it was not read from pypi: " in done.stderr
    assert "warning: the indexes gave no page of a required package" in done.stderr
    assert "the answer covers only the versions in the store" in done.stderr
    assert not {"error:", "missing"} & set(done.stderr.split())
    notes = json.loads(done.stdout)["result"]["report"]["stack_info"]
    assert "no index answered, so the answer covers only the versions in the store" in {
        it["message"] for it in notes
    }
    # What the silent index may have is not taken from a later one.
    assert other.paths == []


def test_next_index_is_not_used_after_an_invalid_page(
    stores: Stores, index: Index, other: Index, project: Path
) -> None:
    index.answers["/simple/app/"] = status(200, b"log in", Content_Type="text/html")
    other.add_wheel("app", "6.6.6")
    done = thoth(
        stores.settings, "advise", str(project), *WHERE, "--fetch", "--json",
        "--index", "pypi", "--index", "other", **at(index, other=other),
    )  # fmt: skip
    assert done.returncode == 3
    assert "[wrong_content_type]" in done.stderr
    assert other.paths == []


def test_advisories_apply_to_versions_read_from_the_index(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    harmful = osv("GHSA-aaaa-bbbb-cccc", affected("app", ("introduced", "1.1")), vector=HIGH)
    Record(stores.settings, stores.engine, tmp_path).sync(harmful)
    project = asking(tmp_path, "app\n")
    done = thoth(
        stores.settings, "advise", str(project), *WHERE, "--type", "security", "--fetch", "--json",
        **at(index),
    )  # fmt: skip
    assert versions(done.stdout) == {"app": "1.0", "lib": "2.0"}, done.stderr


def test_offline_advice_names_versions_without_wheels_for_a_python(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    for python, requires in (("cp310", "lib>=1"), ("cp311", "app>=1")):
        file = f"native-1.0-{python}-{python}-manylinux_2_17_x86_64.whl"
        index.add_file("native", file, f"{file} is never read".encode())
        metadata = f"Metadata-Version: 2.1\nName: native\nVersion: 1.0\nRequires-Dist: {requires}\n"
        index.offer_metadata(file, metadata.encode())
    advise = ("advise", str(asking(tmp_path, "native\n")), *WHERE[2:], "--json", "--python")
    for python, stack in (("3.10", {"native", "lib"}), ("3.11", {"native", "app", "lib"})):
        done = thoth(stores.settings, *advise, python, **at(index))
        assert versions(done.stdout).keys() == stack
        assert "for another Python" not in done.stdout
    offline = thoth(stores.settings, *advise, "3.11", "--offline", **at(index))
    assert versions(offline.stdout).keys() == {"native", "lib"}
    assert "the requirements of native only from wheels for another Python" in offline.stdout
    assert not thoth(stores.settings, "packages", "events", "native", "--json").stdout.count(
        "changed_requirements"
    )
