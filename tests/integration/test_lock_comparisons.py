"""Comparing two locks over the API and on the page: measured or not, with what is missing."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from adviser.answering import lock_comparison
from api.jobs.queue import QueueClient
from api.resources import lock_comparisons
from api.store_access import EXTENSION
from common.settings import Settings
from tests.services.commands import thoth

_HARDWARE = "fa9f8e70"
_WHERE = {"python": "3.11", "platform": "manylinux_2_28_x86_64", "hardware": _HARDWARE}


@pytest.fixture(scope="module")
def client(filled_app: Flask) -> FlaskClient:
    return filled_app.test_client()


def _compared(client: FlaskClient, old: str, new: str, **environment: str) -> Any:
    body = {
        "old": {"requirements.txt": old}, "new": {"requirements.txt": new},
        "environment": {**_WHERE, **environment},
    }  # fmt: skip
    response = client.post("/api/v2/lock-comparisons", json=body)
    assert response.status_code == 200, response.get_data(as_text=True)
    return response.get_json()


def _page(client: FlaskClient, status: int = 200, **fields: Any) -> str:
    match = re.search(r'name="form_token" value="([^"]+)"', client.get("/compare").text)
    assert match is not None
    data = {"form_token": match[1], **_WHERE, **fields}
    response = client.post("/compare/locks", data=data, content_type="multipart/form-data")
    assert response.status_code == status, response.text
    return response.text


def test_service_and_command_compare_locks_alike(
    filled: Settings, client: FlaskClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("locks")
    old, new = folder / "old.txt", folder / "new.txt"
    old.write_text("numpy==2.0.2\n", "utf-8")
    new.write_text("numpy==2.4.6\n", "utf-8")
    where = [it for name, value in _WHERE.items() for it in (f"--{name}", value)]
    done = thoth(filled, "guard", str(old), str(new), "--offline", "--json", *where)
    command = json.loads(done.stdout)
    answer = _compared(client, old.read_text("utf-8"), new.read_text("utf-8"))
    for name in ("outcome", "family", "claims", "stacks", "introduced", "missing", "unmeasured"):
        assert answer[name] == command[name], name
    assert answer["changes"] == [{"name": "numpy", "old": "2.0.2", "new": "2.4.6"}]
    assert [it["verdict"] for it in answer["claims"]] == ["faster"]


def test_lock_comparison_links_to_measured_stacks(client: FlaskClient) -> None:
    answer = _compared(client, "numpy==2.0.2\n", "numpy==2.4.6\n")
    assert answer["old"]["measured"]
    assert answer["new"]["measured"]
    stacks = (
        f"baseline={answer['old']['stack_digest']}&amp;candidate={answer['new']['stack_digest']}"
    )
    content = _page(client, old="numpy==2.0.2", new="numpy==2.4.6")
    assert "Both locks were measured as they are" in content
    assert f'href="/compare?{stacks}"' in content
    (claim,) = answer["claims"]
    assert f"{claim['observed_pct']:+.1f} %" in content


def test_lock_comparison_page_says_if_neither_lock_was_measured(client: FlaskClient) -> None:
    content = _page(client, old="numpy==2.0.2\nflask==3.0.0\n", new="numpy==2.5.5\nflask==3.1.0")
    assert "Neither lock was measured as it is" in content
    assert "No comparison of the changed packages is settled." in content
    assert "numpy: 2.0.2 and 2.5.5 were not compared on this hardware" in content
    one = _page(client, old="numpy==2.0.2", new="numpy==2.0.2\nflask==3.1.0\n")
    assert "Only the old lock was measured as it is" in one
    assert "The two locks have the same versions." in _page(
        client, old="numpy==2", new="numpy==2.0"
    )
    unnamed = _page(client, old="numpy==2.0.2", new="numpy==2.4.6", hardware="")
    assert "You chose no hardware, so no measurement counts." in unnamed
    assert "numpy: 2.0.2 and 2.4.6 are not compared, because no hardware was named" in unnamed


def test_chosen_lock_file_is_preferred_to_text(client: FlaskClient) -> None:
    locked = "\ufeff" + json.dumps(
        {"_meta": {"sources": []}, "default": {"numpy": {"version": "==2.4.6"}}}
    )
    file = (io.BytesIO(locked.encode()), "any.name")
    content = _page(client, old="numpy==2.0.2", new="numpy==1.0", new_file=file)
    assert "Both locks were measured as they are" in content


def test_chosen_lock_file_is_decoded_by_its_byte_order_mark(client: FlaskClient) -> None:
    file = (io.BytesIO("numpy==2.4.6\n".encode("utf-16")), "lock.txt")
    assert "Both locks were measured as they are" in _page(
        client, old="numpy==2.0.2", new_file=file
    )
    for data, message in (
        (b"numpy==2.4.6 # gr\xfcn", "byte 17 is not valid utf-8"),
        ("numpy==2.4.6\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
    ):
        file = (io.BytesIO(data), "lock.txt")
        content = _page(client, 422, old="numpy==2.0.2", new_file=file)
        assert message in content
        assert "save it as UTF-8" in content
        assert "numpy==2.0.2</textarea>" in content


@pytest.mark.parametrize("text", ["", "numpy>=2", "{"])
def test_lock_comparison_form_shows_why_a_lock_is_invalid(client: FlaskClient, text: str) -> None:
    content = _page(client, 422, old="numpy==2.0.2", new=text)
    assert 'role="alert"' in content
    assert "new lock" in content or "new/" in content
    assert "numpy==2.0.2</textarea>" in content
    url = _page(client, old="numpy==2.0.2", new="https://me:secret-word@host.example/x")
    assert "No harm was found in what could be read of the locks." in url
    assert "secret-word" not in url


def test_lock_comparison_refuses_packages_with_too_many_versions(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_comparisons, "MAX_VERSIONS", 3)
    monkeypatch.setattr(lock_comparisons, "knowledge_of_locks", None)
    lock = {"numpy": "2.0.2"}
    refused = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock})
    assert refused.status_code == 400
    assert "versions, but at most 3 are read" in refused.get_json()["detail"]


def test_lock_comparison_refuses_packages_with_too_many_measurements(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = {"numpy": "2.0.2"}
    known = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock}).get_json()
    number = len(known["evidence"]["readings"])
    assert number > 1
    for most, status in ((number, 200), (number - 1, 400)):
        monkeypatch.setattr(lock_comparison, "MAX_MEASUREMENTS", most)
        answer = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock})
        assert answer.status_code == status
    assert f"more than {number - 1} measurements" in answer.get_json()["detail"]


def test_lock_knowledge_has_measurements_only_of_its_hardware_class(client: FlaskClient) -> None:
    locks = {"old": {"numpy": "2.0.2"}, "new": {"numpy": "2.4.6"}}
    some, nothing = (
        client.post(
            "/api/v2/lock-knowledge", json={**locks, "environment": {"hardware": digest}}
        ).get_json()
        for digest in (_HARDWARE, f"sha256:{'0' * 64}")
    )
    assert some["evidence"]["series"]
    assert nothing["evidence"]["series"] == []
    assert some["hardware"] == nothing["hardware"] != []


def test_lock_comparisons_of_one_client_are_limited(client: FlaskClient, filled_app: Flask) -> None:
    body = {"old": {"numpy": "2.0.2"}, "new": {"numpy": "2.4.6"}}
    with filled_app.extensions[EXTENSION].lock_readers.place_for(QueueClient("x", anonymous=False)):
        refused = client.post("/api/v2/lock-knowledge", json=body)
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "5"
    assert client.post("/api/v2/lock-knowledge", json=body).status_code == 200


def test_lock_comparison_form_needs_its_token(client: FlaskClient) -> None:
    assert client.post("/compare/locks", data={"old": "a==1", "new": "a==2"}).status_code == 403
    assert client.get("/compare/locks").location == "/compare"


_POETRY = """[[package]]
name = "numpy"
version = "{}"
python-versions = "*"
[[package]]
name = "flask"
version = "3.1.0"
optional = true
python-versions = "*"
[[package]]
name = "beside"
version = "1.0"
python-versions = "*"
[package.source]
type = "git"
url = "https://me:hidden@git.example/beside"
resolved_reference = "REVISION"
[extras]
web = ["flask"]
[metadata]
lock-version = "2.0"
python-versions = ">=3.9"
"""


def _poetry(version: str) -> str:
    """A lock whose package from a repository has a revision of its own for each version."""
    return _POETRY.format(version).replace("REVISION", version.replace(".", "a"))


_PYPROJECT = """[tool.poetry.dependencies]
python = ">=3.9"
numpy = "*"
beside = {git = "https://git.example/beside"}
flask = {version = "*", optional = true}
"""


def test_lock_comparison_selects_packages_with_the_manifest_of_a_lock(
    filled: Settings, client: FlaskClient, tmp_path: Path
) -> None:
    sides = {}
    for side, version in (("old", "2.0.2"), ("new", "2.4.6")):
        sides[side] = {"poetry.lock": _poetry(version), "pyproject.toml": _PYPROJECT}
        for name, text in sides[side].items():
            path = tmp_path / side / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    body = {**sides, "environment": _WHERE, "selection": {"extras": ["web"]}}
    answer = client.post("/api/v2/lock-comparisons", json=body).get_json()
    where = [it for name, value in _WHERE.items() for it in (f"--{name}", value)]
    locks = [str(tmp_path / side / "poetry.lock") for side in sides]
    done = thoth(filled, "guard", *locks, "--extra", "web", "--offline", "--json", *where)
    command = json.loads(done.stdout)
    for compared in (answer, command):
        assert compared["old"]["packages"] == {"flask": "3.1.0", "numpy": "2.0.2"}
        assert compared["new"]["packages"] == {"flask": "3.1.0", "numpy": "2.4.6"}
        (left_out,) = compared["new"]["not_covered"]
        assert left_out["kind"] == "repository"
        assert "https://git.example/beside@2a4a6" in left_out["what"]
    assert any("beside" in it for it in answer["warnings"])
    assert "beside differs, but comes from no index" in done.stderr
    assert "hidden" not in done.stderr + done.stdout + str(answer)


@pytest.mark.parametrize(
    ("change", "field", "status"),
    [
        ({"selection": {"extras": ["other"]}}, "extras", 422),
        ({"environment": {**_WHERE, "python": "3.8"}}, "requires-python", 422),
        ({"old": {"pyproject.toml": _PYPROJECT}}, "old", 400),
    ],
)
def test_lock_comparison_refuses_groups_that_a_lock_lacks(
    client: FlaskClient, change: dict[str, Any], field: str, status: int
) -> None:
    lock = {"poetry.lock": _poetry("2.0.2"), "pyproject.toml": _PYPROJECT}
    response = client.post(
        "/api/v2/lock-comparisons", json={"old": lock, "new": lock, "environment": _WHERE, **change}
    )
    assert response.status_code == status, response.text
    assert field in response.text
