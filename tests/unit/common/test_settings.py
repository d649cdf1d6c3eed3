"""Settings are checked when they are read, and a refusal names the variable."""

from __future__ import annotations

import pytest

from common.errors import InvalidSettings
from common.settings import Settings


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
