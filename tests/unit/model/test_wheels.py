"""Whether releases can be installed, and what a person is told if not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import parse_tag

from model.errors import InvalidArgument
from model.packages import wheels as wheels_module
from model.packages.environments import Environment, environment
from model.packages.wheels import Fit, compatibility, cuda_of, cuda_runs, glibc_floor, parse_wheel
from tests.factories.golden import compare_views

LINUX = environment("3.11", "manylinux_2_28_x86_64")
MUSL = environment("3.11", "musllinux_1_1_x86_64")
MAC = environment("3.11", "macosx_12_0_arm64")

TAG_SETS = [
    "py3-none-any", "py2.py3-none-any", "py2-none-any", "cp311-cp311-linux_x86_64",
    "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "cp311-cp311-manylinux_2_34_x86_64",
    "cp311-cp311-musllinux_1_2_x86_64", "cp38-abi3-manylinux1_x86_64", "cp310-cp310-win_amd64",
    "cp311-cp311d-linux_x86_64", "cp311-cp311-macosx_13_0_arm64", "py3-none-manylinux_2_40_aarch64",
]  # fmt: skip


def test_release_whose_files_are_unknown_counts_as_installable() -> None:
    unknown = compatibility([], None, False, LINUX)
    assert (unknown.installable, unknown.rank, unknown.reason) == (
        True, None, Fit.ARTIFACTS_UNKNOWN,
    )  # fmt: skip
    known = compatibility(["py3-none-any"], None, False, LINUX)
    assert known.reason is Fit.COMPATIBLE


def test_wheel_for_a_specific_interpreter_ranks_before_a_general_wheel() -> None:
    exact = compatibility(["cp311-cp311-manylinux_2_17_x86_64"], False, True, LINUX).rank
    stable = compatibility(["cp38-abi3-manylinux_2_17_x86_64"], False, True, LINUX).rank
    pure = compatibility(["py3-none-any"], False, True, LINUX).rank
    assert exact is not None
    assert stable is not None
    assert pure is not None
    assert exact < stable < pure


@given(st.lists(st.sampled_from(TAG_SETS), max_size=6), st.sampled_from([LINUX, MUSL, MAC]))
def test_release_is_installable_exactly_if_a_tag_matches(wheels: list[str], env: object) -> None:
    tags = list(env.tags)  # type: ignore[attr-defined]
    places = [tags.index(tag) for text in wheels for tag in parse_tag(text) if tag in tags]
    found = compatibility(wheels, False, True, env)  # type: ignore[arg-type]
    assert (found.installable, found.rank) == (bool(places), min(places, default=None))


@given(st.lists(st.sampled_from(TAG_SETS), max_size=6), st.randoms())
def test_wheel_order_does_not_change_compatibility(wheels: list[str], random: object) -> None:
    shuffled = list(wheels)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compatibility(wheels, True, True, LINUX) == compatibility(shuffled, True, True, LINUX)


def test_tag_sets_of_many_versions_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    platforms = ("manylinux_2_17_x86_64", "win_amd64", "macosx_11_0_arm64")
    pythons = [f"cp3{minor}" for minor in range(6, 15)]
    wheels = [f"{python}-{python}-{platform}" for python in pythons for platform in platforms]
    judged = list[str]()
    judge = wheels_module._judged
    monkeypatch.setattr(
        wheels_module, "_judged", lambda tags, target: judged.append(tags) or judge(tags, target)
    )
    target = environment("3.12", "manylinux_2_35_x86_64")
    for _ in range(3):
        compatibility(wheels, True, True, target)
    assert judged == wheels


@pytest.mark.parametrize(
    ("tags", "floor"),
    [
        ("cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64", (2, 27)),
        ("cp311-cp311-manylinux1_i686.manylinux_2_5_i686", (2, 5)),
        ("cp311-cp311-musllinux_1_2_x86_64", None),
        ("cp311-cp311-linux_x86_64", None),
        ("", None),
    ],
)
def test_minimum_glibc_is_the_oldest_version_that_a_wheel_tag_promises(
    tags: str, floor: tuple[int, int] | None
) -> None:
    assert glibc_floor(tags) == floor


@pytest.mark.parametrize(
    ("name", "version", "cuda"),
    [
        ("torch", "2.3.0+cu121", "12.1"), ("torch", "1.9.0+cu111", "11.1"),
        ("torch", "2.3.0+cpu", None), ("torch", "2.3.0", None), ("jaxlib", "0.4+cuda12.1", "12.1"),
        ("nvidia-cudnn-cu12", "9.1", "12"), ("cupy-cuda12x", "13.0", "12"),
        ("cupy_cuda110", "9.0", "11.0"), ("faiss-gpu-cu11", "1", "11"), ("curio", "1.6", None),
        ("torch", "2.3.0+rocm5.7", None), ("my-cuda", "1", None), ("x", "1+abcu12", None),
    ],
)  # fmt: skip
def test_cuda_version_is_read_from_the_local_version_or_name(
    name: str, version: str, cuda: str | None
) -> None:
    assert cuda_of(name, version) == cuda


def test_cuda_driver_runs_libraries_of_its_major_version_or_older() -> None:
    driver = environment("3.11", "linux_x86_64", cuda="12.2")
    assert cuda_runs("12.8", driver)
    assert cuda_runs("11", driver)
    assert not cuda_runs("13", driver)
    assert not cuda_runs("12", LINUX)


def test_wheel_file_name_is_parsed() -> None:
    found = parse_wheel("Foo_Bar-1!2.0.0+cu12-3x-cp311-cp311-win_amd64.whl")
    assert (found.name, found.version, found.build, found.tags) == (
        "foo-bar", "1!2.0.0+cu12", (3, "x"), "cp311-cp311-win_amd64",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["", "a.whl", "a-1.tar.gz", "a-x-py3-none-any.whl", "a-1-py3-none.whl",
             "../a-1-py3-none-any.whl", "a" * 300 + "-1-py3-none-any.whl"]
)  # fmt: skip
def test_invalid_wheel_file_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_wheel(name)


#: Wheels, and the environment that they do not fit.
UNFIT: dict[str, tuple[list[str], Environment]] = {
    "a newer glibc": (["cp311-cp311-manylinux_2_34_x86_64"], LINUX),
    "a newer musl": (["cp311-cp311-musllinux_1_2_x86_64"], MUSL),
    "a newer macOS": (["cp311-cp311-macosx_13_0_arm64"], MAC),
    "another machine": (["cp311-cp311-macosx_13_0_x86_64"], MAC),
    "musl on glibc": (["cp311-cp311-musllinux_1_2_x86_64"], LINUX),
    "glibc on musl": (["cp311-cp311-manylinux_2_17_x86_64"], MUSL),
    "another system": (["cp311-cp311-win_amd64"], LINUX),
    "another ABI": (["cp311-cp311d-linux_x86_64"], LINUX),
    "another Python": (["cp310-cp310-manylinux_2_17_x86_64"], LINUX),
    "several Pythons": (
        ["cp27-cp27m-manylinux1_x86_64", "cp37-cp37m-win_amd64", "cp36-none-any", "py2-none-any",
         "cp310-cp310-manylinux_2_17_x86_64", "cp310-cp310-win_amd64"], LINUX,
    ),
    "many Pythons": ([f"cp{it}-none-any" for it in (27, 33, 34, 35, 36, 37, 38)], LINUX),
    "several systems": (
        ["cp311-cp311-macosx_11_0_arm64", "cp311-cp311-win32.win_amd64", "cp310-cp310-win_arm64"],
        LINUX,
    ),
    "another C library is nearer than another system": (
        ["cp311-cp311-win_amd64", "cp311-cp311-musllinux_1_2_x86_64"], LINUX,
    ),
    "the oldest of newer C libraries is the nearest": (
        ["cp310-cp310-win_amd64", "cp311-cp311-manylinux_2_39_x86_64",
         "cp311-cp311-manylinux_2_34_x86_64", "cp311-cp311-win_amd64"], LINUX,
    ),
    "unknown tags": (["nonsense"], LINUX),
    "nothing": ([], LINUX),
}  # fmt: skip


def test_reason_says_why_a_release_cannot_be_installed() -> None:
    views = {}
    for title, (wheels, there) in UNFIT.items():
        found, beside = (compatibility(wheels, sdist, True, there) for sdist in (False, True))
        assert (found.installable, found.rank) == (beside.installable, beside.rank) == (False, None)
        views[title] = "\n".join(f"{it.reason}: {it.message}" for it in (found, beside))
    compare_views("unfit_wheels", views)
