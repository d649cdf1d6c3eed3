"""Recorded searches of ``thoth bisect``: real searches in planted series."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from adviser.bisect.search import StepSearch, find_step
from adviser.bisect.series import StackSeries, search_document
from graph.record.bisects import Bisect, write_bisect
from tests.factories.planted_steps import PlantedMeasurer, step_levels

_HARDWARE = "sha256:" + "fa" * 32
_BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def planted_search(
    label: str = "numpy", *, count: int = 16, max_jobs: int = 200
) -> tuple[StackSeries, list[StepSearch]]:
    """A search for a slow release, with the states after each block; the last stack is missing."""
    labels = [f"{label} 1.{place}" for place in range(count)]
    series = StackSeries("releases", labels, lambda _: (None, ""), label)
    measurer = PlantedMeasurer(step_levels(count, {9: -0.2}), 1, missing=frozenset({count - 1}))
    states: list[StepSearch] = []
    states.append(find_step(measurer, count, max_jobs=max_jobs, progress=states.append))
    return series, states


def flat_search(label: str = "numpy", *, count: int = 32) -> tuple[StackSeries, StepSearch]:
    """A search without a step, whose answer names the dips that it would have seen."""
    labels = [f"{label} 1.{place}" for place in range(count)]
    series = StackSeries("releases", labels, lambda _: (None, ""), label)
    return series, find_step(PlantedMeasurer(step_levels(count, {}), 3), count)


def bisect_of(
    series: StackSeries, search: StepSearch, name: str = "a", *, started: int = 0, text: str = ""
) -> Bisect:
    """The record of one search.

    :param started: minutes after a fixed time
    :param text: every free text in it
    """
    document = search_document(series, search)
    skipped = [{**it, "reason": text or it["reason"]} for it in document["skipped"]]
    return Bisect(
        bisect_id=f"bisect-{name}", subjects=[text or "numpy>=1.0"],
        packages=[series.package or ""], indicator=text or "matmul",
        parameters={text or "matrix_size": text or "512"}, others=[text] if text else [],
        python_version="3.11", index_name="pypi", hardware_digest=_HARDWARE,
        hardware_label=text or "AMD EPYC, 2 processors",
        command=text or "thoth bisect 'numpy>=1.0' --pi matmul -p matrix_size=512 --max-jobs 200",
        state=search.state.value, reason=text or None, jobs=search.jobs, max_jobs=200,
        searches=[{**document, "skipped": skipped}], started_at=_BEGIN + timedelta(minutes=started),
    )  # fmt: skip


def add_bisects(connection: Connection, text: str = "") -> None:
    """Add a search that found a step, one that was stopped, and one that runs."""
    series, states = planted_search(text or "numpy")
    _, stopped = planted_search(text or "numpy", max_jobs=8)
    for number, (name, search) in enumerate(
        [("ended", states[-1]), ("stopped", stopped[-1]), ("running", states[1])]
    ):
        write_bisect(connection, bisect_of(series, search, name, started=number, text=text))
