"""Evidence packs: built from a record, signed, carried as an archive, and verified."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from common.settings import Settings
from tests.services.commands import thoth, thoth_json


@pytest.fixture(scope="module")
def key(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key; the public key is beside it."""
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    done = thoth(filled, "pack", "keygen", str(path))
    assert done.returncode == 0, done.stderr
    assert "PRIVATE" not in done.stdout + done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


def test_equal_selections_give_equal_bytes_signed_or_not(
    filled: Settings, key: Path, tmp_path: Path
) -> None:
    folder, archive, again = (str(tmp_path / it) for it in ("p", "p.tar", "again.tar"))
    built = thoth_json(filled, "pack", "build", folder)
    assert built["key"] is None
    for path in (archive, again):
        packed = thoth_json(filled, "pack", "build", path, "--name", "p")
        assert packed["digest"] == built["digest"]
        signed = thoth_json(filled, "pack", "sign", path, "--key", str(key))
        verified = thoth_json(filled, "pack", "verify", path, "--key", f"{key}.pub")
        assert signed == verified == {**packed, "key": signed["key"], "assurance": "self_attested"}
    assert Path(archive).read_bytes() == Path(again).read_bytes()
