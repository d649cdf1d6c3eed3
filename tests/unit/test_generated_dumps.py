"""The benchmarks' dumps: the same for the same seed, closed, and parts of each other."""

from __future__ import annotations

from benchmarks.dumps import REQUIREMENTS, name_of, releases_of
from model.packages.releases import parse_requirement


def test_a_small_dump_is_the_beginning_of_a_large_one() -> None:
    assert list(releases_of(200)) == list(releases_of(1_000))[:200]
    assert list(releases_of(200, seed=2)) != list(releases_of(200))


def test_versions_are_distinct_and_require_what_is_there() -> None:
    releases = list(releases_of(2_000))
    assert len({(it["name"], it["version"]) for it in releases}) == 2_000
    required = [parse_requirement(line) for it in releases for line in it["requires_dist"] or ()]
    assert {it.name for it in required} <= {name_of(number) for number in range(100)}
    assert 0.8 < len(required) / 2_000 / REQUIREMENTS < 1.2
