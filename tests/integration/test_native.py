"""Analyses in both stores, and what a wheel needs that an environment does not provide."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, event, func, select

from cli.analyze import analyze
from common.settings import Settings
from graph.engine import Stores
from graph.record.native import (
    MissingInterface,
    add_analysis,
    artifacts_by_hash,
    artifacts_of,
    environments_called,
    missing_interfaces,
)
from graph.tables import (
    ArtifactInterface,
    Document,
    NativeEnvironmentInterface,
    NativeInterfaceRow,
    OutboxEntry,
    PackageRow,
    PackageVersionRow,
)
from ingest.native.environments import analyze_host, analyze_image
from ingest.native.wheels import analyze_wheel, differences, record_analysis
from model.errors import InvalidArgument
from tests.factories.native import AARCH64, elf, layer, write_wheel
from tests.services.commands import run_here, thoth, thoth_json
from tests.services.projection import answer, project, verified

EXTENSION = elf(
    needed=("libc.so.6", "libcudart.so.12"),
    needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.34"], "libcudart.so.12": ["libcudart.so.12"]},
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path, {"demo/_core.abi3.so": EXTENSION, "demo/__init__.py": b""})


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The root of an old system."""
    path = tmp_path / "old.tar"
    libc = elf("libc.so.6", defines=("GLIBC_2.17",))
    release = b"ID=old\nVERSION_ID=7\n"
    path.write_bytes(layer([("lib/libc.so.6", libc), ("etc/os-release", release)]))
    return path


def _kinds(engine: Engine) -> Counter[str]:
    with engine.connect() as connection:
        return Counter(connection.scalars(select(OutboxEntry.kind)))


def _count(engine: Engine, table: type) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def test_native_analysis_takes_its_lock_before_the_first_write(
    settings: Settings, relational: Engine, wheel: Path
) -> None:
    seen: list[str] = []
    event.listen(relational, "before_cursor_execute", lambda *given: seen.append(given[2]))
    with relational.begin() as connection:
        add_analysis(connection, settings, analyze_wheel(wheel), "test")
    locks = [place for place, it in enumerate(seen) if "pg_advisory_xact_lock_shared" in it]
    writes = [place for place, it in enumerate(seen) if it.lstrip().startswith("INSERT")]
    assert locks[0] < writes[0]


def test_native_analysis_is_stored_once_with_its_outbox_entries(
    settings: Settings, relational: Engine, wheel: Path, image: Path
) -> None:
    found = analyze_wheel(wheel)
    for expected in (True, False):
        with relational.begin() as connection:
            assert add_analysis(connection, settings, found, "a file") is expected
            assert add_analysis(connection, settings, analyze_image(str(image)), "x") is expected
    assert _kinds(relational) == {
        "artifact": 1, "native_environment": 1, "package": 1, "package_version": 1,
    }  # fmt: skip
    assert _count(relational, ArtifactInterface) == 5
    assert _count(relational, NativeEnvironmentInterface) == 2
    assert _count(relational, NativeInterfaceRow) == 5
    with relational.connect() as connection:
        version = connection.execute(select(PackageVersionRow.purl, PackageVersionRow.state)).one()
        assert tuple(version) == ("pkg:pypi/demo@1.0", "unread")
        assert connection.scalars(select(PackageRow.name)).all() == ["demo"]
        kinds = connection.execute(select(Document.kind, Document.schema_version).distinct())
        assert kinds.all() == [("analysis", "analysis-1")]


def test_native_analyses_are_found_by_hash_name_or_digest(
    settings: Settings, relational: Engine, wheel: Path, image: Path, tmp_path: Path
) -> None:
    found, system = analyze_wheel(wheel), analyze_image(str(image))
    (tmp_path / "new").mkdir()
    newer = tmp_path / "new" / image.name
    newer.write_bytes(layer([("lib/libc.so.6", elf("libc.so.6", defines=("GLIBC_2.39",)))]))
    latest = analyze_image(str(newer))
    for analysis in (found, system, latest):
        with relational.begin() as connection:
            add_analysis(connection, settings, analysis, "x")
    with relational.connect() as connection:
        assert artifacts_by_hash(connection, found.sha256[:10]) == artifacts_of(
            connection, "pkg:pypi/demo@1.0"
        )
        assert artifacts_by_hash(connection, "%") == []
        called = environments_called(connection, "old.tar")
        assert [it.digest for it in called] == [latest.digest, system.digest]
        for wanted in (system.digest, system.digest[7:20], system.digest[:20]):
            assert [it.digest for it in environments_called(connection, wanted)] == [system.digest]
        assert environments_called(connection, "absent") == []


