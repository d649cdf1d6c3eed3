"""``guard --pack`` and ``compare --pack``: answers from a pack, in a process without stores."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from adviser.answering.target_hardware import own_hardware
from adviser.packs.pack_files import opened
from cli.compare import compare
from cli.guard import guard
from common.settings import Settings
from model.packages.environments import host_environment
from tests.factories.evidence import ELSEWHERE
from tests.factories.packs import pack_on

LOCKS = {"one.txt": "numpy==1\nother==1\nrest==1\n", "two.txt": "numpy==2\nother==2\nrest==1\n"}


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack that was measured on this machine; its locks lie beside it."""
    for name, text in LOCKS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return pack_on(own_hardware().digest, tmp_path / "pack")


def run(command: Any, *arguments: str, trusted: Path | None = None) -> Result:
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "GRAPH_URL": "bolt://127.0.0.1:1"}
    if trusted is not None:
        policy = Path("packs.toml")
        policy.write_text(f'[[rules]]\nkey = "{opened(trusted).key}"\n', encoding="utf-8")
        nowhere["PACKS_POLICY"] = str(policy.absolute())
    settings = Settings.from_env({**nowhere, "THOTH_HOME": str(Path.cwd() / "home")})
    return CliRunner().invoke(command, list(arguments), obj=settings)


def test_trusted_pack_settles_only_speed(pack: Path) -> None:
    gain = run(guard, "one.txt", "two.txt", "--offline", f"--pack={pack}", trusted=pack)
    assert gain.exit_code == 0, gain.output
    assert "decides" in gain.stderr
    lines = gain.stdout.splitlines()
    assert any(it.startswith("  numpy 2 is 30 % faster than 1") for it in lines)
    assert "  the pack does not compare other" in lines
    assert [it for it in lines if "test pack" in it] == [
        "on a class; measured by others: pack test pack"
    ]
    assert lines[-1].startswith("result: no harm; vulnerabilities")
    loss = run(guard, "two.txt", "one.txt", "--json", "--pack", str(pack), trusted=pack)
    document = json.loads(loss.stdout)
    assert (loss.exit_code, document["outcome"], document["speed_only"]) == (1, "harm", True)
    (claim,) = document["claims"]
    assert len(claim["evidence"]) == 16


def test_releases_are_compared_from_a_pack_if_it_has_both(pack: Path) -> None:
    known = run(compare, "numpy==1", "numpy==2", "--pack", str(pack), trusted=pack)
    assert known.exit_code == 0, known.output
    assert "  numpy 2 is 30 % faster than 1" in known.stdout
    unknown = run(compare, "numpy==1", "numpy==3", "--pack", str(pack), "--json", trusted=pack)
    document = json.loads(unknown.stdout)
    assert (unknown.exit_code, document["settled"]) == (4, False)
    assert "thoth compare numpy==1 numpy==3" in document["sentences"][-1]


def test_options_unsupported_with_a_pack_are_refused(pack: Path, tmp_path: Path) -> None:
    for arguments in (
        (guard, "one.txt", "two.txt", "--fetch", f"--pack={pack}"),
        (guard, "one.txt", "two.txt", f"--pack={tmp_path / 'none'}"),
        (compare, "numpy==1", "fast", f"--pack={pack}"),
        (compare, "numpy==1", "numpy==2", "numpy==3", f"--pack={pack}"),
        (compare, "numpy==1", "numpy==2", "--env-a", "A=1", f"--pack={pack}"),
        (compare, "numpy==1", "numpy==2", "--hardware", "ab"),
    ):
        refused = run(*arguments)
        assert refused.exit_code != 0, arguments
        assert refused.stdout == ""


def test_pack_of_another_hardware_class_settles_nothing(pack: Path, tmp_path: Path) -> None:
    elsewhere = pack_on(ELSEWHERE, tmp_path / "elsewhere")
    answer = run(guard, "two.txt", "one.txt", f"--pack={elsewhere}", trusted=elsewhere)
    assert answer.exit_code == 4, answer.output
    assert "measured by others:" in answer.stdout
    assert "settled slower" not in answer.stdout
    for command, *subjects in ((guard, "two.txt", "one.txt"), (compare, "numpy==2", "numpy==1")):
        named = ("--hardware", ELSEWHERE[7:15], f"--pack={elsewhere}")
        about = run(command, *subjects, *named, trusted=elsewhere)
        assert "settled slower" in about.stdout, about.output
    untrusted = run(guard, "two.txt", "one.txt", f"--pack={pack}")
    assert (untrusted.exit_code, "never decides" in untrusted.stderr) == (4, True)


def test_suggested_commands_measure_on_the_python_asked_for(pack: Path) -> None:
    python = ("--python", "3.13" if host_environment().python_version != "3.13" else "3.12")
    named = f"numpy==1 numpy==2 {' '.join(python)} --ingest -- COMMAND"
    for command, *subjects in ((compare, "numpy==1", "numpy==2"), (guard, "one.txt", "two.txt")):
        answer = run(command, *subjects, *python, f"--pack={pack}", trusted=pack)
        assert answer.exit_code == 4, answer.output
        assert "undetermined whether numpy 2 or 1 is faster" in answer.stdout
        # This would measure on the Python of the pack.
        assert "pack again" not in answer.stdout
        assert f"with `thoth compare {named}`" in answer.stdout
    unknown = run(compare, "numpy==1", "numpy==3", *python, f"--pack={pack}", "--json")
    document = json.loads(unknown.stdout)
    (missing,) = [it for it in document["missing"] if it["kind"] == "measurement"]
    commands = document["sentences"][-1], missing["remedy"]
    assert all(it.endswith(f"{named.replace('==2', '==3')}") for it in commands), commands
