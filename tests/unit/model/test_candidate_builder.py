"""Versions to candidates of one environment: interpreters between releases, CUDA, reasons."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from model.packages.candidate_builder import CandidateBuilder, VersionRecord
from model.packages.candidates import Candidate, Excluded, ExclusionReason
from model.packages.environments import Environment, environment
from tests.factories.worlds import Made, reader_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")


def compiled(
    there: Environment, *made: Made, sources: Mapping[str, str] | None = None
) -> tuple[list[Candidate], list[Excluded]]:
    """:param sources: where metadata of versions comes from, other than from wheels"""
    (package,) = reader_of(made)([(made[0].name, ())])
    records = [
        VersionRecord(*it)._replace(metadata_source=(sources or {}).get(it[1], "wheel"))
        for it in package.versions
    ]
    return CandidateBuilder(there).build(package.name, records, ())


def candidates(there: Environment, *made: Made) -> list[str]:
    return [it.version for it in compiled(there, *made)[0]]


@pytest.mark.parametrize(
    ("full", "asked", "admitted"),
    [("3.14.0rc1", ">=3.14", True), ("3.14.0rc1", "<3.14", False), ("3.13.0+", ">=3.13", True),
     ("3.13.0+", ">=3.13.1", False), ("3.15.0a2+", ">=3.15", True), ("3.11.7", ">3.11.6", True)],
)  # fmt: skip
def test_python_development_build_meets_requirements_like_its_release(
    full: str, asked: str, admitted: bool
) -> None:
    there = replace(LINUX, python_full_version=full)
    assert candidates(there, Made("a", "1", requires_python=asked)) == ["1"] * admitted


def test_markers_can_be_evaluated_for_python_development_builds() -> None:
    builder = CandidateBuilder(replace(LINUX, python_full_version="3.13.0+"))
    assert builder.holds("python_full_version >= '3.13'")


CUDA = environment("3.11", "manylinux_2_28_x86_64", cuda="12.4")


def test_release_for_a_newer_cuda_than_the_target_is_excluded() -> None:
    world = [Made("a", it) for it in ("2+cu130", "2+cu128", "2+cu118", "2+cpu", "2")]
    found, (excluded,) = compiled(CUDA, *world)
    assert {it.version for it in found} == {"2+cu128", "2+cu118", "2+cpu", "2"}
    assert (excluded.version, excluded.reason) == ("2+cu130", ExclusionReason.CUDA_TOO_OLD)
    assert excluded.message == "needs CUDA 13.0, this environment has 12.4"
    assert candidates(CUDA, Made("nvidia-cublas-cu13", "13.1")) == []
    assert candidates(CUDA, Made("nvidia-cublas-cu12", "12.8")) == ["12.8"]


def test_no_release_is_excluded_if_the_cuda_version_is_not_stated() -> None:
    assert LINUX.cuda is None
    assert candidates(LINUX, Made("a", "2+cu130")) == ["2+cu130"]
    assert candidates(LINUX, Made("nvidia-cublas-cu13", "13.1")) == ["13.1"]


def test_exclusion_reason_does_not_depend_on_the_order_of_requirements() -> None:
    asked = ("z @ file:///z", "b; python_version > 'x' and platform_system ~= 'y'", "c @ file:///c")
    told = {
        excluded[0].message
        for lines in (asked, asked[::-1], (asked[1], asked[0], asked[2]))
        if (excluded := compiled(LINUX, Made("a", "1", lines))[1])
    }
    assert told == {"requires c by address, which is not followed"}


def test_source_distribution_candidate_says_why_no_wheel_can_be_installed() -> None:
    found, (refused,) = compiled(
        LINUX,
        Made("a", "5", wheels=(), has_sdist=True),
        Made("a", "4", wheels=("cp311-cp311-win_amd64",), has_sdist=True),
        Made("a", "3", wheels=("cp310-cp310-manylinux_2_17_x86_64",), has_sdist=True),
        Made("a", "2", wheels=("cp311-cp311-win_amd64",)),
        Made("a", "1"),
        sources={"5": "sdist-likely", "4": "sdist-built"},
    )
    assert [(it.version, it.sdist_only, it.wheel_mismatch) for it in found] == [
        ("5", True, None), ("4", True, ExclusionReason.PLATFORM_TAG),
        ("3", True, ExclusionReason.PYTHON_TAG), ("1", False, None),
    ]  # fmt: skip
    assert [it.version for it in found if it.requirements_likely] == ["5"]
    assert [it.version for it in found if it.requirements_built] == ["4"]
    assert (refused.version, refused.reason) == ("2", ExclusionReason.PLATFORM_TAG)


@pytest.mark.parametrize(
    ("python", "uploaded", "wheels", "refused"),
    [
        ("3.11", "2022-09-30", ("cp310-cp310-win_amd64",), True),
        ("3.11", "2022-10-02", ("cp310-cp310-win_amd64",), False),
        ("3.10", "2022-09-30", ("cp39-cp39-win_amd64",), False),
        # Wheels for this Python show that it is supported; only the platform differs.
        ("3.11", "2022-09-30", ("cp311-cp311-win_amd64",), False),
        # One wheel proves that the release is pure Python, although the package is compiled.
        ("3.11", "2022-09-30", ("py2-none-any",), False),
        ("3.11", "2022-09-30", ("cp27-none-any", "cp39-cp39-win_amd64"), False),
        ("3.11", "2022-09-30", ("py2-none-win_amd64",), True),
        # Its later release shows that the package is compiled.
        ("3.11", "2014-01-01", (), True),
    ],
)
def test_compiled_release_older_than_the_target_python_is_not_built(
    python: str, uploaded: str, wheels: tuple[str, ...], refused: bool
) -> None:
    old = Made("a", "1", wheels=wheels, has_sdist=True, uploaded_at=f"{uploaded}T00:00:00+00:00")
    newer = Made("a", "2", wheels=(f"cp{python.replace('.', '')}-abi3-win_amd64",))
    there = environment(python, "manylinux_2_28_x86_64")
    found, excluded = compiled(there, old, newer)
    assert [it.version for it in found] == ([] if refused else ["1"])
    if refused:
        (message,) = (it.message for it in excluded if it.version == "1")
        assert message == f"would have to be built, and was published before Python {python}"


def test_pure_python_source_distribution_of_any_age_is_built() -> None:
    moment = "2012-01-01T00:00:00+00:00"
    old = Made("a", "1", wheels=(), has_sdist=True, uploaded_at=moment)
    assert candidates(LINUX, old, Made("a", "2")) == ["2", "1"]
