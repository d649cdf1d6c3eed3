"""Why this and why not that."""

import pytest

from adviser.advise import Advice
from adviser.scoring.criteria import RecommendationType
from adviser.why import CriterionLoss, ForcedOutcome, ForcedStack, why, why_not
from cli.why import forced_lines, presence_lines
from model.packages.candidates import Dependency
from model.packages.native_libraries import CONTEXT
from tests.factories.evidence import bundling, measured
from tests.factories.golden import compare_views
from tests.factories.requests import INDEX, NOTHING, advice_for, request_for
from tests.factories.universes import Index

REVERSED = "fast 1 bundles OpenBLAS 0.3.28 instead of 0.3.29"
OLD = {"uploaded_at": "2020-01-01T00:00:00Z"}
LAST_RESORTS: Index = {
    "app": {"1": {"requires": ["numpy>=2"]}},
    "bounded": {
        "2": {},
        "1": {**OLD, "requires": ["numpy"], "wheels": ["cp311-cp311-linux_x86_64"]},
    },
    "built": {"2": {}, "1": {**OLD, "wheels": ["cp37-cp37m-win_amd64"], "sdist": True}},
    "numpy": {"2": {}, "1": {}},
}
EXTRAS: Index = {"web": {"1.0": {"extras": ["async", "dotenv"]}}}
OLD_EXTRA: Index = {
    "web": {"2.0": {}, "1.0": {"requires": ["core; extra == 'fast'"]}},
    "core": {"1.0": {}},
}
CHAIN: Index = {
    "app": {"1": {"requires": ["mid"]}},
    "mid": {"1": {"requires": ["leaf>=1"]}},
    "leaf": {"2": {}, "1": {}},
    "side": {"1": {"requires": ["leaf<3"]}},
}


def inferred(requires: str) -> Advice:
    """Advice on an ``app`` whose next release restricts ``lib``."""
    index: Index = {
        "app": {"2": {}, "1.0.2": {"requires": ["lib<2"]}, "1.0.1": {"requires": [requires]}},
        "lib": {"2": {}, "1": {}},
    }
    return advice_for(request_for("app==1.0.1\n"), index)


def of(manifest: str, *more: str, index: Index = INDEX) -> Advice:
    return advice_for(request_for(manifest), index, NOTHING, *more)


#: Advice, and what is forced upon it.
FORCED: dict[str, tuple[Advice, Dependency]] = {
    "a version that is possible": (of("web\n", "core==1.0"), Dependency("core", "==1.0")),
    "a version that is impossible": (advice_for(), Dependency("web", ">=3")),
    "the advised version": (advice_for(), Dependency("core", "==1.1")),
    "a package that nothing needs": (of("web\n", "old"), Dependency("old")),
    "a version that breaks inferred bounds": (
        of("app\nbounded\n", index=LAST_RESORTS), Dependency("bounded", "<2"),
    ),
    "a version that is built although it is old": (
        of("app\nbuilt\n", index=LAST_RESORTS), Dependency("built", "<2"),
    ),
    "a version that an inferred bound excludes": (inferred("lib>=1"), Dependency("lib", ">=2")),
    "a version that a declared bound excludes": (inferred("lib<2"), Dependency("lib", ">=2")),
    "an extra that nothing has": (advice_for(), Dependency("core", extras=("nope",))),
    "extras with similar names": (
        of("web\n", index=EXTRAS), Dependency("web", extras=("asinc", "async", "dotnev")),
    ),
    "an extra that only an older version has": (
        of("web\n", "web[fast]<2", index=OLD_EXTRA), Dependency("web", "<2", ("fast",)),
    ),
}  # fmt: skip


def test_why_and_why_not_name_requirements_scores_and_conflicts() -> None:
    views = {}
    for title, (advice, wanted) in FORCED.items():
        answer = why_not(advice, wanted)
        points = sum(it.points for it in answer.losses)
        assert (answer.points or 0) == pytest.approx(points)
        views[title] = "\n".join(forced_lines(answer))
    for title, advice, name in (
        ("why: two reasons", of("app\nside\n", index=CHAIN), "leaf"),
        ("why: a chain", of("app\n", index=CHAIN), "leaf"),
        ("why: a requirement of the project", of("web\n"), "web"),
        ("why: a package that is not in the stack", advice_for(), "old"),
        ("why: no stack at all", of("web>=3\ntool\n"), "web"),
    ):
        views[title] = "\n".join(presence_lines(why(advice, name)))
    compare_views("why", views)


def test_inferred_bound_yields_to_a_requirement() -> None:
    index: Index = {
        "app": {"1.0.2": {"requires": ["lib<2"]}, "1.0.1": {"requires": ["lib>=1"]}},
        "lib": {"2": {}, "1": {}},
    }
    best = of("app==1.0.1\nlib>=2\n", index=index).best
    assert best.versions() == {"app": "1.0.1", "lib": "2"}


def test_why_not_leaves_out_losses_that_round_to_zero() -> None:
    losses = (CriterionLoss("build", 0.0004), CriterionLoss("age", 0.25))
    forced = ForcedStack("web<2", ForcedOutcome.POSSIBLE, 0.2504, losses)
    assert list(forced_lines(forced)) == [
        "web<2: possible, at a loss of 0.250 points",
        "  age: -0.250 points",
    ]


def test_slowdown_is_explained_with_bundled_library_changes() -> None:
    index: Index = {"fast": {"2": {}, "1": {}}, "rest": {"1": {}}}
    for evidence, context in (
        (measured().evidence(), []),
        (bundling(measured().evidence()), [f"{REVERSED} ({CONTEXT})"]),
    ):
        advice = advice_for(
            request_for("fast\nrest\n", RecommendationType.PERFORMANCE), index, evidence
        )
        forced = why_not(advice, Dependency("fast", "==1"))
        first, *others = forced.measured
        assert first.startswith("fast 1 is 23 % slower than 2")
        assert others == context
