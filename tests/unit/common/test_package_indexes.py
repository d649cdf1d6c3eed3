"""The setting that names package indexes."""

from __future__ import annotations

import pytest

from common.settings import Settings
from model.errors import InvalidSettings


def test_indexes_are_named_and_sorted() -> None:
    text = "b=https://b.example/simple a=https://me:word@a.example/simple?x=1"
    assert Settings.from_env({"PACKAGE_INDEXES": text}).package_indexes == (
        ("a", "https://me:word@a.example/simple?x=1"),
        ("b", "https://b.example/simple"),
    )
    assert Settings.from_env({}).package_indexes == ()


@pytest.mark.parametrize(
    "text", ["https://me:hidden@a.example", "a=", "a b=c", "a=ftp://hidden.example", "-a=https://x"]
)
def test_what_names_no_index_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(InvalidSettings, match="PACKAGE_INDEXES") as refused:
        Settings.from_env({"PACKAGE_INDEXES": text})
    assert "hidden" not in str(refused.value)
