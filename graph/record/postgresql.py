"""Names from outside, such as those of files, as text that PostgreSQL can hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Text,
    bindparam,
)

_ESCAPED = re.compile(r"\\udc([89a-f][0-9a-f])")
#: Three of them fit a row of a B-tree index, which holds 2,704 bytes.
LIMIT_BYTES = 800


def storable(text: str) -> str:
    """``text`` with bytes that are no characters, and NUL, written as escapes.

    A file name may be any bytes; Python shows those that are not UTF-8 as lone surrogates.
    Text above :data:`LIMIT_BYTES` is cut and ends in its digest, so that it stays distinct.

    >>> storable("caf\\udce9")
    'caf\\\\udce9'
    """
    data = text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
    if len(data) <= LIMIT_BYTES:
        return data.decode()
    mark = f"… (sha256 {hashlib.sha256(data).hexdigest()[:16]})"
    return data[: LIMIT_BYTES - len(mark.encode())].decode("utf-8", "ignore") + mark


def as_named(text: str) -> str:
    """The name of a file of which :func:`storable` made ``text``, to open it again.

    >>> as_named("caf\\\\udce9") == "caf\\udce9"
    True
    """
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


def texts(values: Iterable[str]) -> BindParameter[Any]:
    """One array parameter, however many values."""
    return bindparam(None, list(values), ARRAY(Text))
