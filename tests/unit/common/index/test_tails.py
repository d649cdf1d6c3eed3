"""METADATA of wheels whose table of contents is longer than what is known."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from common.index.partial_zip import entry_in_tail
from model.errors import IndexFault, IndexProblem
from tests.effort import examples
from tests.factories.errors import raised

WHEEL = "parrot-1.0-py3-none-any.whl"
METADATA = b"Name: parrot\n" * 50
TAIL = 4096


def wheel(
    name: str = "parrot-1.0.dist-info/METADATA", extra: bytes = b"", behind: int = 3
) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(200):
            archive.writestr(f"parrot/{number:05}.txt", b"")
        info = zipfile.ZipInfo(name)
        info.extra = extra
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, METADATA)
        for number in range(behind):
            archive.writestr(f"parrot-1.0.dist-info/{number}", b"")
    return packed.getvalue()


def read(data: bytes, tail: int = TAIL) -> bytes | None:
    entry = entry_in_tail(data[-tail:], len(data), WHEEL, 10_000)
    return None if entry is None else entry.read(data[entry.start : entry.end], WHEEL, 10_000)


def test_the_entry_alone_leads_to_the_member() -> None:
    assert read(wheel()) == METADATA
    assert read(wheel("Parrot-1.0.dist-info/METADATA")) == METADATA
    entry = entry_in_tail(wheel()[-TAIL:], len(wheel()), WHEEL, 10_000)
    assert entry.end - entry.start < 2_000


def test_a_doubtful_end_of_a_wheel_gives_no_entry() -> None:
    assert read(wheel("crow-1.0.dist-info/METADATA")) is None
    assert read(wheel("deep/parrot-1.0.dist-info/METADATA")) is None
    assert read(wheel(behind=200)) is None
    assert read(wheel(), tail=100_000) is None
    assert entry_in_tail(wheel()[-TAIL:], len(wheel()), WHEEL, 10) is None
    assert read(b"") is None
    assert read(wheel() + b"behind the end") is None
    assert read(b"before the beginning" + wheel()) is None


def test_a_header_that_is_longer_than_was_thought_is_seen() -> None:
    extra = b"\xff\xff" + (2_000).to_bytes(2, "little") + bytes(2_000)
    with raised(IndexProblem, code=IndexFault.MALFORMED):
        read(wheel(extra=extra))


GOOD = wheel()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, TAIL), st.binary(min_size=1, max_size=8))
def test_a_damaged_end_never_gives_other_metadata(place: int, damage: bytes) -> None:
    start = len(GOOD) - place
    data = (GOOD[:start] + damage + GOOD[start + len(damage) :])[: len(GOOD)]
    with suppress(IndexProblem):
        assert read(data) in (None, METADATA)
