"""What a request reaches, in worlds of a few packages that are read from memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from graph.snapshot_reader import PackageRecord, RequestedPackage, freeze, walk
from model.errors import InvalidArgument
from model.packages.candidate_builder import roots_of
from model.packages.candidates import ExclusionReason
from model.packages.environments import Environment, environment
from model.packages.snapshot import Snapshot
from model.packages.wheels import Fit
from tests.factories.case_files import described
from tests.factories.golden import compare_views
from tests.factories.worlds import Made, World, reader_of, world_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")
WINDOWS = environment("3.11", "win_amd64")


def snapshot(world: World, *roots: str, there: Environment = LINUX) -> Snapshot:
    wanted = roots_of(roots, there)
    return freeze(walk(reader_of(world), wanted, there), {}, wanted, there)


MARKERS = world_of(
    {
        "a": {
            "1": [
                "w; sys_platform == 'win32'", "p; python_version < '3.12'",
                "l; os_name == 'posix'",
            ]
        },
        **{name: {"1": []} for name in "wpl"},
    }
)  # fmt: skip
EXTRAS = world_of(
    {"a": {"1": ["x; extra == 'one'", "y; extra == 'two'"]}, "x": {"1": []}, "y": {"1": []}}
)
LATE = world_of(
    {
        "a": {"1": ["c", "b"]},
        "b": {"1": ["c[more]"]},
        "c": {"1": ["d[deep]; extra == 'more'"]},
        "d": {"1": ["a; extra == 'deep'", "e; extra == 'deep'"]},
        "e": {"1": []},
    }
)
REPEATED = ["b>=1", "b>=1; extra == 'one'", "b<9; extra == 'one'", "b>=1; os_name == 'posix'"]
WITHOUT_EXTRA = (
    "extra == 'one' or python_version >= '3.8'", "extra != 'one'", "'one' != extra",
    "python_version < '3.8' or extra != 'one'",
)  # fmt: skip
EXCLUDED = [
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
SNAPSHOTS = {
    "requirements in turn": snapshot(
        world_of({"a": {"1": ["b>=1"]}, "b": {"1": ["c"]}, "c": {"1": []}, "d": {"1": []}}), "a"
    ),
    "versions in order": snapshot(
        [
            *(Made("a", it) for it in ("1.9", "1.10", "1!0.1", "1.10rc1", "1.10.post1")),
            Made("a", "1.10", index="builds"),
        ],
        "a",
    ),
    "markers on Linux": snapshot(MARKERS, "a"),
    "markers on Windows": snapshot(MARKERS, "a", there=WINDOWS),
    "markers for another Python": snapshot(
        MARKERS, "a", there=environment("3.12", "manylinux_2_28_x86_64")
    ),
    "no extra": snapshot(EXTRAS, "a"),
    "an extra": snapshot(EXTRAS, "a[One]"),
    "extras that are requested late": snapshot(LATE, "a"),
    "an extra that requires its own package": snapshot(
        world_of({"a": {"1": ["a[two]==1; extra == 'one'", "b; extra == 'two'"]}, "b": {}}),
        "a[one]",
    ),
    **{
        f"without an extra: {marker}": snapshot(
            world_of({"a": {"1": [f"b; {marker}"]}, "b": {"1": []}}), "a"
        )
        for marker in WITHOUT_EXTRA
    },
    "a requirement that an extra repeats": snapshot(
        world_of({"a": {"1": REPEATED}, "b": {"1": []}}), "a[one]"
    ),
    "missing packages": snapshot([Made("a", "1", ("b", "c")), Made("b", "1", state="unread")], "a"),
    "a request for a missing package": snapshot(EXCLUDED, "nothing"),
    "every reason to exclude a version": snapshot(EXCLUDED, "a"),
    "requirements of an excluded version": snapshot(
        [Made("a", "2", ("b",), requires_python=">=3.12"), Made("a", "1")], "a"
    ),
    "files that are not all known": snapshot(
        [Made("a", "1", wheels=("cp312-cp312-win_amd64",), files_complete=False)], "a"
    ),
    "a direct reference of an extra": snapshot(
        [Made("a", "1", ("b @ file:///somewhere ; extra == 'one'",))], "a[one]"
    ),
    "an invalid Requires-Python": snapshot([Made("a", "1", requires_python=">=3.x")], "a"),
    "a yanked version": snapshot([Made("a", "1", yanked=True, yanked_reason="broken")], "a"),
}


def lines_of(found: Snapshot) -> Iterator[str]:
    yield f"layers: {found.layers}"
    if missing := [name for name, it in found.revisions.items() if it is None]:
        yield f"missing: {missing}"
        assert found.missing == tuple(missing)
    for name, candidates in found.packages.items():
        extras = found.extras.get(name)
        yield f"{name}{list(extras) if extras else ''}"
        for candidate in candidates:
            facts = replace(candidate, uploaded_at=None, wheel_rank=None)
            rank = "known" if candidate.wheel_rank is not None else "unknown"
            yield from described([facts], f"  wheels {rank}")
        yield from (
            f"  excluded {it.version}: {it.reason}: {it.message}" for it in found.excluded[name]
        )


def test_snapshot_lists_candidates_and_reasons_for_exclusions() -> None:
    compare_views("snapshots", {title: "\n".join(lines_of(it)) for title, it in SNAPSHOTS.items()})


def test_package_required_several_times_is_read_once() -> None:
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


def test_circular_extras_do_not_prevent_a_snapshot() -> None:
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


def test_every_reason_against_a_wheel_is_an_exclusion_reason() -> None:
    told = {it.value for it in ExclusionReason}
    assert {it.value for it in Fit} - told == {"compatible", "artifacts_unknown"}


def test_requested_names_are_normalised_and_inapplicable_requirements_dropped() -> None:
    roots = roots_of(
        ["B_b [Two,one] >=1", "b-b[one,two]>=1", "b.b<9,>=1", "c; sys_platform == 'win32'"], LINUX
    )
    assert [(it.name, it.specifier, it.extras) for it in roots] == [
        ("b-b", "<9,>=1", ()),
        ("b-b", ">=1", ("one", "two")),
    ]


@pytest.mark.parametrize("text", ["not a requirement", "a @ file:///b", "a; os_name ~= 'x'"])
def test_invalid_root_requirement_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        roots_of([text], LINUX)


def test_snapshot_does_not_depend_on_the_order_of_requirements() -> None:
    world = world_of({"a": {"1": []}, "b": {"1": ["a"]}})
    assert snapshot(world, "a", "b", "a") == snapshot(world, "b", "a")


def test_snapshot_can_contain_ten_thousand_versions_of_a_package() -> None:
    world = [Made("a", f"1.{number}", ("b>=1", f"b!=1.{number % 50}")) for number in range(10_000)]
    found = snapshot([*world, Made("b", "2")], "a")
    assert len(found.packages["a"]) == 10_000
    assert found.packages["a"][0].version == "1.9999"
    one, other = (found.packages["a"][place] for place in (0, 50))
    assert one.requires[0] is other.requires[0], "requirements that are the same are kept once"
