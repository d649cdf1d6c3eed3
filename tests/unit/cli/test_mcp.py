"""Answers for assistants from a pack, and what no answer may have; the library is not needed."""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from adviser.answering.target_hardware import own_hardware
from adviser.packs.pack_files import opened
from cli.guard import guard
from cli.mcp import TOOLS, Assistant, mcp
from cli.mcp_answers import MOST_BYTES, answer_within, fix_answer
from common.settings import Settings
from model.errors import InvalidArgument
from tests.factories.packs import pack_on
from tests.services.commands import run_here


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Nothing is where the stores should be, and one key is trusted."""
    pack = pack_on(own_hardware().digest, tmp_path / "pack")
    policy = tmp_path / "packs.toml"
    policy.write_text(f'[[rules]]\nkey = "{opened(pack).key}"\n', encoding="utf-8")
    return Settings.from_env({
        "DATABASE_URL": "postgresql://127.0.0.1:1/none", "GRAPH_URL": "bolt://127.0.0.1:1",
        "THOTH_HOME": str(tmp_path / "home"), "PACKS_POLICY": str(policy),
    })  # fmt: skip


@pytest.fixture
def assistant(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assistant:
    """Answers from the pack in a folder with two locks."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, version in (("one.txt", "1"), ("two.txt", "2")):
        (folder / name).write_text(f"numpy=={version}\nrest==1\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return Assistant(settings, pack=tmp_path / "pack")


def ask(assistant: Assistant, tool: str, **values: Any) -> dict[str, Any]:
    text, _ = assistant.answer(tool, values)
    assert len(text.encode()) < MOST_BYTES
    answer: dict[str, Any] = json.loads(text)
    return answer


def test_tool_answer_is_a_selection_of_the_command_output(assistant: Assistant) -> None:
    harm = ask(assistant, "judge_lock_change", old="two.txt", new="one.txt")
    assert (harm["answer"], harm["source"]) == ("harm", "pack test pack")
    assert harm["as_of"].startswith("2026-11-29T12:00")
    arguments = "two.txt", "one.txt", "--json", f"--pack={assistant.pack}"
    printed = run_here(guard, assistant.settings, *arguments).stdout
    assert harm["id"] == f"sha256:{hashlib.sha256(printed.encode()).hexdigest()}"
    (measured,) = harm["measured"]
    (claim,) = json.loads(printed)["claims"]
    assert measured["group"] == "slower"
    assert claim["claim_id"].startswith(harm["claims"][0])
    assert "95 % interval" in measured["message"]


def test_assistant_tool_accepts_a_lock_as_text_or_path(assistant: Assistant) -> None:
    text = ask(assistant, "judge_lock_change", old="numpy==1\nrest==1", new="numpy==2\nrest==1")
    assert text == ask(assistant, "judge_lock_change", old="one.txt", new="./two.txt")
    assert text["answer"] == "no_harm"
    assert ask(assistant, "compare_versions", package="NumPy", old="1", new="2")["measured"]


def test_tool_names_packages_that_differ_but_are_not_installed(assistant: Assistant) -> None:
    old, new = (f'numpy==1\nrest=={it} ; python_version < "3"' for it in (1, 2))
    answer = ask(assistant, "judge_lock_change", old=old, new=new)
    assert (answer["answer"], answer["not_compared"]) == ("no_harm", ["rest"])
    Path("old.txt").write_text(old, encoding="utf-8")
    Path("new.txt").write_text(new, encoding="utf-8")
    arguments = "old.txt", "new.txt", f"--pack={assistant.pack}"
    same, others = run_here(guard, assistant.settings, *arguments).stdout.splitlines()
    assert same == "the locks install the same versions"
    assert others.startswith("not compared: 1 package that differs, of groups and extras that were")
    assert others.endswith(": rest")
    assert run_here(guard, assistant.settings, "old.txt", "old.txt", *arguments[2:]).stdout == (
        "the locks are the same\n"
    )


def test_tool_answers_unknown_for_versions_not_in_the_pack(assistant: Assistant) -> None:
    for package, new in (("numpy", "3"), ("nunpy", "2"), ("rest", "2")):
        answer = ask(assistant, "compare_versions", package=package, old="1", new=new)
        assert answer["answer"] == "unknown"
        assert answer["settled_by"] == ["thoth compare OLD NEW --ingest -- COMMAND"]
        assert "measured" not in answer
    elsewhere = replace(assistant, options=("--python=3.12", "--platform=win_amd64"))
    answer = ask(elsewhere, "compare_versions", package="numpy", old="1", new="3")
    assert answer["settled_by"] == ["thoth compare OLD NEW --python=3.12 --ingest -- COMMAND"]
    assert ask(assistant, "why", requirement="numpy")["answer"] == "unknown"
    assert ask(assistant, "fix_vulnerabilities", lock="one.txt")["answer"] == "unknown"


def test_unreachable_store_is_reported_in_the_tool_answer(assistant: Assistant) -> None:
    text, is_error = Assistant(assistant.settings).answer(
        "compare_versions", {"package": "numpy", "old": "1", "new": "2"}
    )
    assert (json.loads(text)["error"]["code"], is_error) == ("store_unavailable", False)


def test_assistant_tools_read_no_file_outside_the_project_folder(assistant: Assistant) -> None:
    secret = Path("../secret.txt")
    secret.write_text("numpy==1\n", encoding="utf-8")
    Path("link.txt").symlink_to(secret)
    Path("link").symlink_to("..")
    outside = "../secret.txt", "link.txt", "link/secret.txt", "main:../secret.txt", "main:/a"
    Path("loop.txt").symlink_to("loop.txt")
    for path in (*outside, str(secret.absolute()), "loop.txt", "a\0b"):
        text, is_error = assistant.answer("judge_lock_change", {"old": "one.txt", "new": path})
        assert is_error, path
        assert json.loads(text)["error"]["code"] == "archive_path", path
    included = ask(assistant, "judge_lock_change", old="one.txt", new="-r ../secret.txt\na==1\n")
    assert included["error"]["file"] == "requirements.txt"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, "missing_field"),
        ({"package": "numpy", "old": 1, "new": "2"}, "wrong_type"),
        ({"package": ["numpy"], "old": "1", "new": "2"}, "wrong_type"),
        ({"package": "numpy", "old": "1", "new": "2", "shell": "x"}, "unknown_schema"),
        ({"package": "numpy\n-r x", "old": "1", "new": "2"}, "invalid_requirement"),
        ({"package": "--output=x", "old": "1", "new": "2"}, "invalid_requirement"),
        ({"package": "numpy", "old": "1; obey", "new": "2"}, "invalid_requirement"),
        ({"package": "n" * 201, "old": "1", "new": "2"}, "out_of_range"),
    ],
)
def test_wrong_tool_arguments_are_reported_by_code(
    assistant: Assistant, values: Any, code: str
) -> None:
    text, is_error = assistant.answer("compare_versions", values)
    assert (json.loads(text)["error"]["code"], is_error) == (code, True)


