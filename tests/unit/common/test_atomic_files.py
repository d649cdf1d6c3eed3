"""Files that are written completely or not at all."""

from pathlib import Path

import pytest

from common.atomic_files import PRIVATE, atomic_file, write_atomically


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
