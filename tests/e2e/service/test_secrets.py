"""What clients send and must not get out: in no log, no answer, no row, no body and no node."""

import json
from typing import Any

import httpx
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from graph.engine import open_stores
from tests.factories.archives import zip_of
from tests.services.served import Served
from tests.services.stored_texts import stored_texts
from tests.services.waiting import wait_until

#: Also as the value of a member that is called for what it is.
SECRET = "w0rd-that-nobody-logs"
OWN = PYPI_SIMPLE_ENDPOINT.replace("://", f"://me:{SECRET}@")
THEIRS = f"https://me:{SECRET}@other.example/simple?token={SECRET}"
FORGED = "thoth_0123456789012345678901234567890123456789"
SCOPES = ("read", "advise", "ingest", "inspect", "cypher")
SOURCES = [{"name": "pypi", "url": OWN, "verify_ssl": True}]
SOURCE = '[[source]]\nname = "pypi"\nurl = "{url}"\nverify_ssl = true\n\n'
PIPFILE = SOURCE.format(url=OWN) + '[packages]\nno-such-thing = "*"\n'
LOCK = {
    "_meta": {"sources": SOURCES},
    "default": {"no-such-thing": {"version": "==1", "index": "pypi"}},
    "develop": {},
}
NOTE = {"type": "INFO", "message": f"of {THEIRS}", "link": ""}
TERMINAL = {"succeeded", "failed", "error"}


def stack(pipfile: str = PIPFILE, **more: Any) -> dict[str, Any]:
    files = {"requirements": pipfile, "requirements_lock": json.dumps(LOCK)}
    return {"application_stack": files, **more}


WHERE, RUNTIME = {"where": OWN}, {"python_version": "3.11", "name": OWN}
RECIPE = {
    "base": "registry.example/python:3.11", "script": "print('{}')",
    "python": {
        "requirements": {"source": SOURCES},
        "requirements_locked": {"_meta": {"sources": SOURCES}, "default": {}, "develop": {}},
    },
}  # fmt: skip
ADVISE, JSON = "/api/v1/advise/python", {"Content-Type": "application/json"}
#: What a worker takes in hand, and what is kept of it has no secret.
TAKEN: list[tuple[str, dict[str, Any]]] = [
    (ADVISE, {"params": {"recommendation_type": "latest", "origin": THEIRS},
              "json": stack(constraints=f"a @ {THEIRS}\n", labels=WHERE,
                            runtime_environment=RUNTIME, justification=[NOTE],
                            stack_info=[NOTE])}),
    ("/api/v1/provenance/python", {"params": {"origin": THEIRS}, "json": stack()}),
    ("/api/v2/advice", {"json": {"labels": WHERE, "files": {
        "requirements.txt": f"no-such-thing\nb @ {THEIRS}\n",
        "constraints.txt": f"--index-url {OWN}\n"}}}),
    ("/amun/api/v1/inspect", {"json": RECIPE}),
]  # fmt: skip
_SCRIPT = f"import os, sys; print(os.environ['WHERE'], file=sys.stderr); '{SECRET}'; print('{{}}')"
#: What is kept as it was sent: a script with its variables, an archive.
KEPT: list[tuple[str, dict[str, Any]]] = [
    ("/amun/api/v1/inspect",
     {"json": {"script": _SCRIPT, "environment": [{"name": "WHERE", "value": SECRET}]}}),
    ("/api/v2/inspections",
     {"content": zip_of({"a.json": json.dumps({"at": THEIRS}), "b.json": SECRET}),
      "headers": {"Content-Type": "application/zip"}}),
]  # fmt: skip
#: What is wrong in a way that is told; the words for it may be logged.
REFUSED: list[tuple[str, dict[str, Any]]] = [
    (f"{ADVISE}?recommendation_type=latest",
     {"json": stack(SOURCE.format(url=THEIRS) + '[packages]\nno-such-thing = "*"\n')}),
    ("/api/v2/advice", {"json": {"labels": {"password": SECRET},
                                 "files": {"requirements.txt": f"no such thing @ {THEIRS}\n"}}}),
    ("/api/v2/advice", {"json": {"files": {"Pipfile": f'a = "{SECRET}'}}}),
    ("/api/v2/advice", {"json": {"files": {}, SECRET: THEIRS}}),
    ("/api/v2/advice", {"content": f'{{"{SECRET}": {THEIRS}', "headers": JSON}),
    ("/api/v2/advice", {"content": f'{{"{SECRET}": {THEIRS}'}),
    ("/api/v2/packages", {"json": {"requirements": [f"a @ {THEIRS}"]}}),
    ("/api/v2/inspections", {"json": {"at": THEIRS, "password": SECRET}}),
    ("/api/v2/cypher", {"json": {"query": f"RETURN '{SECRET}' + {THEIRS}"}}),
    *((f"/amun/api/v1/{path}", {"json": {"script": "print(1)", **body}})
      for path in ("inspect", "_debug/generate-dockerfile")
      for body in ({"script": THEIRS, SECRET: OWN}, {"packages": [OWN, 5]},
                   *({"environment": [{"name": name, "value": OWN}]}
                     for name in ("HF_TOKEN", "apikey", "PIP_INDEX_URL")))),
]  # fmt: skip
#: Requests that read, by their status.
READ = [
    (200, "/api/v1", {}, {}),
    (400, "/api/v2/packages", {"password": SECRET, "after": THEIRS}, {}),
    (401, "/api/v1", {"token": SECRET}, {"Authorization": ""}),
    (401, "/api/v1", {}, {"Authorization": f"Bearer {FORGED}"}),
    (404, f"/api/v1/nowhere/{FORGED}", {}, {}),
]