def test_assistant_tool_schemas_take_less_than_1500_tokens() -> None:
    # A token of JSON has three bytes or more, measured with real tokenizers.
    assert len(TOOLS) <= 4
    schemas = [(it.description, it.arguments) for it in TOOLS.values()]
    assert len(json.dumps(schemas)) + 400 < 3 * 1_500


def test_long_tool_answers_are_shortened_by_whole_items() -> None:
    texts = [f"{number} % faster (95 % interval 1 to 9 %)" for number in range(12)]
    document = {"answer": "harm", "a": texts, "b": ["x" * 5_000], "c": ["\x1b"]}
    answer = json.loads(answer_within(document))
    assert (answer["a"], answer["c"], answer["left_out"]) == (texts, ["\\x1b"], 1)
    answer = json.loads(answer_within({"answer": "harm", "a": texts, "b": ["x"] * 40}, 300))
    assert (answer["a"], answer["answer"]) == (texts[: len(answer["a"])], "harm")
    assert len(answer["a"]) + len(answer.get("b", [])) + answer["left_out"] == 52


def test_missing_mcp_library_is_reported_with_its_extra(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    done = CliRunner().invoke(mcp, [], obj=settings)
    assert isinstance(done.exception, InvalidArgument)
    assert "extra mcp" in (done.exception.hint or "")


def test_tool_answer_omits_free_text_from_vex_statements() -> None:
    said = {"status": "affected", "until": "2027-01-31", "reason": "obey me", "source": "a.json"}
    closed = {"package": "core", "id": "CVE-2026-1", "severity": "high", "vex": said}
    document = {
        "fixes": [], "open": [], "closed": [closed], "unknown": [], "not_looked_at": 63,
        "advisories_as_of": "2026-11-29",
    }  # fmt: skip
    answer = fix_answer(document)
    assert (answer["answer"], answer["not_looked_at"]) == ("nothing_open", 63)
    few = {**document, "closed": [], "not_counted": 0, "unknown": ["mine"]}
    for packages, expected in ((1, "unknown"), (2, "nothing_open")):
        answer_of_few = fix_answer({**few, "packages": packages})
        assert (answer_of_few["answer"], answer_of_few["unknown"]) == (expected, ["mine"])
        assert ("thoth fix LOCK --fetch" in answer_of_few["settled_by"]) == (expected == "unknown")
    assert answer["closed"] == [{**closed, "vex": {"status": "affected", "until": "2027-01-31"}}]
    advised = {"remaining": [], "proof": None}
    document = {"open": [{"package": "core"}], "conflict": None, "unknown": [],
                "advisories_as_of": "2026-11-29", "not_looked_at": 0}  # fmt: skip
    answers = {fix_answer({**document, "fixes": fixes})["answer"] for fixes in ([], [advised])}
    assert answers == {"unknown"}
    proven = {**advised, "proof": {"status": "optimal"}}
    assert fix_answer({**document, "fixes": [proven]})["answer"] == "fixable"
