"""Files that are written completely or not at all."""

import os
from pathlib import Path

import pytest

from common.files import PRIVATE, atomic_file, write_atomically


def test_private_file_is_replaced_atomically(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"one", PRIVATE)
    with pytest.raises(TypeError, match="bytes-like"), atomic_file(target) as file:
        file.write("half")  # type: ignore[arg-type]
    assert target.read_bytes() == b"one"
    write_atomically(target, b"two", PRIVATE)
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == PRIVATE
    assert list(tmp_path.iterdir()) == [target]


def test_new_file_gets_the_mode_of_others_and_threads_keep_their_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _mask: pytest.fail("other threads share the umask"))
        write_atomically(tmp_path / "file", b"one")
        write_atomically(tmp_path / "other", b"one", 0o666)
    finally:
        monkeypatch.undo()
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "other")]
    assert modes == [0o640, 0o666]
