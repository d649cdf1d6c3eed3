"""States of releases that the loop has noticed."""

from typing import cast

import pytest

from adviser.advise import in_this_process
from graph.engine import Stores
from graph.record.loop import LoopRelease, LoopState, ReleaseKey, ReleaseSource
from graph.record.watches import AdviceWatch
from loop.release_states import _resolve
from loop.stacks import WatchKnowledge
from tests.factories.evidence import NOW
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index

INDEX: Index = {
    "web": {"4": {"requires": ["nowhere"]}, "3": {"requires": ["core<1"]}, "1": {}},
    "core": {"1": {}},
}


@pytest.mark.parametrize(
    ("name", "version", "state", "reason"),
    [
        ("web", "4", LoopState.SEEN, "unknown, because something was not read yet: you ask"),
        ("web", "3", LoopState.GIVEN_UP, "you ask for web"),
        ("web", "2", LoopState.SEEN, "the index does not list it"),
        ("other", "1", LoopState.SEEN, "no watched project needs it"),
    ],
)
def test_release_is_given_up_only_for_a_proven_conflict(
    name: str, version: str, state: LoopState, reason: str
) -> None:
    advice = advice_for(request_for("web\n"), INDEX)
    watched = WatchKnowledge(cast(AdviceWatch, None), advice, {}, ())
    release = LoopRelease(
        ReleaseKey("pypi", name, version), ReleaseSource.REFRESH, LoopState.SEEN, None,
        0, 0, 0, None, 0, 0, NOW, NOW,
    )  # fmt: skip
    found = _resolve(cast(Stores, None), release, [watched], in_this_process)
    assert found[0] is state
    assert (found[1] or "").startswith(reason), found
