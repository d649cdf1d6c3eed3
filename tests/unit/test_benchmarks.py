"""Benchmarks can be imported, are documented, and serve what was recorded or drawn."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import MEASUREMENTS, main
from benchmarks.dumps import REQUIREMENTS, name_of, releases_of
from benchmarks.recorded_index import RecordedFile
from model.packages.releases import parse_requirement

ROOT = Path(__file__).parents[2]
MODULES = sorted(it.stem for it in (ROOT / "benchmarks").glob("*.py"))
#: ``python -m benchmarks.MODULE OPTIONS`` or ``python -m benchmarks NAME``.
COMMAND = re.compile(
    r"python -m\s+benchmarks(?:\.(?P<module>\w+)| (?P<name>\w+))(?P<options>[^`\n]*)"
)


@pytest.mark.parametrize("module", MODULES)
def test_each_benchmark_can_be_imported(module: str) -> None:
    import_module(f"benchmarks.{module}")


def test_documented_commands_name_benchmarks_and_options_that_exist() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
    commands = [it for page in pages for it in COMMAND.finditer(page.read_text(encoding="utf-8"))]
    assert len(commands) > 20
    for command in commands:
        module, name = command["module"], command["name"]
        if module is None:
            assert name in {*MEASUREMENTS, "NAME"}, command[0]
            continue
        assert module in MODULES, command[0]
        source = (ROOT / "benchmarks" / f"{module}.py").read_text(encoding="utf-8")
        assert 'if __name__ == "__main__":' in source, command[0]
        for option in re.findall(r"--[a-z-]+", command["options"]):
            assert f'"{option}"' in source or option == "--help", command[0]


def test_failing_benchmark_does_not_stop_other_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def fail() -> None:
        raise SystemExit(1)

    measurements = {"first": fail, "second": lambda: done.append("second")}
    monkeypatch.setattr("benchmarks.__main__.MEASUREMENTS", measurements)
    monkeypatch.setattr("benchmarks.__main__.set_up_logs", lambda: None)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    with pytest.raises(SystemExit, match="failed: first"):
        main()
    assert done == ["second"]


DATA = bytes(range(100))


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedFile:
    """The first ten bytes, thirty in the middle in two overlapping ranges, and the last five."""
    file = RecordedFile(tmp_path / "file")
    for first, last in ((0, 9), (40, 59), (50, 69), (95, 99)):
        file.keep(first, DATA[first : last + 1], len(DATA))
    return file


@pytest.mark.parametrize("bounds", [(0, 9), (3, 3), (40, 69), (45, 65), (58, 60), (95, 99)])
def test_adjacent_ranges_are_joined(recorded: RecordedFile, bounds: tuple[int, int]) -> None:
    first, last = bounds
    assert recorded.read(first, last) == DATA[first : last + 1]


@pytest.mark.parametrize("bounds", [(0, 10), (39, 40), (10, 20), (60, 70), (0, 99)])
def test_ranges_with_a_gap_are_not_served(recorded: RecordedFile, bounds: tuple[int, int]) -> None:
    assert recorded.read(*bounds) is None


def test_recorded_file_reports_its_complete_size(recorded: RecordedFile, tmp_path: Path) -> None:
    assert recorded.size == len(DATA)
    assert RecordedFile(tmp_path / "absent").size is None


def test_generated_small_dump_is_a_prefix_of_a_large_dump() -> None:
    assert list(releases_of(200)) == list(releases_of(1_000))[:200]
    assert list(releases_of(200, seed=2)) != list(releases_of(200))


def test_generated_versions_are_distinct_and_require_existing_packages() -> None:
    releases = list(releases_of(2_000))
    assert len({(it["name"], it["version"]) for it in releases}) == 2_000
    required = [parse_requirement(line) for it in releases for line in it["requires_dist"] or ()]
    assert {it.name for it in required} <= {name_of(number) for number in range(100)}
    assert 0.8 < len(required) / 2_000 / REQUIREMENTS < 1.2
