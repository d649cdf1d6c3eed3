"""A home on a disk that is full, before the first start and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from model.errors import ServiceFailed
from tests.services.commands import thoth
from tests.services.disks import mounted, mounted_disk

pytestmark = pytest.mark.faults


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB, which PostgreSQL fills while it creates its database."""
    with mounted_disk(tmp_path / "disk", 40) as folder:
        yield folder
        EmbeddedStores(settings_in(folder)).stop()


def settings_in(home: Path) -> Settings:
    return Settings.from_env({"THOTH_HOME": str(home), "GRAPH_MEMORY_MB": "256"})


def test_a_first_start_on_a_small_disk_starts_nothing_and_names_the_remedy(
    small_disk: Path,
) -> None:
    settings = settings_in(small_disk)
    result = thoth(settings, "up")
    assert result.returncode == 3, result.stderr
    assert "Traceback" not in result.stderr
    assert "their first start needs 100 MB" in result.stderr
    assert "hint: free space on the disk, then run the command again" in result.stderr
    assert not any(
        EmbeddedStores(settings).record_of(kind) for kind in EmbeddedStores(settings).kinds
    )


def test_a_database_that_cannot_be_created_is_an_error_with_a_remedy(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up after the check: here because the check is too lenient."""
    settings = settings_in(small_disk)
    stores = EmbeddedStores(settings)
    for kind in stores.kinds:
        monkeypatch.setattr(kind, "new_bytes", 1)
    with pytest.raises(ServiceFailed) as caught:
        stores.start(graph=False)
    assert caught.value.hint == "free space on the disk, then run the command again"
    status = thoth(settings, "status")
    assert status.returncode == 3
    assert "hint: free space on the disk" in status.stdout


def test_a_home_starts_once_there_is_space(small_disk: Path) -> None:
    settings = settings_in(small_disk)
    assert thoth(settings, "stacks").returncode == 3
    assert mounted(small_disk, "-o", "remount,size=200m")
    assert thoth(settings, "stacks").returncode == 0
