"""Folders of figures: one a group, gone with it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from api.health.metrics_files import files, metrics_folder


def test_groups_read_each_others_files_and_leave_none(tmp_path: Path) -> None:
    other = tmp_path / "worker@elsewhere@1"
    other.mkdir()
    (other / "counter_1.db").touch()
    with metrics_folder(tmp_path, "serve") as own:
        (own / "counter_2.db").touch()
        assert {Path(it).parent.name for it in files() or ()} == {own.name, other.name}
    assert files() is None
    assert list(tmp_path.iterdir()) == [other]


def test_what_a_killed_group_left_is_removed(tmp_path: Path) -> None:
    gone = tmp_path / f"serve@{socket.gethostname()}@999999999"
    gone.mkdir()
    with metrics_folder(tmp_path, "serve") as own:
        assert list(tmp_path.iterdir()) == [own]


def test_the_folder_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), metrics_folder(tmp_path, "serve"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
