"""The numbered files of both stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from graph import migrate
from graph.migrate import CypherFile, cypher_files, known_revisions, statements_of


def test_the_files_names_tell_the_revisions_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert [script.revision for script in scripts][::-1] == list(known_revisions())


def test_the_graphs_steps_are_numbered_without_a_gap() -> None:
    versions = [int(file.version) for file in cypher_files()]
    assert versions == list(range(1, len(versions) + 1))


def test_every_statement_can_be_repeated() -> None:
    statements = [statement for file in cypher_files() for statement in file.statements]
    repeatable = ("IF NOT EXISTS", "node.unit IS NULL\nSET node.unit =")
    assert all(any(how in statement for how in repeatable) for statement in statements)


def test_a_comment_does_not_change_the_checksum() -> None:
    plain = CypherFile("0001", "a", statements_of("CREATE (a:B);"))
    commented = CypherFile("0001", "a", statements_of("// why\nCREATE\n  (a:B);\n"))
    other = CypherFile("0001", "a", statements_of("CREATE (a:C);"))
    assert plain.checksum == commented.checksum
    assert plain.checksum != other.checksum


def test_a_semicolon_inside_a_line_does_not_end_a_statement() -> None:
    assert statements_of("RETURN 'a;b';\n") == ("RETURN 'a;b'",)


def test_a_file_without_a_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cypher").mkdir()
    (tmp_path / "cypher" / "first.cypher").touch()
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path)
    with pytest.raises(ValueError, match=r"first\.cypher"):
        cypher_files()
