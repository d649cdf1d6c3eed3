"""When workers do what nobody asks for."""

from __future__ import annotations

from api.jobs.tasks import schedules
from common.settings import Settings


def test_schedules_are_those_of_the_settings() -> None:
    settings = Settings.from_env({"CRON_NIGHTLY": "30 3 * * *", "FETCH_MISSING": "0"})
    due = {it.task: it.cron for it in schedules(settings)}
    assert due["cron.nightly"] == "30 3 * * *"
    assert due.keys() == {"cron.prune", "cron.nightly"}
    assert settings.fetch_missing is False