def test_arcadedb_and_neo4j_answer_which_interfaces_are_missing(
    graph_settings: Settings, relational: Engine, graph_driver: object, wheel: Path, image: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    settings = graph_settings
    stores = Stores(settings, relational, graph_driver)  # type: ignore[arg-type]
    runtime = write_wheel(
        tmp_path, {"rt/libcudart.so.12": elf("libcudart.so.12", defines=("libcudart.so.12",))},
        "cuda_runtime-12.0-py3-none-manylinux_2_17_x86_64",
    )  # fmt: skip
    found, system = analyze_wheel(wheel), analyze_image(str(image))
    with relational.begin() as connection:
        for analysis in (found, system, analyze_wheel(runtime)):
            add_analysis(connection, settings, analysis, "x")
    with stores.driver.session(database=stores.database) as session:
        assert session.execute_read(missing_interfaces, found.sha256, system.digest) is None
        project(stores)
        project(stores)
        cuda = ("libcudart.so.12", ("cuda-runtime",))
        assert session.execute_read(missing_interfaces, found.sha256, system.digest) == [
            MissingInterface("libc.so.6:GLIBC_2.34", "libc.so.6", "GLIBC_2.34"),
            MissingInterface("libcudart.so.12", cuda[0], None, cuda[1]),
            MissingInterface(f"{cuda[0]}:{cuda[0]}", cuda[0], cuda[0], cuda[1]),
        ]
    assert answer(
        stores,
        "MATCH (v:PackageVersion {purl: $purl})-[:BUILT_AS]->(a:Artifact) RETURN a.imports",
        purl="pkg:pypi/demo@1.0",
    ) == [[["demo"]]]
    assert verified(stores).equal


def test_installed_numpy_has_all_interfaces_on_this_machine(
    stores: Stores, settings: Settings, tmp_path: Path
) -> None:
    package = Path(np.__file__).parent
    members = {f"numpy/{it.name}": it.read_bytes() for it in package.rglob("*.so*")}
    libraries = {
        f"numpy.libs/{it.name}": it.read_bytes()
        for it in (package.parent / "numpy.libs").glob("*.so*")
    }
    found = analyze_wheel(write_wheel(tmp_path, {**members, **libraries}, "numpy-1.0-py3-none-any"))
    assert found.needs
    host = analyze_host("here")
    for analysis in (found, host):
        recorded = record_analysis(settings, analysis, "x")
        assert recorded.new
        assert recorded.graph_error is None
    (difference,) = differences(settings, "numpy==1.0", "here")
    assert difference.missing == ()
    assert difference.architectures == ()


def test_wheel_for_another_architecture_is_reported_as_not_fitting(
    stores: Stores, settings: Settings, tmp_path: Path, image: Path
) -> None:
    foreign = write_wheel(
        tmp_path, {"x/a.so": elf(needed=("libc.so.6",), machine=AARCH64)},
        "demo-1.0-cp311-cp311-manylinux_2_17_aarch64",
    )  # fmt: skip
    record_analysis(settings, analyze_wheel(foreign), "x")
    record_analysis(settings, analyze_image(str(image)), "x")
    (difference,) = differences(settings, "demo==1.0", "old.tar")
    assert (difference.missing, difference.architectures) == ((), ("aarch64",))
    with pytest.raises(InvalidArgument, match="no environment"):
        differences(settings, "demo==1.0", "absent")
    with pytest.raises(InvalidArgument, match="no wheel"):
        differences(settings, "demo==2.0", "old.tar")


def test_analyze_commands_list_the_missing_interfaces_of_a_wheel(
    stores: Stores, settings: Settings, wheel: Path, image: Path
) -> None:
    shown = thoth_json(settings, "analyze", "wheel", str(wheel), "--ingest")
    assert shown["recorded"] == {"new": True, "graph_error": None}
    assert shown["highest"] == {"CUDA": "12", "GLIBC": "2.34"}
    again = thoth_json(settings, "analyze", "wheel", str(wheel), "--ingest")
    assert again["recorded"]["new"] is False
    system = thoth_json(settings, "analyze", "image", str(image), "--name", "old", "--ingest")
    assert system["provides"] == {"libc.so.6": ["GLIBC_2.17"]}
    done = thoth(settings, "analyze", "missing", shown["sha256"], "--on", "old")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "  libc.so.6: lacks GLIBC_2.34",
        "  libcudart.so.12: missing",
    ]
    refused = thoth(settings, "analyze", "missing", "demo==1.0", "--on", "nowhere")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no environment 'nowhere' is recorded" in refused.stderr


def test_wheel_of_a_configured_index_can_be_analysed_by_name(
    settings: Settings, wheel: Path, tmp_path: Path
) -> None:
    folder = {"PACKAGE_INDEXES": f"mine={wheel.parent.as_uri()}"}
    target = ("--index", "mine", "--python", "3.11", "--platform", "linux_x86_64")
    shown = thoth_json(settings, "analyze", "wheel", "demo==1.0", *target, **folder)
    assert (shown["purl"], shown["filename"]) == ("pkg:pypi/demo@1.0?index=mine", wheel.name)
    other = (*target[:-1], "win_amd64")
    done = thoth(settings, "analyze", "wheel", "demo==1.0", *other, **folder)
    assert done.returncode == 2
    assert "built for linux_x86_64, this environment has win_amd64" in done.stderr


def test_analysis_of_a_broken_library_exits_with_1(settings: Settings, tmp_path: Path) -> None:
    path = write_wheel(tmp_path, {"demo/a.so": EXTENSION[:200]})
    for problem in ("demo/a.so", "archive_broken"):
        done = run_here(analyze, settings, "wheel", str(path))
        assert (done.exit_code, problem in done.stderr) == (1, True)
        path.write_bytes(b"no archive")
