"""Near packages outweigh what only they pin; newest versions on the way must be read."""

from __future__ import annotations

from typing import Any

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.universe import Universe
from tests.factories.universes import snapshot_of

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


def test_a_near_package_outweighs_all_packages_that_it_pins() -> None:
    known = universe("whisper")
    resolution = resolve(known)
    assert check_resolution(known, resolution) == []
    assert resolution.stacks[0].versions()["torch"] == "2"
    assert resolution.objective == (0, 0, 0, -9000 * len(PINNED), 0)


def test_distances_follow_newest_versions() -> None:
    """``deep`` is required by old versions only, so nothing says that it is near."""
    known = universe("whisper")
    assert known.nearness.packages == ({"torch"}, set(PINNED))
    assert known.level_of("whisper") == 1
    assert known.level_of("deep") == known.level_of("deeper") == known.level_count - 1


def test_a_specifier_of_the_request_bounds_the_newest_version() -> None:
    assert universe("torch<2").nearness.packages == (set(), set())


def test_extras_that_an_extra_requests_are_followed() -> None:
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


def test_further_extras_of_a_direct_requirement_are_followed() -> None:
    index: dict[str, dict[str, dict[str, Any]]] = {
        "api": {"1": {"requires": ["server[fast]"]}},
        "server": {"1": {"requires": ["core", 'loop; extra == "fast"'], "extras": ["fast"]}},
        "core": {"1": {}},
        "loop": {"1": {}},
    }
    assert universe("api", "server", index=index).nearness.packages == ({"core"}, {"loop"})
