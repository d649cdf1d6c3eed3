"""YAML of other programs is read as texts, and never ends the process."""

import pytest

from common.formats.conda_environment import read_environment
from common.formats.file_decoding import yaml_of, yaml_value
from model.errors import InvalidDocument, Reason
from tests.factories.errors import raised

DEEP = "a: " + "[" * 200_000


def test_yaml_scalars_are_read_as_text_and_null_as_none() -> None:
    assert yaml_value('a: [1.0, yes, null, "null", ~]\nb: .inf') == {
        "a": ["1.0", "yes", None, "null", None], "b": ".inf",
    }  # fmt: skip
    assert yaml_value('{"a": [1, "x"]}') == {"a": ["1", "x"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEEP, Reason.NESTED_TOO_DEEP),
        ("a: &x [1]\nb: *x", Reason.INVALID_YAML),
        ("a: 1\na: 2", Reason.INVALID_YAML),
        ("a: [1", Reason.INVALID_YAML),
        ("? [a]\n: 1", Reason.INVALID_YAML),
        ("\ud800", Reason.INVALID_YAML),
    ],
)
def test_yaml_features_that_lock_tools_do_not_write_are_refused(text: str, reason: Reason) -> None:
    with raised(InvalidDocument, reason=reason, field="$"):
        yaml_value(text)


def test_deeply_nested_yaml_is_refused() -> None:
    with pytest.raises(InvalidDocument):
        yaml_of("pixi.lock", DEEP.encode())
    with pytest.raises(InvalidDocument):
        read_environment(DEEP, "environment.yml")
