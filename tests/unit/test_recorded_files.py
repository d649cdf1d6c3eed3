"""What was recorded of a file is served byte for byte, and what was not is never made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.recorded_index import RecordedFile

DATA = bytes(range(100))


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedFile:
    """The first ten bytes, thirty in the middle in two overlapping ranges, and the last five."""
    file = RecordedFile(tmp_path / "file")
    for first, last in ((0, 9), (40, 59), (50, 69), (95, 99)):
        file.keep(first, DATA[first : last + 1], len(DATA))
    return file


@pytest.mark.parametrize("bounds", [(0, 9), (3, 3), (40, 69), (45, 65), (58, 60), (95, 99)])
def test_recorded_ranges_are_joined(recorded: RecordedFile, bounds: tuple[int, int]) -> None:
    first, last = bounds
    assert recorded.read(first, last) == DATA[first : last + 1]


@pytest.mark.parametrize("bounds", [(0, 10), (39, 40), (10, 20), (60, 70), (0, 99)])
def test_ranges_with_a_gap_are_not_served(recorded: RecordedFile, bounds: tuple[int, int]) -> None:
    assert recorded.read(*bounds) is None


def test_the_size_is_that_of_the_whole_file(recorded: RecordedFile, tmp_path: Path) -> None:
    assert recorded.size == len(DATA)
    assert RecordedFile(tmp_path / "absent").size is None
