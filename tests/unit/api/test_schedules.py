"""When workers do what nobody asks for."""

from __future__ import annotations

import pytest

from api.jobs.tasks import schedules
from common.settings import Settings
from model.errors import InvalidSettings


def test_schedules_are_those_of_the_settings() -> None:
    settings = Settings.from_env({"CRON_NIGHTLY": "30 3 * * *", "FETCH_MISSING": "0"})
    due = {it.task: it.cron for it in schedules(settings)}
    assert due["cron.nightly"] == "30 3 * * *"
    assert due.keys() == {"cron.prune", "cron.nightly"}
    assert settings.fetch_missing is False


@pytest.mark.parametrize("text", ["daily", "30 3 * *", "99 3 * * *", "* * * * * *", "a b c d e"])
@pytest.mark.parametrize("name", ["CRON_REFRESH", "CRON_NIGHTLY", "CRON_ADVISORIES", "CRON_LOOP"])
def test_what_is_not_a_schedule_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidSettings, match=name):
        Settings.from_env({name: text})


def test_what_is_kept_for_ever_is_said_so() -> None:
    settings = Settings.from_env({"KEEP_REQUESTS_DAYS": "none", "KEEP_AUDIT_DAYS": "0.5"})
    assert (settings.keep_requests_days, settings.keep_audit_days) == (None, 0.5)
    assert Settings.from_env({}).keep_requests_days == 90


@pytest.mark.parametrize("text", ["0", "-1", "soon", "40000", "None"])
def test_what_is_not_a_number_of_days_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidSettings, match="KEEP_AUDIT_DAYS"):
        Settings.from_env({"KEEP_AUDIT_DAYS": text})
