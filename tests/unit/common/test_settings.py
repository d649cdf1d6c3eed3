"""Settings are checked when they are read, and a refusal names the variable."""

import pytest

from common.settings import Settings
from model.errors import InvalidSettings

#: Values that cannot be used, by variable; secrets in them are ``hidden``.
REFUSED = {
    "DOCUMENT_STORE_URL": [
        "foo://x", "S3://bucket", "s3:/bucket", "ss://key:hidden@bucket",
        "simplecache::s3://bucket", "http://host/documents",
    ],
    "RATE_LIMIT": ["many", "600", "600/fortnight", "600/minute;x"],
    "RATE_LIMIT_STORAGE": [
        "redsi://:hidden@host", "async+redis://:hidden@host", "redis", "postgresql",
        "postgresql://:hidden@host/db",
    ],
    "PACKAGE_INDEXES": [
        "https://me:hidden@a.example", "a=", "a b=c", "a=ftp://hidden.example", "-a=https://x",
    ],
    "INDEX_NAMESPACES": ["ours", "ours=a b", "ours=a/b", "ours=a,other=b other=A"],
    "KEEP_AUDIT_DAYS": ["0", "-1", "soon", "40000", "None"],
    **{
        name: ["daily", "30 3 * *", "99 3 * * *", "* * * * * *", "a b c d e"]
        for name in ("CRON_REFRESH", "CRON_NIGHTLY", "CRON_ADVISORIES", "CRON_LOOP")
    },
    **{
        name: ["hidden", "=hidden", "a b=hidden", "a=1 a=hidden", "-=hidden"]
        for name in ("WEBHOOKS", "WEBHOOK_SECRETS", "NOTICE_TARGETS")
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, it) for name, values in REFUSED.items() for it in values]
)
def test_invalid_setting_is_refused_with_its_name_without_its_secret(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=name) as refused:
        Settings.from_env({name: value})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(("DOCUMENT_STORE_URL", it, it) for it in (
            "s3://bucket/documents", "gs://bucket", "abfs://container@account/documents",
            "file:///data/a:b", "/data/a:b", "documents",
        )),
        *(("RATE_LIMIT_STORAGE", it, it) for it in ("memory://", "redis://host/0", "rediss://h")),
        ("RATE_LIMIT", "10/second;5000/day", "10/second;5000/day"),
        ("RATE_LIMIT", "none", None),
        ("RATE_LIMIT", "", "600/minute"),
        ("KEEP_REQUESTS_DAYS", "none", None),
        ("KEEP_REQUESTS_DAYS", "", 90),
        ("KEEP_AUDIT_DAYS", "0.5", 0.5),
        ("PACKAGE_INDEXES", "", ()),
        ("PACKAGE_INDEXES",
         "b=https://b.example/simple a=https://me:word@a.example/simple?x=1",
         (("a", "https://me:word@a.example/simple?x=1"), ("b", "https://b.example/simple"))),
    ],
)  # fmt: skip
def test_setting_is_converted_to_its_type(name: str, value: str, expected: object) -> None:
    assert getattr(Settings.from_env({name: value}), name.lower()) == expected
