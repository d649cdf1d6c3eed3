"""The order of jobs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pis.amun.jobs import MissingJobs, blocks

plans = st.lists(st.sets(st.integers(0, 8), max_size=8), min_size=1, max_size=5).map(
    lambda sets: [MissingJobs(f"i{n}", tuple(sorted(numbers))) for n, numbers in enumerate(sets)]
)


def order(*jobs: int, interleaved: bool = True, slots: int = 1) -> list[str]:
    wanted = [MissingJobs("abc"[n], tuple(range(count))) for n, count in enumerate(jobs)]
    made = blocks(wanted, "run", interleaved=interleaved, slots=slots)
    return ["".join(job.inspection_id for job in block) for block in made]


def test_each_machine_slot_has_its_own_sequence_of_blocks() -> None:
    made = blocks(
        [MissingJobs("a", tuple(range(6))), MissingJobs("b", tuple(range(6)))],
        "r",
        interleaved=True,
        slots=2,
    )
    of_slot = [
        ["".join(job.inspection_id for job in block) for block in made if block[0].slot == slot]
        for slot in (0, 1)
    ]
    assert of_slot == [["ab", "ba", "ab"], ["ab", "ba", "ab"]]


def test_resumed_run_schedules_only_missing_jobs() -> None:
    made = blocks([MissingJobs("a", (2, 3)), MissingJobs("b", (1, 3))], "r", interleaved=True)
    jobs = [(job.inspection_id, job.number, job.block, job.turn) for block in made for job in block]
    assert jobs == [("b", 1, 1, 1), ("a", 2, 2, 1), ("a", 3, 3, 1), ("b", 3, 3, 2)]
    made = blocks([MissingJobs("r", (2, 3), 2), MissingJobs("a", (1,))], "run", interleaved=True)
    assert [[(job.inspection_id, job.number, job.block) for job in block] for block in made] == [
        [("r", 2, 1), ("a", 1, 1), ("r", 3, 1)]
    ]


@given(plans, st.booleans(), st.integers(1, 3))
def test_every_missing_job_is_scheduled_exactly_once(
    wanted: list[MissingJobs], interleaved: bool, slots: int
) -> None:
    made = blocks(wanted, "r", interleaved=interleaved, slots=slots)
    ran = [(job.inspection_id, job.number) for block in made for job in block]
    assert sorted(ran) == sorted((plan.inspection_id, n) for plan in wanted for n in plan.missing)
    assert len(ran) == len(set(ran))


@given(plans, st.integers(1, 3))
def test_block_has_one_job_per_stack_on_one_slot(wanted: list[MissingJobs], slots: int) -> None:
    for block in blocks(wanted, "r", interleaved=True, slots=slots):
        assert len({job.inspection_id for job in block}) == len(block)
        assert len({(job.slot, job.block) for job in block}) == 1
        assert [job.turn for job in block] == list(range(1, len(block) + 1))


@given(st.integers(2, 4), st.integers(1, 6))
def test_consecutive_blocks_run_the_stacks_in_opposite_order(stacks: int, jobs: int) -> None:
    wanted = [MissingJobs(str(n), tuple(range(jobs))) for n in range(stacks)]
    made = blocks(wanted, "r", interleaved=True)
    for one, other in pairwise(made):
        assert [it.inspection_id for it in one] == [it.inspection_id for it in reversed(other)]


def test_reference_stack_can_run_several_times_within_a_block() -> None:
    wanted = [MissingJobs("r", tuple(range(6)), 3), *(MissingJobs(it, (0, 1)) for it in "abcde")]
    made = blocks(wanted, "run", interleaved=True)
    assert ["".join(job.inspection_id for job in block) for block in made] == [
        # The others at 0.1, 0.3, 0.5, 0.7 and 0.9 of the block, the reference at 1/6, 1/2 and 5/6.
        "arbcrdre",
        "erdrcbra",
    ]
    assert [(job.number, job.block) for block in made for job in block if job.inspection_id == "r"
            ] == [(0, 0), (1, 0), (2, 0), (5, 1), (4, 1), (3, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "interleaved", "expected"),
    [
        ((4, 4), True, ["ab", "ba", "ab", "ba"]),
        ((3, 3, 3), True, ["abc", "cba", "abc"]),
        ((3, 1), True, ["ab", "a", "a"]),
        ((2, 2), False, ["a", "a", "b", "b"]),
    ],
)
def test_order_of_stacks_alternates_between_blocks(
    jobs: tuple[int, ...], interleaved: bool, expected: list[str]
) -> None:
    assert order(*jobs, interleaved=interleaved) == expected
