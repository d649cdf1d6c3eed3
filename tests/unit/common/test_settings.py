"""Settings are checked when they are read, and a refusal names the variable."""

from __future__ import annotations

import re

import pytest

from common.settings import Settings
from model.errors import InvalidSettings


@pytest.mark.parametrize(
    "url",
    ["foo://x", "S3://bucket", "s3:/bucket", "ss://key:hidden@bucket", "simplecache::s3://bucket",
     "http://host/documents"],
)  # fmt: skip
def test_a_document_store_that_cannot_be_used_is_refused_without_its_url(url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"DOCUMENT_STORE_URL: .*file, s3, ") as refused:
        Settings.from_env({"DOCUMENT_STORE_URL": url})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/documents", "gs://bucket", "abfs://container@account/documents",
     "file:///data/a:b", "/data/a:b", "documents"],
)  # fmt: skip
def test_a_bucket_or_a_folder_is_a_document_store(url: str) -> None:
    assert Settings.from_env({"DOCUMENT_STORE_URL": url}).document_store_url == url


@pytest.mark.parametrize("rate", ["many", "600", "600/fortnight", "600/minute;x"])
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(InvalidSettings, match=f"RATE_LIMIT: '{rate}' is neither none nor like"):
        Settings.from_env({"RATE_LIMIT": rate})


@pytest.mark.parametrize(
    ("storage", "scheme"),
    [("redsi://:hidden@host", "redsi"), ("async+redis://:hidden@host", "async+redis"),
     ("redis", ""), ("postgresql", ""), ("postgresql://:hidden@host/db", "postgresql")],
)  # fmt: skip
def test_a_storage_of_counts_that_does_not_exist_is_refused_without_its_url(
    storage: str, scheme: str
) -> None:
    message = f"RATE_LIMIT_STORAGE: scheme '{re.escape(scheme)}' is not one of .*memory, .*redis"
    with pytest.raises(InvalidSettings, match=message) as refused:
        Settings.from_env({"RATE_LIMIT_STORAGE": storage})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("storage", ["memory://", "redis://host/0", "rediss://host"])
def test_a_storage_of_counts_is_accepted(storage: str) -> None:
    assert Settings.from_env({"RATE_LIMIT_STORAGE": storage}).rate_limit_storage == storage


def test_several_rates_or_none_are_a_limit() -> None:
    rates = ("10/second;5000/day", "none", "")
    read = [Settings.from_env({"RATE_LIMIT": rate}).rate_limit for rate in rates]
    assert read == ["10/second;5000/day", None, "600/minute"]
