"""The version in reports follows the code."""

from __future__ import annotations

from pathlib import Path

from adviser.reports.serialization import code_version, digest_of_code
from common import __version__


def test_the_version_has_a_digest_of_the_code() -> None:
    version, _, code = code_version().partition("+")
    assert (version, len(code)) == (__version__, 12)


def test_a_changed_added_or_renamed_module_changes_the_digest(tmp_path: Path) -> None:
    package = tmp_path / "adviser"
    package.mkdir()
    digests = [digest_of_code(tmp_path)]
    (package / "notes.py").write_text("ONE = 1\n")
    digests.append(digest_of_code(tmp_path))
    (package / "notes.py").write_text("ONE = 2\n")
    digests.append(digest_of_code(tmp_path))
    (package / "notes.py").rename(package / "remarks.py")
    digests.append(digest_of_code(tmp_path))
    (package / "data.json").write_text("{}")
    assert len(set(digests)) == 4
    assert digest_of_code(tmp_path) == digests[-1]
