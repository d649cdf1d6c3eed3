"""The frozen view: its canonical form, its revision, and that nothing can change it."""

import dataclasses
import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from packaging.tags import Tag

from graph.snapshot_reader import freeze, walk
from model.errors import InvalidDocument, Reason
from model.packages.candidate_builder import roots_of
from model.packages.candidates import Candidate, KnownVulnerability
from model.packages.environments import Environment, environment
from model.packages.snapshot import CandidateTuple, Snapshot, with_revision
from tests.factories.errors import raised
from tests.factories.worlds import Made, World, reader_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")

WORLD = (
    Made("a", "2", ("b[x]>=1; os_name == 'posix'", "missing-one"), yanked=True, yanked_reason="no"),
    Made("a", "1", ("b<2",), requires_python=">=3.12"),
    Made("b", "1", ("c; extra == 'x'",), extras=("x", "y")),
    Made("c", "1.0rc1", uploaded_at="2024-05-01T10:00:00+02:00"),
)
AFFECTED = {"pkg:pypi/b@1": [KnownVulnerability("V-2"), KnownVulnerability("V-1", "high", 7.5)]}


def snapshot(world: World = WORLD, *roots: str, there: Environment = LINUX) -> Snapshot:
    wanted = roots_of(roots or ["a>=1"], there)
    return freeze(walk(reader_of(world), wanted, there), AFFECTED, wanted, there)


def test_snapshot_is_read_back_from_json() -> None:
    there = snapshot()
    again = Snapshot.from_json(there.to_json())
    assert again == there
    assert again.to_json() == there.to_json()


def test_snapshot_with_shared_rows_is_serialised_like_one_with_separate_rows() -> None:
    there = snapshot()
    packages = {
        name: tuple(replace(it, requires=(), read=it.version != "1") for it in candidates)
        for name, candidates in there.packages.items()
    }
    apart = with_revision(replace(there, packages=packages))
    shared = {name: CandidateTuple(candidates) for name, candidates in packages.items()}
    together = with_revision(replace(there, packages=shared))
    assert apart.unread_count == 1
    assert together.to_json() == apart.to_json()
    assert Snapshot.from_json(together.to_json()).to_json() == apart.to_json()


@pytest.mark.parametrize("platform", ["macosx_14_0_arm64", "win_amd64", "musllinux_1_2_aarch64"])
def test_environment_of_a_snapshot_is_read_back_from_json(platform: str) -> None:
    there = snapshot(there=environment("3.12", platform, cuda="12.4"))
    assert Snapshot.from_json(there.to_json()).environment == there.environment


def test_snapshot_can_be_pickled() -> None:
    there = snapshot()
    assert pickle.loads(pickle.dumps(there)) == there  # noqa: S301 - made here


def test_snapshot_json_has_the_documented_form() -> None:
    form = json.loads(snapshot().to_json())
    assert form["requirements"] == [
        {"name": "b", "specifier": ">=1", "extras": ["x"]},
        {"name": "missing-one"},
        {"name": "c", "extra": "x"},
    ]
    (newest,) = form["packages"]["a"]
    assert newest.pop("wheel_rank") == LINUX.ranks[Tag("py3", "none", "any")]
    assert newest == {
        "purl": "pkg:pypi/a@2",
        "version": "2",
        "index": "pypi",
        "yanked": True,
        "yanked_reason": "no",
        "requires": [0, 1],
        "uploaded_at": "2024-05-01T10:00:00.123456Z",
    }
    assert form["packages"]["c"][0]["prerelease"] is True
    assert form["excluded"]["a"][0]["reason"] == "requires_python"
    assert form["missing"] == ["missing-one"]
    assert form["layers"] == [["a"], ["b", "missing-one"], ["c"]]
    assert form["revisions"]["missing-one"] is None


def test_snapshot_candidates_have_vulnerabilities_and_upload_times() -> None:
    there = snapshot()
    assert [it.id for it in there.packages["b"][0].vulnerabilities] == ["V-1", "V-2"]
    assert there.packages["c"][0].uploaded_at == datetime(2024, 5, 1, 8, tzinfo=UTC)


def test_snapshot_is_immutable() -> None:
    there = snapshot()
    with pytest.raises(dataclasses.FrozenInstanceError):
        there.revision = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        there.packages["a"] = ()  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        there.packages["a"][0].yanked = False  # type: ignore[misc]


def test_changed_snapshot_json_is_refused() -> None:
    form = json.loads(snapshot().to_json())
    form["packages"]["a"][0]["yanked"] = False
    with raised(InvalidDocument, reason=Reason.CONFLICTING_FIELDS, field="revision"):
        Snapshot.from_json(json.dumps(form).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"schema_version": "snapshot-0"}', b'{"schema_version": "snapshot-1"}'],
)
def test_invalid_snapshot_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidDocument):
        Snapshot.from_json(data)


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (0, {"yanked": False}),
        (0, {"requires": ("b[x]>=1",)}),
        (0, {"wheels": ("cp311-cp311-manylinux_2_17_x86_64",)}),
        (0, {"uploaded_at": None}),
        (0, {"version": "2.1"}),
        (1, {"requires_python": None}),
        (2, {"requires": ()}),
        (2, {"extras": ("x",)}),
        (3, {"state": "unsolvable"}),
        (3, {"index": "builds"}),
    ],
)
def test_changed_release_changes_the_revision(place: int, change: dict[str, object]) -> None:
    world = list(WORLD)
    world[place] = dataclasses.replace(world[place], **change)  # type: ignore[arg-type]
    assert snapshot(world).revision != snapshot().revision


def test_changed_request_or_environment_changes_the_snapshot_revision() -> None:
    there = snapshot()
    others = [
        snapshot(WORLD, "a>=2"),
        snapshot(WORLD, "a", "b"),
        snapshot(there=environment("3.11.9", "manylinux_2_28_x86_64")),
        snapshot(there=environment("3.11", "manylinux_2_31_x86_64")),
    ]
    assert len({there.revision, *(other.revision for other in others)}) == 5


def test_releases_outside_the_closure_do_not_change_the_snapshot_revision() -> None:
    beside = [*WORLD, Made("d", "1", ("a",)), Made("b", "0.9", ("d",), state="unsolvable")]
    assert snapshot(beside[:-1]).revision == snapshot().revision
    assert snapshot(beside).revision != snapshot().revision, "an excluded version is told"
    asked = (*WORLD[2].requires, "d; extra == 'y'")
    more_extras = [*WORLD[:2], dataclasses.replace(WORLD[2], requires=asked), WORLD[3]]
    assert snapshot(more_extras).revision == snapshot().revision, "nobody asks for that extra"


def test_candidate_gives_requirements_only_of_requested_extras() -> None:
    (candidate,) = snapshot().packages["b"]
    assert isinstance(candidate, Candidate)
    assert candidate.requirements() == ()
    assert [it.name for it in candidate.requirements(["x"])] == ["c"]
