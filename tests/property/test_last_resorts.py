"""Old source distributions and inferred bounds: advice, its replay and why-not agree."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.advise import advise
from adviser.reports.checking import check_offline
from adviser.why import ForcedOutcome, why_not
from model.packages.candidates import Dependency
from model.packages.snapshot import Snapshot
from tests.effort import examples
from tests.factories.reports import report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for
from tests.factories.universes import Index

NAMES = ("a", "b", "c", "d", "numpy")
WHEELS: tuple[list[str], ...] = (
    ["py3-none-any"], ["py2-none-any"], ["cp310-cp310-win_amd64"],
    ["cp311-cp311-manylinux_2_17_x86_64"], [],
)  # fmt: skip
POSSIBLE = (ForcedOutcome.ADVISED, ForcedOutcome.POSSIBLE)


def drawn(draw: random.Random) -> tuple[str, Index]:
    """A manifest, and an index of packages with wheels and source distributions of any age."""

    def requirement(name: str) -> str:
        return name + draw.choice(["", "", f"<{draw.randint(1, 4)}", f">={draw.randint(1, 4)}"])

    index: Index = {
        name: {
            str(version): {
                "requires": [
                    requirement(it)
                    for it in draw.sample([it for it in NAMES if it != name], draw.randint(0, 2))
                ],
                "wheels": (wheels := draw.choice(WHEELS)),
                "sdist": not wheels or draw.random() < 0.7,
                "uploaded_at": f"{draw.choice([2019, 2020, 2023, 2026])}-01-0{version}T00:00:00Z",
            }
            for version in range(1, draw.randint(2, 5))
        }
        for name in NAMES
    }
    return "".join(f"{requirement(it)}\n" for it in draw.sample(NAMES, draw.randint(1, 4))), index


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_advice_with_old_source_distributions_can_be_replayed_and_explained(seed: int) -> None:
    draw = random.Random(seed)
    manifest, index = drawn(draw)
    request = request_for(manifest)
    advice = advice_for(request, index)
    report = report_of(advice)
    assert check_offline(report, advice.snapshot, advice.evidence).problems == ()
    assert (
        report_of(advise(request, Snapshot.from_json(advice.snapshot.to_json()), NOTHING)) == report
    )
    name, specifier = draw.choice(NAMES), f"=={draw.randint(1, 4)}"
    known = advise(request, snapshot_for(request, index, name), NOTHING)
    if known.best is not None:
        answer = why_not(known, Dependency(name, specifier))
        stricter = advice_for(request_for(f"{manifest}{name}{specifier}\n"), index)
        assert (answer.outcome in POSSIBLE) == (stricter.best is not None)
