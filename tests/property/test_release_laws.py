"""Laws of merging releases: what is known depends on what was delivered, never on the order."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graph.record.release_merging import Findings, KnownRelease, first_known, merge_delivery
from model.packages.releases import SOLVER, Release
from tests.factories.releases import release, sdist_of, wheel_of

START = datetime(2026, 1, 1, tzinfo=UTC)
WHEELS = tuple(wheel_of("x", "1", f"cp3{minor}-cp3{minor}-any") for minor in (9, 10, 11))

Delivery = tuple[Release, datetime | None]

files = st.lists(
    st.builds(
        lambda file, changes: {**file, **changes},
        st.sampled_from((*WHEELS, sdist_of("x", "1"))),
        st.fixed_dictionaries(
            {},
            optional={
                "yanked": st.booleans(),
                "size": st.sampled_from((None, 1, 2)),
                "sha256": st.none(),
                "attested": st.booleans(),
            },
        ),
    ),
    max_size=3,
    unique_by=lambda file: file["filename"],
)
changes = st.fixed_dictionaries(
    {"files": files, "files_complete": st.booleans()},
    optional={
        "requires_python": st.sampled_from((None, ">=3.8", ">=3.9", "no specifier")),
        "yanked": st.booleans(),
        "upload_time": st.sampled_from((None, "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")),
        "license": st.sampled_from((None, "MIT")),
        "metadata_source": st.sampled_from((SOLVER, "wheel")),
        "metadata_file": st.sampled_from((None, "a.whl", "b.whl")),
        "problem": st.sampled_from(("broken_metadata", "dynamic_metadata")),
    },
)
requirements = st.sampled_from((None, (), ("old",), ("new",), ("no requirement!",)))
days = st.one_of(st.none(), st.integers(0, 2))


def delivered(requires: Sequence[str] | None, told: dict[str, Any], day: int | None) -> Delivery:
    made = release("x", "1", requires, **told)
    return made, None if day is None else START + timedelta(days=day)


deliveries = st.lists(st.builds(delivered, requirements, changes, days), min_size=2, max_size=5)


def known_after(some: Sequence[Delivery]) -> KnownRelease:
    findings = Findings()
    (made, day), *others = some
    known = first_known(made, day, findings)
    for made, day in others:
        known = merge_delivery(known, made, day, findings)
    return known


@given(deliveries, st.randoms(use_true_random=False))
def test_recorded_release_does_not_depend_on_the_order_of_deliveries(
    some: list[Delivery], order: random.Random
) -> None:
    known = known_after(some)
    order.shuffle(some)
    again = known_after(some)
    assert again == known
    assert again.facts == known.facts


@given(deliveries, st.data())
def test_repeated_delivery_changes_nothing(some: list[Delivery], data: st.DataObject) -> None:
    known = known_after(some)
    again, day = data.draw(st.sampled_from(some))
    assert merge_delivery(known, again, day, Findings()) == known


@given(deliveries)
def test_solver_data_never_replace_index_data_of_a_release(some: list[Delivery]) -> None:
    by_index = [it for it, _ in some if it.metadata_source != SOLVER and it.requirements]
    known = known_after(some)
    assert not (by_index and known.from_solver)
