"""Small indexes, requests and universes drawn at random, with circles, extras and pre-releases."""

import random
from collections.abc import Mapping
from typing import Any

from adviser.resolver.admission import universe_of
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.universe import Universe
from model.packages.candidates import Dependency
from model.packages.snapshot import Snapshot
from tests.factories.universes import snapshot_of

NAMES = ["a", "b", "c", "d", "e"]
#: ``==2.0`` admits its local version too.
VERSIONS = ["3.0", "3.0rc1", "2.0+cpu", "2.0", "1.5", "1.0"]
SPECIFIERS = [
    "",
    "",
    "",
    ">=1.5",
    "<2",
    "==2.0",
    "!=2.0",
    ">=2",
    "~=1.0",
    ">=3.0rc1",
    "==3.0rc1",
    ">2",
]
PLAIN = [text for text in SPECIFIERS if "rc" not in text]

Drawn = dict[str, dict[str, dict[str, Any]]]


def drawn_index(draw: random.Random, *, plain: bool = False) -> Drawn:
    """Some packages that require each other, in circles too, with extras and all else."""
    index: Drawn = {}
    pool = [it for it in VERSIONS if not (plain and "+" in it)]
    for name in NAMES[: draw.randint(2, 5)]:
        versions = [v for v in pool if draw.random() < 0.6 and not (plain and "rc" in v)]
        index[name] = {
            version: {
                "requires": [drawn_requirement(draw, plain) for _ in range(draw.randint(0, 3))],
                "yanked": not plain and draw.random() < 0.15,
                "extras": ["x", "y"] if draw.random() < 0.8 else [],
            }
            for version in versions or ["1.0"]
        }
    return index


def drawn_requirement(draw: random.Random, plain: bool = False) -> str:
    extras = draw.choice(["", "", "", "[x]", "[x,y]"])
    marker = draw.choice(["", "", "", "; extra == 'x'", "; extra == 'y'"])
    # Now and then a package that nobody knows.
    name = draw.choice(NAMES)
    return f"{name}{extras}{draw.choice(PLAIN if plain else SPECIFIERS)}{marker}"


def drawn_case(
    seed: int, *, plain: bool = False
) -> tuple[Snapshot, ResolverRequest, Mapping[Any, Any], set[int], set[int]]:
    draw = random.Random(seed)
    index = drawn_index(draw, plain=plain)
    roots = [drawn_requirement(draw, plain).partition(";")[0] for _ in range(draw.randint(1, 3))]
    snapshot = snapshot_of(index, roots)
    bounds = [drawn_bound(draw, plain) for _ in range(draw.randint(0, 1))]
    overrides = {draw.choice(NAMES): draw.choice(PLAIN)} if draw.random() < 0.1 else {}
    direct = [it.name for it in snapshot.roots]
    draw.shuffle(direct)
    request = ResolverRequest(
        direct=tuple(dict.fromkeys(direct)), constraints=tuple(bounds), overrides=overrides
    )
    # Few different scores, so that much ties; the last is a penalty.
    scores = {
        it.purl: (draw.randint(-1, 1), draw.choice([0, 0, -3]), draw.choice([0, 0, -1, -2]))
        for candidates in snapshot.packages.values()
        for it in candidates
    }
    return snapshot, request, scores, {2}, draw.choice([{1}, {1, 2}, set()])


def drawn_bound(draw: random.Random, plain: bool) -> Dependency:
    return Dependency(draw.choice(NAMES), draw.choice(PLAIN if plain else SPECIFIERS))


def drawn_universe(seed: int, *, plain: bool = False) -> Universe:
    return universe_of(*drawn_case(seed, plain=plain))
