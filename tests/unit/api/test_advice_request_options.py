"""Options in the body of a request for advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marshmallow import ValidationError

from adviser.stack_request import RequestOptions
from api.resources.advice_requests import ProjectSchema, advice_request
from common.settings import Settings

FILES = {"requirements.in": "web\n"}


def options(home: Path, **more: Any) -> RequestOptions:
    body = ProjectSchema().load({"files": FILES, **more})
    settings = Settings.from_env({"THOTH_HOME": str(home)})
    return advice_request(settings, body, may_fetch=False).asked.options


def test_only_wheels_is_a_field_and_off_by_default(tmp_path: Path) -> None:
    assert not options(tmp_path).only_wheels
    assert options(tmp_path, only_wheels=True).only_wheels


def test_the_service_builds_nothing_whatever_a_client_asks_for(tmp_path: Path) -> None:
    assert not options(tmp_path).build
    with pytest.raises(ValidationError, match="build"):
        options(tmp_path, build=True)


def test_a_file_of_another_tool_is_refused_by_the_name_of_the_tool() -> None:
    with pytest.raises(ValidationError, match="conda"):
        ProjectSchema().load({"files": {**FILES, "sub/meta.yaml": "name: a\n"}})
