"""What a request reaches, in worlds of a few packages that are read from memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from graph.snapshot_reader import PackageRecord, RequestedPackage, freeze, walk
from model.errors import InvalidArgument
from model.packages.candidate_builder import roots_of
from model.packages.candidates import Dependency, ExclusionReason
from model.packages.environments import Environment, environment
from model.packages.snapshot import Snapshot
from model.packages.wheels import Fit
from tests.factories.worlds import Made, World, reader_of, world_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")
WINDOWS = environment("3.11", "win_amd64")


def snapshot(world: World, *roots: str, there: Environment = LINUX) -> Snapshot:
    wanted = roots_of(roots, there)
    return freeze(walk(reader_of(world), wanted, there), {}, wanted, there)


def versions(found: Snapshot, name: str) -> list[str]:
    return [candidate.version for candidate in found.packages[name]]


def required(found: Snapshot, name: str) -> list[tuple[str, str, str | None]]:
    (candidate,) = found.packages[name]
    return [(it.name, it.specifier, it.extra) for it in candidate.requires]


def reasons(found: Snapshot, name: str) -> dict[str, ExclusionReason]:
    return {it.version: it.reason for it in found.excluded[name]}


def test_a_request_reaches_what_its_packages_require_in_turn() -> None:
    world = world_of({"a": {"1": ["b>=1"]}, "b": {"1": ["c"]}, "c": {"1": []}, "d": {"1": []}})
    found = snapshot(world, "a")
    assert list(found.packages) == ["a", "b", "c"]
    assert found.layers == (("a",), ("b",), ("c",))
    assert required(found, "a") == [("b", ">=1", None)]


def test_a_package_is_asked_for_once_however_many_require_it() -> None:
    world = world_of({"a": {"1": ["c"]}, "b": {"1": ["c", "a"]}, "c": {"1": ["a"]}})
    questions: list[list[str]] = []

    def read(
        source: partial[Iterable[PackageRecord]], wanted: Sequence[RequestedPackage]
    ) -> object:
        questions.append([name for name, _ in wanted])
        return source(wanted)

    roots = roots_of(["b"], LINUX)
    walk(partial(read, partial(reader_of(world))), roots, LINUX)  # type: ignore[arg-type]
    assert questions == [["b"], ["a", "c"]]


def test_versions_are_newest_first_by_pep_440_and_then_by_index() -> None:
    world = [
        *(Made("a", version) for version in ("1.9", "1.10", "1!0.1", "1.10rc1", "1.10.post1")),
        Made("a", "1.10", index="builds"),
    ]
    found = snapshot(world, "a")
    assert versions(found, "a") == ["1!0.1", "1.10.post1", "1.10", "1.10", "1.10rc1", "1.9"]
    assert [it.index for it in found.packages["a"]][2:4] == ["builds", "pypi"]
    assert [it.version for it in found.packages["a"] if it.prerelease] == ["1.10rc1"]


def test_markers_are_evaluated_for_the_environment() -> None:
    lines = ["w; sys_platform == 'win32'", "p; python_version < '3.12'", "l; os_name == 'posix'"]
    world = world_of({"a": {"1": lines}, **{name: {"1": []} for name in "wpl"}})
    assert list(snapshot(world, "a").packages) == ["a", "l", "p"]
    assert list(snapshot(world, "a", there=WINDOWS).packages) == ["a", "p", "w"]
    newer = environment("3.12", "manylinux_2_28_x86_64")
    assert list(snapshot(world, "a", there=newer).packages) == ["a", "l"]


def test_only_extras_that_are_asked_for_are_followed() -> None:
    world = world_of(
        {"a": {"1": ["x; extra == 'one'", "y; extra == 'two'"]}, "x": {"1": []}, "y": {"1": []}}
    )
    assert list(snapshot(world, "a").packages) == ["a"]
    found = snapshot(world, "a[One]")
    assert list(found.packages) == ["a", "x"]
    assert required(found, "a") == [("x", "", "one")]
    assert found.extras == {"a": ("one",), "x": ()}


def test_extras_that_are_asked_for_late_are_followed_too() -> None:
    world = world_of(
        {
            "a": {"1": ["c", "b"]},
            "b": {"1": ["c[more]"]},
            "c": {"1": ["d[deep]; extra == 'more'"]},
            "d": {"1": ["a; extra == 'deep'", "e; extra == 'deep'"]},
            "e": {"1": []},
        }
    )
    found = snapshot(world, "a")
    assert list(found.packages) == ["a", "b", "c", "d", "e"]
    assert found.extras["c"] == ("more",)
    assert found.layers == (("a",), ("b", "c"), ("d",), ("e",))


def test_circular_extras_end() -> None:
    world = world_of(
        {
            "a": {"1": ["a[two]; extra == 'one'", "a[one]; extra == 'two'", "b; extra == 'two'"]},
            "b": {"1": ["a[one]"]},
        }
    )
    found = snapshot(world, "a[one]")
    assert found.extras == {"a": ("one", "two"), "b": ()}
    (candidate,) = found.packages["a"]
    assert [it.name for it in candidate.requirements(["one"])] == ["b"]
    assert candidate.requirements() == ()


def test_a_requirement_of_itself_that_names_versions_is_kept() -> None:
    world = world_of({"a": {"1": ["a[two]==1; extra == 'one'", "b; extra == 'two'"]}, "b": {}})
    (candidate,) = snapshot(world, "a[one]").packages["a"]
    asked = candidate.requirements(["one"])
    assert [(it.name, it.specifier) for it in asked] == [("a", "==1"), ("b", "")]


@pytest.mark.parametrize(
    "marker",
    [
        "extra == 'one' or python_version >= '3.8'",
        "extra != 'one'",
        "'one' != extra",
        "python_version < '3.8' or extra != 'one'",
    ],
)
def test_a_marker_that_names_an_extra_may_hold_without_any(marker: str) -> None:
    world = world_of({"a": {"1": [f"b; {marker}"]}, "b": {"1": []}})
    assert required(snapshot(world, "a"), "a") == [("b", "", None)]


def test_what_always_holds_is_not_said_once_more_for_an_extra() -> None:
    lines = ["b>=1", "b>=1; extra == 'one'", "b<9; extra == 'one'", "b>=1; os_name == 'posix'"]
    world = world_of({"a": {"1": lines}, "b": {"1": []}})
    assert required(snapshot(world, "a[one]"), "a") == [("b", ">=1", None), ("b", "<9", "one")]


def test_a_package_that_is_unknown_is_missing_and_one_without_candidates_is_not() -> None:
    world = [Made("a", "1", ("b", "c")), Made("b", "1", state="unread")]
    found = snapshot(world, "a")
    assert found.missing == ("c",)
    assert found.packages["b"] == ()
    assert reasons(found, "b") == {"1": ExclusionReason.UNREAD}
    assert found.revisions["c"] is None
    assert snapshot(world, "nothing").missing == ("nothing",)


def test_every_version_that_is_no_candidate_is_reported_with_its_reason() -> None:
    world = [
        Made("a", "12"),
        Made("a", "11", state="unread"),
        Made("a", "10", state="unsolvable", problem="dynamic_metadata"),
        Made("a", "9", state="unparsable", problem="invalid_requirement"),
        Made("a", "8", requires_python=">=3.12"),
        Made("a", "7", ("b @ file:///somewhere",)),
        Made("a", "6", ("b; python_version > 'x' and platform_system ~= 'y'",)),
        Made("a", "5", wheels=("cp311-cp311-manylinux_2_34_x86_64",)),
        Made("a", "4", wheels=("cp311-cp311-win_amd64",)),
        Made("a", "3", wheels=("cp310-cp310-manylinux_2_17_x86_64",)),
        Made("a", "2", wheels=(), has_sdist=True, uploaded_at="2012-01-01T00:00:00+00:00"),
        Made("a", "1", wheels=()),
        Made("a", "not a version", state="unparsable", problem="invalid_version"),
    ]
    found = snapshot(world, "a")
    assert versions(found, "a") == ["12"]
    assert reasons(found, "a") == {
        "11": ExclusionReason.UNREAD,
        "10": ExclusionReason.UNSOLVABLE,
        "9": ExclusionReason.UNPARSABLE,
        "8": ExclusionReason.REQUIRES_PYTHON,
        "7": ExclusionReason.DIRECT_REFERENCE,
        "6": ExclusionReason.UNDEFINED_MARKER,
        "5": ExclusionReason.LIBC_TOO_OLD,
        "4": ExclusionReason.PLATFORM_TAG,
        "3": ExclusionReason.PYTHON_TAG,
        "2": ExclusionReason.SDIST_TOO_OLD,
        "1": ExclusionReason.NO_FILES,
        "not a version": ExclusionReason.UNPARSABLE,
    }
    assert [it.version for it in found.excluded["a"]][::11] == ["11", "not a version"]
    messages = {it.version: it.message for it in found.excluded["a"]}
    assert messages["10"] == "it has only a source distribution with dynamic metadata"
    assert messages["8"] == "requires Python >=3.12, this environment has 3.11.0"
    assert messages["5"] == "needs glibc 2.34, this environment has 2.28"


def test_every_reason_of_wheels_is_one_of_versions() -> None:
    told = {it.value for it in ExclusionReason}
    assert {it.value for it in Fit} - told == {"compatible", "artifacts_unknown"}


def test_what_excluded_versions_require_is_not_followed() -> None:
    world = [Made("a", "2", ("b",), requires_python=">=3.12"), Made("a", "1")]
    assert list(snapshot(world, "a").revisions) == ["a"]


def test_a_release_whose_files_are_not_all_known_is_a_candidate_of_unknown_rank() -> None:
    world = [Made("a", "1", wheels=("cp312-cp312-win_amd64",), files_complete=False)]
    (candidate,) = snapshot(world, "a").packages["a"]
    assert candidate.wheel_rank is None


def test_a_direct_reference_of_an_extra_leaves_the_version_a_candidate() -> None:
    world = [Made("a", "1", ("b @ file:///somewhere ; extra == 'one'",))]
    found = snapshot(world, "a[one]")
    (candidate,) = found.packages["a"]
    assert candidate.requires == (Dependency("b", extra="one", url="file:///somewhere"),)
    assert "b" not in found.revisions


def test_a_requires_python_that_is_none_admits_every_python() -> None:
    assert versions(snapshot([Made("a", "1", requires_python=">=3.x")], "a"), "a") == ["1"]


def test_yanked_versions_are_candidates_that_say_so() -> None:
    (candidate,) = snapshot([Made("a", "1", yanked=True, yanked_reason="broken")], "a").packages[
        "a"
    ]
    assert (candidate.yanked, candidate.yanked_reason) == (True, "broken")


def test_roots_are_normalised_and_those_that_do_not_hold_left_out() -> None:
    roots = roots_of(
        ["B_b [Two,one] >=1", "b-b[one,two]>=1", "b.b<9,>=1", "c; sys_platform == 'win32'"], LINUX
    )
    assert [(it.name, it.specifier, it.extras) for it in roots] == [
        ("b-b", "<9,>=1", ()),
        ("b-b", ">=1", ("one", "two")),
    ]


@pytest.mark.parametrize("text", ["not a requirement", "a @ file:///b", "a; os_name ~= 'x'"])
def test_what_cannot_be_asked_for_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        roots_of([text], LINUX)


def test_the_same_request_in_another_order_is_the_same_snapshot() -> None:
    world = world_of({"a": {"1": []}, "b": {"1": ["a"]}})
    assert snapshot(world, "a", "b", "a") == snapshot(world, "b", "a")


def test_ten_thousand_versions_of_one_package_are_no_trouble() -> None:
    world = [Made("a", f"1.{number}", ("b>=1", f"b!=1.{number % 50}")) for number in range(10_000)]
    found = snapshot([*world, Made("b", "2")], "a")
    assert len(found.packages["a"]) == 10_000
    assert found.packages["a"][0].version == "1.9999"
    one, other = (found.packages["a"][place] for place in (0, 50))
    assert one.requires[0] is other.requires[0], "requirements that are the same are kept once"
