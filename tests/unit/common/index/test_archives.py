"""Metadata in archives, broken and hostile ones included."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import IndexFault, IndexProblem
from common.index.archives import (
    sdist_metadata,
    wheel_metadata,
    wheel_span,
)
from common.index.partial_zip import MissingSpan, SparseFile
from tests.effort import examples

WHEEL = "parrot-1.0-py3-none-any.whl"
LIMIT = 10_000


def wheel(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return packed.getvalue()


def tar(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def of_wheel(data: bytes) -> bytes:
    return wheel_metadata(io.BytesIO(data), WHEEL, LIMIT)


def of_sdist(data: bytes, name: str = "parrot-1.0.tar.gz") -> bytes | None:
    return sdist_metadata(io.BytesIO(data), name, LIMIT)


def test_the_wheels_own_metadata_is_read_and_not_a_bundled_ones() -> None:
    data = wheel(
        ("vendored-1.dist-info/METADATA", b"no"),
        ("parrot/x.dist-info/METADATA", b"no"),
        ("Parrot-1.0.dist-info/METADATA", b"yes"),
    )
    assert of_wheel(data) == b"yes"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_source_distributions_are_read_however_they_are_packed(
    pack: Callable[[bytes], bytes],
) -> None:
    data = tar(("parrot-1.0/deep/PKG-INFO", b"no"), ("parrot-1.0/PKG-INFO", b"yes"))
    assert of_sdist(pack(data)) == b"yes"
    assert of_sdist(pack(tar(("parrot-1.0/setup.py", b"")))) is None


def test_a_zipped_source_distribution_is_read() -> None:
    assert of_sdist(wheel(("parrot-1.0/PKG-INFO", b"yes")), "parrot-1.0.zip") == b"yes"


def test_a_bomb_is_too_large() -> None:
    with pytest.raises(IndexProblem) as of_a_wheel:
        of_wheel(wheel(("parrot-1.0.dist-info/METADATA", bytes(1 << 20))))
    with pytest.raises(IndexProblem) as of_a_source:
        of_sdist(gzip.compress(tar(("parrot-1.0/PKG-INFO", bytes(1 << 20)))))
    assert of_a_wheel.value.code == of_a_source.value.code == IndexFault.TOO_LARGE


def test_a_header_that_is_longer_than_any_is_not_read() -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 17 << 20
    data = gzip.compress(member.tobuf() + bytes(17 << 20), 1)
    with pytest.raises(IndexProblem) as refused:
        of_sdist(data)
    assert refused.value.code is IndexFault.TOO_LARGE


@pytest.mark.parametrize("data", [b"", b"PK", b"<html>", b"\x1f\x8b", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_malformed(data: bytes) -> None:
    for read in (of_wheel, of_sdist):
        with pytest.raises(IndexProblem) as refused:
            read(data)
        assert refused.value.code is IndexFault.MALFORMED


GOOD_WHEEL = wheel(("parrot.py", b"x" * 50), ("parrot-1.0.dist-info/METADATA", b"Name: parrot"))
GOOD_SOURCE = gzip.compress(tar(("parrot-1.0/PKG-INFO", b"Name: parrot")))


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    for good, read in ((GOOD_WHEEL, of_wheel), (GOOD_SOURCE, of_sdist)):
        place = data.draw(st.integers(0, len(good) - 1))
        damage = data.draw(st.binary(min_size=1, max_size=8))
        with suppress(IndexProblem):
            read(good[:place] + damage + good[place + len(damage) :])


def test_only_the_parts_that_are_needed_are_asked_for() -> None:
    data = wheel(
        ("big.so", bytes(100_000)),
        ("parrot-1.0.dist-info/METADATA", b"Name: parrot"),
        ("other.so", bytes(100_000)),
        method=zipfile.ZIP_STORED,
    )
    sparse, asked = SparseFile(len(data)), 0
    for _ in range(10):
        try:
            sparse.need(*wheel_span(sparse, WHEEL, LIMIT))  # type: ignore[arg-type]
            assert wheel_metadata(sparse, WHEEL, LIMIT) == b"Name: parrot"  # type: ignore[arg-type]
            break
        except MissingSpan as missing:
            sparse.add(missing.start, data[missing.start : missing.end])
            asked += missing.end - missing.start
    else:
        pytest.fail("it never ends")
    assert asked < 1_000
