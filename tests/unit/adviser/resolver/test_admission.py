"""What the rules of a request leave, which versions specifiers admit, and how near packages are."""

from itertools import combinations
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits, members, places
from adviser.resolver.universe import Universe
from tests.factories.universes import moment, snapshot_of

MOMENTS = [f"2025-01-0{day}T00:00:00+00:00" for day in (3, 2, 1)]


def kept(**rules: str) -> list[str]:
    index = {"it": {f"{3 - n}.0": {"uploaded_at": text} for n, text in enumerate(MOMENTS)}}
    request = ResolverRequest(**{name: moment(text) for name, text in rules.items()})  # type: ignore[arg-type]
    return [
        it.version for it in universe_of(snapshot_of(index, ["it"]), request, {}).packages["it"]
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"published_before": MOMENTS[0]}, ["2.0", "1.0"]),
        ({"published_after": MOMENTS[1]}, ["3.0", "2.0"]),
        ({"published_before": MOMENTS[0], "published_after": MOMENTS[1]}, ["2.0"]),
        ({"published_before": MOMENTS[1], "published_after": MOMENTS[1]}, []),
    ],
)
def test_exclude_newer_admits_the_given_time(rules: dict[str, str], expected: list[str]) -> None:
    assert kept(**rules) == expected


VERSIONS = (
    "1!0.5", "3.0", "2.1.dev1", "2.0.post1", "2.0+local.1", "2.0", "2.0.0rc1", "2.0.dev3", "1.10",
    "1.4.2.post1.dev2", "1.4.2", "1.4.1", "1.4", "1.4a1", "1.0", "2004b-final", "nightly",
)  # fmt: skip
SPECIFIERS = (
    "", ">=1.4", ">1.4", "<2", "<2.0rc1", "<=2.0", "==2.0", "==2.0+local.1", "!=2.0", "==1.4.*",
    "!=1.4.*", "~=1.4.1", "~=1.4", ">2.0.dev1", "===2.0", "===nightly", ">=1!0", ">2.0",
)  # fmt: skip


@pytest.mark.parametrize(
    "specifier", [*SPECIFIERS, *map(",".join, combinations(SPECIFIERS[1:], 2))]
)
def test_specifier_selects_exactly_the_versions_that_it_admits(specifier: str) -> None:
    admitted = [place for place, it in enumerate(VERSIONS) if admits(specifier, it)]
    assert places(members(specifier, VERSIONS)) == admitted


#: ``whisper`` requires ``torch``, whose newest version pins old versions of fifteen packages.
PINNED = [f"cuda-{number}" for number in range(15)]
INDEX: dict[str, dict[str, dict[str, Any]]] = {
    "whisper": {"1": {"requires": ["torch"]}},
    "torch": {"2": {"requires": [f"{it}==1" for it in PINNED]}, "1": {}},
    **{name: {"2": {}, "1": {"requires": ["deep"]}} for name in PINNED},
    "deep": {"1": {"requires": ["deeper"]}},
    "deeper": {"1": {}},
}


def universe(
    *requirements: str, index: dict[str, dict[str, dict[str, Any]]] | None = None
) -> Universe:
    snapshot = snapshot_of(index or INDEX, list(requirements))
    scores = {
        it.purl: (-9000 * place,)
        for them in snapshot.packages.values()
        for place, it in enumerate(them)
    }
    return universe_of(snapshot, ResolverRequest(), scores, newness={0})


def test_newness_of_a_nearer_package_outweighs_that_of_packages_it_pins() -> None:
    known = universe("whisper")
    resolution = resolve(known)
    assert check_resolution(known, resolution) == []
    assert resolution.stacks[0].versions()["torch"] == "2"
    assert resolution.objective == (0, 0, 0, -9000 * len(PINNED), 0)


def test_package_levels_follow_the_requirements_of_newest_versions() -> None:
    """``deep`` is required by old versions only, so nothing says that it is near."""
    known = universe("whisper")
    assert known.nearness.packages == ({"torch"}, set(PINNED))
    assert known.level_of("whisper") == 1
    assert known.level_of("deep") == known.level_of("deeper") == known.level_count - 1


def test_newest_version_is_the_newest_that_the_request_admits() -> None:
    assert universe("torch<2").nearness.packages == (set(), set())


def test_package_levels_follow_extras_requested_by_extras() -> None:
    index: dict[str, dict[str, dict[str, Any]]] = {
        "data": {
            "1": {
                "requires": ['data[all]; extra == "pandas"', 'gbq; extra == "all"'],
                "extras": ["pandas", "all"],
            }
        },
        "gbq": {"1": {"requires": ["bigquery"]}},
        "bigquery": {"1": {}},
    }
    assert universe("data[pandas]", index=index).nearness.packages == ({"gbq"}, {"bigquery"})


def test_package_levels_follow_extras_requested_by_other_packages() -> None:
    index: dict[str, dict[str, dict[str, Any]]] = {
        "api": {"1": {"requires": ["server[fast]"]}},
        "server": {"1": {"requires": ["core", 'loop; extra == "fast"'], "extras": ["fast"]}},
        "core": {"1": {}},
        "loop": {"1": {}},
    }
    assert universe("api", "server", index=index).nearness.packages == ({"core"}, {"loop"})
