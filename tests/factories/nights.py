"""A night of the loop as the record holds it, with a release, a watch and a measured batch."""

from sqlalchemy import Connection

from graph.record.loop import (
    BatchState,
    LoopState,
    NightState,
    ReleaseKey,
    ReleaseSource,
    add_batch,
    add_releases_seen,
    end_night,
    fail_step,
    finish_step,
    open_night,
    set_batch_state,
    set_release_state,
)
from graph.record.watches import NewWatch, WatchKind, add_watch


def add_night(connection: Connection, text: str = "the machine was busy") -> None:
    """Add a finished night.

    :param text: every name, label and reason in it
    """
    watch = NewWatch(WatchKind.PACKAGE, "numpy", {})
    add_watch(connection, watch)
    night = open_night(connection).night
    key = ReleaseKey("pypi", "numpy", "2.4.6")
    add_releases_seen(connection, [key], ReleaseSource.REFRESH, backlog=10)
    set_release_state(
        connection, key, LoopState.MEASURED, text, measured_jobs=12, planned_jobs=24, nights=1
    )
    fail_step(connection, night, "refresh", text)
    finish_step(connection, night, "refresh", {"watches": 1, "packages_added": 0})
    finish_step(connection, night, "measure", {"measured": 24, "warnings": [text]})
    labels = ["numpy 2.3.5", "numpy 2.3.5 again", text]
    stacks = [{"label": it, "releases": [], "specification": {}} for it in labels]
    batch = add_batch(connection, night, watch.watch_id, "conv2d", stacks, blocks=8)
    set_batch_state(
        connection, batch, BatchState.INGESTED, text, measured_jobs=24,
        report={
            "jobs": 24, "measured": 24, "failed": 0, "left_out": {"throttled": 1},
            "aa_verdict": "undetermined", "aa_difference_pct": 0.4, "aa_interval_pct": [-1.1, 1.9],
            "within_variation": 0.012, "between_variation": 0.03,
            "stacks": [
                {"label": it, "inspection_id": None, "state": "finished", "measured": 8,
                 "failed": 0, "reason": None, "median_rate": 4.1e10, "unit": "FLOP/s"}
                for it in labels
            ],
        },
    )  # fmt: skip
    end_night(connection, night, NightState.FINISHED, text)
