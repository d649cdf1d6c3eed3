"""Why this and why not that."""

from __future__ import annotations

import pytest

from adviser.explain import (
    CriterionLoss,
    ForcedOutcome,
    ForcedStack,
    VersionChange,
    why,
    why_not,
)
from cli.why import forced_lines
from model.packages.candidates import Dependency
from tests.factories.requests import INDEX, NOTHING, advice_for, request_for
from tests.factories.universes import Index


def test_a_possible_version_is_reported_with_its_loss_and_what_changes() -> None:
    advice = advice_for(request_for("web\n"), INDEX, NOTHING, "core==1.0")
    answer = why_not(advice, Dependency("core", "==1.0"))
    assert answer.outcome is ForcedOutcome.POSSIBLE
    assert answer.changes == (
        VersionChange("core", "2.0", "1.0"),
        VersionChange("web", "3.0", "2.0"),
    )
    assert answer.points is not None
    assert answer.points > 0
    assert answer.points == pytest.approx(sum(it.points for it in answer.losses))
    assert answer.conflict is None


def test_an_impossible_version_is_reported_with_its_conflict() -> None:
    answer = why_not(advice_for(), Dependency("web", ">=3"))
    assert answer.outcome is ForcedOutcome.CONFLICT
    assert answer.conflict is not None
    lines = "\n".join(answer.conflict.lines())
    assert "tool 1.0 requires core<2" in lines
    assert "web>=3" in lines


def test_what_is_advised_already_is_told_so() -> None:
    answer = why_not(advice_for(), Dependency("core", "==1.1"))
    assert (answer.outcome, answer.changes, answer.points) == (ForcedOutcome.ADVISED, (), 0.0)


def test_a_package_that_nothing_needs_can_be_had_as_well() -> None:
    answer = why_not(advice_for(request_for("web\n"), INDEX, NOTHING, "old"), Dependency("old"))
    assert answer.outcome is ForcedOutcome.POSSIBLE
    assert answer.changes == (VersionChange("old", None, "1.0"),)


@pytest.mark.parametrize("name", ["bounded", "built"])
def test_what_advice_has_as_a_last_resort_is_possible(name: str) -> None:
    old = {"uploaded_at": "2020-01-01T00:00:00Z"}
    index: Index = {
        "app": {"1": {"requires": ["numpy>=2"]}},
        "bounded": {
            "2": {},
            "1": {**old, "requires": ["numpy"], "wheels": ["cp311-cp311-linux_x86_64"]},
        },
        "built": {"2": {}, "1": {**old, "wheels": ["cp37-cp37m-win_amd64"], "sdist": True}},
        "numpy": {"2": {}, "1": {}},
    }
    advice = advice_for(request_for(f"app\n{name}\n"), index)
    assert advice.best is not None
    answer = why_not(advice, Dependency(name, "<2"))
    assert answer.outcome is ForcedOutcome.POSSIBLE
    assert answer.changes == (VersionChange(name, "2", "1"),)
    assert answer.points is not None
    assert answer.points > 0


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        (["lib>=1"], "app 1.0.2 restricts lib to <2; 1.0.1 declared no bound"),
        (["lib<2"], None),
    ],
)
def test_only_what_a_release_declares_makes_a_version_impossible(
    requires: list[str], reason: str | None
) -> None:
    index: Index = {
        "app": {"2": {}, "1.0.2": {"requires": ["lib<2"]}, "1.0.1": {"requires": requires}},
        "lib": {"2": {}, "1": {}},
    }
    advice = advice_for(request_for("app==1.0.1\n"), index)
    answer = why_not(advice, Dependency("lib", ">=2"))
    if reason is None:
        assert answer.outcome is ForcedOutcome.CONFLICT
        return
    assert (answer.outcome, answer.changes) == (
        ForcedOutcome.POSSIBLE, (VersionChange("lib", "1", "2"),),
    )  # fmt: skip
    note = f"app 1.0.1 does not declare lib<2, which is inferred and does not count here: {reason}"
    assert answer.problem == note
    assert f"  {note}" in forced_lines(answer)
    constrained = advice_for(request_for("app==1.0.1\nlib>=2\n"), index)
    assert constrained.best is not None
    assert constrained.best.versions() == {"app": "1.0.1", "lib": "2"}


def test_an_extra_that_nothing_has_is_noted_and_conflicts_with_nothing() -> None:
    answer = why_not(advice_for(), Dependency("core", extras=("nope",)))
    assert list(forced_lines(answer)) == [
        "core[nope]: the advised stack has it",
        "  core 1.1 does not have the extra 'nope', so it adds nothing; it has: none",
    ]
    index: Index = {"web": {"1.0": {"extras": ["async", "dotenv"]}}}
    wanted = Dependency("web", extras=("asinc", "async", "dotnev"))
    answer = why_not(advice_for(request_for("web\n"), index), wanted)
    assert answer.problem is not None
    for text in ("'asinc' (did you mean 'async'?)", "'dotnev' (did you mean 'dotenv'?)"):
        assert text in answer.problem


def test_an_extra_that_only_an_older_version_has_brings_its_packages_with_that_version() -> None:
    index: Index = {
        "web": {"2.0": {}, "1.0": {"requires": ["core; extra == 'fast'"]}},
        "core": {"1.0": {}},
    }
    wanted = Dependency("web", "<2", ("fast",))
    answer = why_not(advice_for(request_for("web\n"), index, NOTHING, "web[fast]<2"), wanted)
    assert (answer.outcome, answer.problem) == (ForcedOutcome.POSSIBLE, None)
    assert answer.changes == (
        VersionChange("core", None, "1.0"),
        VersionChange("web", "2.0", "1.0"),
    )


def test_why_leads_from_the_request_to_the_package() -> None:
    index = {
        "app": {"1": {"requires": ["mid"]}},
        "mid": {"1": {"requires": ["leaf>=1"]}},
        "leaf": {"2": {}, "1": {}},
        "side": {"1": {"requires": ["leaf<3"]}},
    }
    answer = why(advice_for(request_for("app\nside\n"), index), "leaf")
    assert answer.version == "2"
    assert answer.path == ("the request requires side", "side 1 requires leaf<3")
    assert set(answer.askers) == {"mid 1 requires leaf>=1", "side 1 requires leaf<3"}
    assert answer.without is not None
    assert answer.without.outcome is ForcedOutcome.CONFLICT
    assert answer.without.problem is None
    assert answer.otherwise is not None
    assert answer.otherwise.changes == (VersionChange("leaf", "2", "1"),)
    longer = why(advice_for(request_for("app\n"), index), "leaf")
    assert longer.path == (
        "the request requires app",
        "app 1 requires mid",
        "mid 1 requires leaf>=1",
    )


def test_a_package_that_the_project_requires_needs_no_other_reason() -> None:
    presence = why(advice_for(request_for("web\n")), "web")
    assert presence.without is not None
    assert list(forced_lines(presence.without)) == ["no web: impossible: you ask for it"]


def test_a_loss_that_rounds_to_zero_is_left_out() -> None:
    losses = (CriterionLoss("build", 0.0004), CriterionLoss("age", 0.25))
    forced = ForcedStack("web<2", ForcedOutcome.POSSIBLE, 0.2504, losses)
    assert list(forced_lines(forced)) == [
        "web<2: possible, at a loss of 0.250 points",
        "  age: -0.250 points",
    ]


def test_a_package_that_is_not_in_the_stack_has_no_reason() -> None:
    assert why(advice_for(), "old").version is None
    assert why(advice_for(request_for("web>=3\ntool\n")), "web").version is None
