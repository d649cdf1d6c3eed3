"""What a project's own rules make of a request: overrides, and what nothing may bring."""

from __future__ import annotations

import pytest

from model.packages.candidates import Dependency
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index

#: ``web`` asks ``http`` for an extra, which brings ``fast``.
INDEX: Index = {
    "web": {"1.0": {"requires": ["http[quick]>=1", "pad"]}},
    "http": {
        "2.0": {"requires": ["fast; extra == 'quick'"]},
        "1.5": {"requires": ["fast; extra == 'quick'"]},
        "0.9": {},
    },
    "fast": {"1.0": {}},
    "pad": {"1.0": {}},
}
PLAIN = {"web": "1.0", "http": "2.0", "fast": "1.0", "pad": "1.0"}


def chosen(uv: str, dependencies: str = "'web'") -> dict[str, str]:
    text = f"[project]\nname='me'\ndependencies=[{dependencies}]\n[tool.uv]\n{uv}\n"
    best = advice_for(request_for(files={"pyproject.toml": text}), INDEX).best
    return dict(best.versions())


@pytest.mark.parametrize(
    ("uv", "different"),
    [
        ("", {}),
        ("override-dependencies=['http[quick]<2']", {"http": "1.5"}),
        # All of several overrides count.
        ("override-dependencies=['http<2', 'http>1']", {"http": "1.5", "fast": None}),
        ("override-dependencies=['http<1']", {"http": "0.9", "fast": None}),
        # One that does not hold takes the requirement away.
        ("override-dependencies=['http; os_name == \"nt\"']", {"http": None, "fast": None}),
        ("override-dependencies=['http<2', 'http<1; os_name == \"nt\"']",
         {"http": "1.5", "fast": None}),
        ("exclude-dependencies=['pad']", {"pad": None}),
    ],
)  # fmt: skip
def test_overrides_are_those_of_uv(uv: str, different: dict[str, str | None]) -> None:
    expected = {**PLAIN, **different}
    assert chosen(uv) == {name: version for name, version in expected.items() if version}


def test_they_count_for_what_the_project_asks_for_itself() -> None:
    assert chosen("", "'http[quick]'") == {"http": "2.0", "fast": "1.0"}
    assert chosen("override-dependencies=['http<2']", "'http[quick]'") == {"http": "1.5"}
    assert chosen("override-dependencies=['http[quick]<2']", "'http'") == {
        "http": "1.5", "fast": "1.0"
    }  # fmt: skip
    assert chosen("exclude-dependencies=['http']", "'http', 'pad'") == {"pad": "1.0"}


def test_an_override_of_the_request_replaces_those_of_the_project() -> None:
    text = (
        "[project]\nname='me'\ndependencies=['web']\n[tool.uv]\n"
        "override-dependencies=['http; os_name == \"nt\"']\n"
    )
    request = request_for(files={"pyproject.toml": text}, overrides={"http": "<2"})
    assert request.roots == (Dependency("web"),)
    best = advice_for(request, INDEX).best
    assert dict(best.versions()) == {**PLAIN, "http": "1.5"}
