"""Versions to candidates of one environment: interpreters between releases, CUDA, reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.environments import Environment, environment
from graph.candidate_builder import CandidateBuilder, VersionRecord
from graph.candidates import Candidate, Excluded, ExclusionReason
from tests.factories.worlds import Made, reader_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")


def compiled(there: Environment, *made: Made) -> tuple[list[Candidate], list[Excluded]]:
    (package,) = reader_of(made)([(made[0].name, ())])
    records = [VersionRecord(*it) for it in package.versions]
    return CandidateBuilder(there).build(package.name, records, ())


def candidates(there: Environment, *made: Made) -> list[str]:
    return [it.version for it in compiled(there, *made)[0]]


@pytest.mark.parametrize(
    ("full", "asked", "admitted"),
    [("3.14.0rc1", ">=3.14", True), ("3.14.0rc1", "<3.14", False), ("3.13.0+", ">=3.13", True),
     ("3.13.0+", ">=3.13.1", False), ("3.15.0a2+", ">=3.15", True), ("3.11.7", ">3.11.6", True)],
)  # fmt: skip
def test_an_interpreter_between_releases_counts_as_the_release(
    full: str, asked: str, admitted: bool
) -> None:
    there = replace(LINUX, python_full_version=full)
    assert candidates(there, Made("a", "1", requires_python=asked)) == ["1"] * admitted


def test_markers_can_be_evaluated_for_an_interpreter_between_releases() -> None:
    builder = CandidateBuilder(replace(LINUX, python_full_version="3.13.0+"))
    assert builder.holds("python_full_version >= '3.13'")


CUDA = environment("3.11", "manylinux_2_28_x86_64", cuda="12.4")


def test_what_needs_a_newer_cuda_than_the_environment_states_is_no_candidate() -> None:
    world = [Made("a", it) for it in ("2+cu130", "2+cu128", "2+cu118", "2+cpu", "2")]
    found, (excluded,) = compiled(CUDA, *world)
    assert {it.version for it in found} == {"2+cu128", "2+cu118", "2+cpu", "2"}
    assert (excluded.version, excluded.reason) == ("2+cu130", ExclusionReason.CUDA_TOO_OLD)
    assert excluded.message == "needs CUDA 13.0, this environment has 12.4"
    assert candidates(CUDA, Made("nvidia-cublas-cu13", "13.1")) == []
    assert candidates(CUDA, Made("nvidia-cublas-cu12", "12.8")) == ["12.8"]


def test_where_no_cuda_is_stated_none_excludes_anything() -> None:
    assert LINUX.cuda is None
    assert candidates(LINUX, Made("a", "2+cu130")) == ["2+cu130"]
    assert candidates(LINUX, Made("nvidia-cublas-cu13", "13.1")) == ["13.1"]


def test_of_several_reasons_the_same_is_told_in_whatever_order_they_come() -> None:
    asked = ("z @ file:///z", "b; python_version > 'x' and platform_system ~= 'y'", "c @ file:///c")
    told = {
        excluded[0].message
        for lines in (asked, asked[::-1], (asked[1], asked[0], asked[2]))
        if (excluded := compiled(LINUX, Made("a", "1", lines))[1])
    }
    assert told == {"requires c by address, which is not followed"}


def test_a_source_distribution_is_a_candidate_unless_only_wheels_are_wanted() -> None:
    wheelless = Made("a", "2", wheels=(), has_sdist=True)
    (package,) = reader_of((wheelless, Made("a", "1")))([("a", ())])
    records = [
        VersionRecord(*it)._replace(metadata_source="sdist-likely" if it[1] == "2" else "wheel")
        for it in package.versions
    ]
    found, excluded = CandidateBuilder(LINUX, only_wheels=False).build("a", records, ())
    assert [(it.version, it.sdist_only, it.requirements_likely) for it in found] == [
        ("2", True, True), ("1", False, False),
    ]  # fmt: skip
    assert excluded == []
    found, (refused,) = CandidateBuilder(LINUX).build("a", records, ())
    assert [it.version for it in found] == ["1"]
    assert refused.reason is ExclusionReason.SDIST_ONLY
