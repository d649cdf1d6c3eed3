"""Which comparisons of a pack are measured again, and when two effects agree."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from adviser.monkey.documents import NotInstallable
from adviser.packs.manifest import MeasuredWheel
from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import opened
from adviser.packs.repetition import agrees, chosen_cells, groups_between, specification_again
from adviser.packs.stored_packs import observations_of
from adviser.stack_comparison import StackGroup, compare_stacks
from model.measurements.evidence import EvidencePack, MeasuredObservation
from model.packages.identity import package_version
from pis.amun.specification import load_specification
from tests.factories.evidence import ELSEWHERE, HERE, NOW, Bench, jobs, series
from tests.factories.packs import pack_of


@pytest.fixture
def observed(tmp_path: Path) -> list[MeasuredObservation]:
    """Three indicators with three stacks each, one of them on another class."""
    bench = Bench()
    for how in (series("PiMatmul"), series("PiConv2D"), series("PiGemm", ELSEWHERE)):
        for number in range(3):
            stack = bench.stack(f"numpy==2.{number}.0")
            bench.measure(stack, jobs(0.1 * number, seed=number), how)
    pack = opened(pack_of(bench.evidence(), tmp_path / "pack"))
    purls = {it for stack in bench.stacks.values() for it in stack}
    evidence = packed_evidence(pack, EvidencePack(pack.digest, "pack"), purls, NOW)
    return list(observations_of(pack.manifest, evidence))


@pytest.fixture
def groups(observed: list[MeasuredObservation]) -> list[StackGroup]:
    return compare_stacks(observed)


def test_cells_are_of_this_class_and_of_many_indicators(groups: list[StackGroup]) -> None:
    cells = chosen_cells(groups, HERE, 2, "seed")
    assert {it.group.indicator for it in cells} == {"PiMatmul", "PiConv2D"}
    assert cells == chosen_cells(list(reversed(groups)), HERE, 2, "seed")
    assert len(chosen_cells(groups, HERE, 99, "seed")) == 4
    assert chosen_cells(groups, "sha256:0", 5, "seed") == []


def test_cells_between_two_versions_are_compared_with_each_other(
    observed: list[MeasuredObservation],
) -> None:
    old, new = {"numpy": "2.2.0", "other": "1"}, {"numpy": "2.1", "new": "2"}
    cells = chosen_cells(groups_between(observed, old, new), HERE, None, "seed")
    assert {it.group.indicator for it in cells} == {"PiMatmul", "PiConv2D"}
    for cell in cells:
        assert [*map(str, cell.stack.differing_packages)] == ["numpy 2.2.0 → 2.1.0"]
        assert cell.comparison.d < 0


def test_effects_agree_within_both_intervals(groups: list[StackGroup]) -> None:
    comparison = replace(
        chosen_cells(groups, HERE, 1, "seed")[0].comparison,
        d=0.0, interval_low_pct=-1.0, interval_high_pct=1.0,
    )  # fmt: skip
    for effect, agreeing in ((1.2, True), (-1.2, True), (1.6, False)):
        assert agrees(comparison, replace(comparison, d=math.log1p(effect / 100))) is agreeing


def test_a_stack_is_installed_with_the_hashes_of_the_pack(tmp_path: Path) -> None:
    bench = Bench()
    bench.measure(bench.stack("numpy==2.1.0"), jobs())
    manifest = opened(pack_of(bench.evidence(), tmp_path / "pack")).manifest
    packages = [package_version("numpy", "2.1.0")]
    with pytest.raises(NotInstallable):
        specification_again(manifest, packages, "matmul", {}, "3.11")
    manifest = replace(manifest, wheels=(MeasuredWheel(packages[0].purl, ("a" * 64,)),))
    document = specification_again(manifest, packages, "matmul", {"matrix_size": 64}, "3.11")
    (package,) = load_specification(document).lock.packages
    assert package.hashes == ("sha256:" + "a" * 64,)
