"""The stacks that ``thoth bisect`` searches, on a package index of its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from adviser.advise import in_this_process
from adviser.answering.index_stacks import IndexStacks, NoValidStack
from adviser.bisect.search import StepSearch, find_step
from adviser.bisect.series import StackSeries
from cli.bisect_search import SeriesMaker
from cli.measuring import SearchFolder, StackPinner, pins_of
from common.settings import Settings
from model.errors import IndexProblem, InvalidArgument
from model.packages.environments import environment
from tests.factories.planted_steps import PlantedMeasurer
from tests.services.index import Index, package_index, status


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"THOTH_HOME": str(tmp_path / "home")})


def on_index(settings: Settings, index: Index) -> Settings:
    return replace(settings, package_indexes=(("own", index.url),))


def add_releases(index: Index) -> None:
    for version in ("1.0", "1.1", "1.2", "1.3"):
        index.add_wheel("numpy", version)
    for version in ("1.0", "2.0"):
        index.add_wheel("other", version, metadata="Requires-Dist: numpy\n")


def test_bisect_measures_exactly_the_requested_versions(settings: Settings) -> None:
    with package_index() as index:
        add_releases(index)
        index.add_wheel("other", "3.0", metadata="Requires-Dist: numpy>=1.3\n")
        stacks = IndexStacks(on_index(settings, index), "own", environment(), in_this_process)
        assert stacks.best(["numpy==1.1", "other==2.0"]) == {"numpy": "1.1", "other": "2.0"}
        assert stacks.best(["other==1.0"]) == {"numpy": "1.3", "other": "1.0"}
        with pytest.raises(NoValidStack, match=r"other 3\.0 requires numpy>=1\.3"):
            stacks.best(["numpy==1.2", "other==3.0"])
        with pytest.raises(NoValidStack, match="numpy==9"):
            stacks.best(["numpy==9"])


def test_index_error_is_not_reported_as_an_uninstallable_stack(settings: Settings) -> None:
    with package_index() as index:
        add_releases(index)
        index.answers["/simple/numpy/"] = status(503)
        stacks = IndexStacks(on_index(settings, index), "own", environment(), in_this_process)
        with pytest.raises(IndexProblem):
            stacks.best(["other==1.0"])


def series_maker(settings: Settings, index: Index, folder: Path) -> SeriesMaker:
    ours = on_index(settings, index)
    stacks = IndexStacks(ours, "own", environment(), in_this_process)
    search = SearchFolder(folder / "search")
    pinner = StackPinner(search, stacks, "import", {}, None, "own", dict(ours.package_indexes))
    return SeriesMaker(ours, search, {}, pinner)


def locks(folder: Path) -> list[str]:
    names = []
    for name, pins in (("old", "numpy==1.0\nother==1.0\n"), ("new", "numpy==1.3\nother==2.0\n")):
        path = folder / name / "requirements.txt"
        path.parent.mkdir()
        path.write_text(pins)
        names.append(str(path))
    return names


def test_bisect_of_two_locks_finds_the_package_and_its_release(
    settings: Settings, tmp_path: Path
) -> None:
    """The series are real; the rates of their stacks are planted: 1.2 is the slow release."""
    searched: list[StackSeries] = []

    def search(series: StackSeries) -> StepSearch:
        searched.append(series)
        levels = []
        for place in range(len(series.labels)):
            specification, refusal = series.specification_of(place)
            pins = {} if specification is None else pins_of(specification)
            levels.append(-0.3 if pins.get("numpy", "0") >= "1.2" else 0.0)
            assert bool(specification) != bool(refusal)
        missing = frozenset(
            place for place in range(len(levels)) if series.specification_of(place)[0] is None
        )
        return find_step(PlantedMeasurer(levels, 1, missing=missing), len(levels))

    with package_index() as index:
        add_releases(index)
        index.add_wheel("numpy", "1.1.5", metadata="Requires-Dist: absent\n")
        series_maker(settings, index, tmp_path).search_locks(locks(tmp_path), search)
    packages, releases = searched
    assert list(packages.moves) == ["", "numpy 1.0 → 1.3", "other 1.0 → 2.0"]
    assert packages.step_label(0, 1) == "numpy 1.0 → 1.3"
    assert list(releases.labels) == [f"numpy {it}" for it in ("1.0", "1.1", "1.1.5", "1.2", "1.3")]
    unavailable = releases.specification_of(2)
    assert unavailable[0] is None
    assert "requires absent" in unavailable[1]


def test_bisect_between_locks_measures_only_valid_stacks(
    settings: Settings, tmp_path: Path
) -> None:
    searched: list[StackSeries] = []

    def search(series: StackSeries) -> StepSearch:
        searched.append(series)
        return find_step(PlantedMeasurer([0.0] * len(series.labels), 1), len(series.labels))

    with package_index() as index:
        index.add_wheel("numpy", "1.0")
        index.add_wheel("numpy", "1.3")
        index.add_wheel("other", "1.0", metadata="Requires-Dist: numpy<1.3\n")
        index.add_wheel("other", "2.0", metadata="Requires-Dist: numpy>=1.3\n")
        series_maker(settings, index, tmp_path).search_locks(locks(tmp_path), search)
        bad = tmp_path / "bad.txt"
        bad.write_text("numpy==1.3\nother==1.0\n")
        with pytest.raises(InvalidArgument, match=r"other 1\.0 requires numpy<1\.3"):
            series_maker(settings, index, tmp_path).search_locks(
                [str(tmp_path / "old" / "requirements.txt"), str(bad)], search
            )
    (packages,) = searched
    assert list(packages.moves) == ["", "numpy 1.0 → 1.3, other 1.0 → 2.0"]