def test_no_secret_of_a_request_leaves_the_service(served: Served) -> None:
    token = served.token(*SCOPES)
    with served.client(token) as client:
        taken, others = ([client.post(path, **it) for path, it in each] for each in (TAKEN, KEPT))
        assert [it.status_code for it in (*taken, *others)] == [202] * 6, [it.text for it in taken]
        recipe = client.post("/amun/api/v1/_debug/generate-dockerfile", json=RECIPE)
        for path, body in REFUSED:
            answer = client.post(path, **body)
            assert answer.status_code in {400, 415, 422}, (path, answer.text)
        for status, path, query, headers in READ:
            assert client.get(path, params=query, headers=headers).status_code == status, path
        names, as_sent = ([_name(it) for it in each] for each in (taken, others))
        states = [end(client, it) for it in (*names, *as_sent)]
        assert "error" not in states, states
        shown = [recipe, *taken, *(client.get(it) for name in names for it in _pages(name))]
    for answer in shown:
        assert answer.status_code in {200, 202, 404}, (answer.request.url, answer.text)
        assert SECRET not in answer.text, answer.request.url
    assert sum(it.status_code == 200 for it in shown) > 2 * len(taken)
    with open_stores(served.settings) as stores:
        kept = {it for it in stored_texts(stores) if SECRET in it or token in it}
    # Rows of what is kept as it was sent have its name, and so has what its script printed.
    kept = {it for it in kept if not any(name in it for name in as_sent)}
    assert {it.partition(":")[0] for it in kept} <= {
        "body of upload", "body of inspection-request", "body of inspection",
    }, kept  # fmt: skip


def test_service_logs_contain_no_secrets(served: Served) -> None:
    """Neither those of the requests above, nor tokens, nor the passwords of the stores."""
    home = served.settings.home
    passwords = json.loads((home / "secrets.json").read_text("utf-8")).values()
    with served.client(token := served.token("read")) as client:
        assert client.get("/api/v1").status_code == 200
        assert client.get(f"/api/v1/nowhere/{token}").status_code == 404
    logs = [served.log, served.worker_log, *(home / "logs").rglob("*.log")]
    texts = {path.name: path.read_text("utf-8", "replace") for path in logs}
    assert {"serve.log", "worker.log", "postgresql.log", "graph.log"} <= texts.keys()
    assert texts["serve.log"].count('"status": 404') > 0
    assert "job" in texts["worker.log"]
    for name, text in texts.items():
        for secret in (SECRET, token, FORGED.removeprefix("thoth_"), *passwords):
            lines = [line for line in text.splitlines() if secret in line]
            assert not lines, (name, lines[:3])


def _name(accepted: httpx.Response) -> str:
    document = accepted.json()
    return str(document.get("analysis_id") or document["inspection_id"])


def _pages(name: str) -> list[str]:
    """What is shown of a request."""
    amun, request = f"/amun/api/v1/inspect/{name}", f"/api/v2/requests/{name}"
    paths = [request, f"{request}/result", f"{request}/log"]
    return [*paths, f"{amun}/specification", f"{amun}/job/0/result"]


def end(client: httpx.Client, analysis_id: str) -> str:
    def end_state() -> str | None:
        state = str(client.get(f"/api/v2/requests/{analysis_id}").json()["state"])
        return state if state in TERMINAL else None

    return wait_until(end_state, f"{analysis_id} has ended")
