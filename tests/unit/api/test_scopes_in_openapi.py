"""The OpenAPI document names the scopes that are enforced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from api.app import create_app
from common.settings import Settings
from graph.record.access import Scope

#: Whose scope depends on the kind of the request.
REQUESTS = "/api/v2/requests/"


@pytest.mark.parametrize("anonymous", ["none", "read advise"])
def test_each_operation_names_the_scope_that_it_enforces(anonymous: str, tmp_path: Path) -> None:
    nowhere = {
        "THOTH_HOME": str(tmp_path),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "GRAPH_URL": "bolt://127.0.0.1:1",
        "ANONYMOUS_SCOPES": anonymous,
    }
    client = create_app(Settings.from_env(nowhere)).test_client()
    paths = client.get("/openapi.json").get_json()["paths"]
    named = enforced = 0
    for path, item in paths.items():
        for method in item.keys() - {"parameters"}:
            if path.startswith(REQUESTS):
                continue
            security = item[method]["security"]
            answer = client.open(re.sub(r"\{\w+\}", "1", path), method=method.upper())
            challenge = answer.headers.get("WWW-Authenticate", "")
            scopes = [scope for it in security for scope in it.get("token", [])]
            open_to_all = not security or ({} in security and anonymous != "none")
            assert (answer.status_code == 401) is not open_to_all, (path, method)
            assert open_to_all or challenge == f'Bearer scope="{scopes[0]}"', (path, method)
            named += bool(scopes)
            enforced += answer.status_code == 401
    assert named > 60
    assert enforced > 10
    for path in (it for it in paths if it.startswith(REQUESTS)):
        security = paths[path]["get"]["security"]
        scopes = {scope for it in security for scope in it.get("token", [])}
        assert scopes == {Scope.ADVISE, Scope.INGEST, Scope.INSPECT}
