"""The service while PostgreSQL fails one statement in ten, or cuts its connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import text

from graph.engine import Stores
from graph.record.access import Scope
from tests.factories.releases import release
from tests.services.failing import FAULTS, failing
from tests.services.jobs import ASKED, INDEXES, client_of, run_jobs
from tests.services.projection import deliver

pytestmark = pytest.mark.faults

READS = (
    "/", "/packages", "/stacks", "/loop", "/metrics", "/api/v1/python/environment",
    "/api/v2/packages", "/api/v2/stacks", "/api/v2/inspections", "/api/v2/status",
)  # fmt: skip


@pytest.mark.slow
def test_statements_that_fail_lose_no_accepted_request(
    stores: Stores,
) -> None:
    name, _, url = INDEXES.partition("=")
    settings = replace(stores.settings, package_indexes=((name, url),), rate_limit=None)
    deliver(replace(stores, settings=settings), [release("web", "1.0")])
    answers: Counter[int] = Counter()
    accepted = []
    with client_of(settings, Scope.ADVISE, Scope.READ) as client:
        with failing(0.1, seed=3) as injected:
            for _ in range(20):
                answers.update(client.get(path).status_code for path in READS)
                sent = client.post("/api/v2/advice?force=true", json=ASKED)
                answers[sent.status_code] += 1
                if sent.status_code == 202:
                    accepted.append(sent.get_json()["analysis_id"])
        assert answers.keys() == {200, 202, 503}
        assert {*injected} == {*FAULTS}
        with failing(0.1, seed=4) as injected:
            for _ in range(1_000):
                if not _left(stores):
                    break
                run_jobs(settings)
        assert {*injected} == {*FAULTS}
        states = [client.get(f"/api/v2/requests/{it}").get_json()["state"] for it in accepted]
    assert {*states} == {"succeeded"}
    with stores.engine.connect() as connection:
        for table in ("analyses", "advice"):
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == len(accepted)


def _left(stores: Stores) -> int:
    """Make waiting jobs due; the number of requests that have not ended."""
    connection = stores.engine.raw_connection()  # events of statements do not concern it
    cursor = connection.cursor()
    cursor.execute("UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'")
    cursor.execute("SELECT count(*) FROM analyses WHERE finished_at IS NULL")
    (number,) = cursor.fetchone() or (0,)
    connection.commit()
    connection.close()
    return int(number)
