"""Benchmarks can be imported, and the documentation names those that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import MEASUREMENTS, main

ROOT = Path(__file__).parents[2]
MODULES = sorted(it.stem for it in (ROOT / "benchmarks").glob("*.py"))
#: ``python -m benchmarks.MODULE OPTIONS`` or ``python -m benchmarks NAME``.
COMMAND = re.compile(
    r"python -m\s+benchmarks(?:\.(?P<module>\w+)| (?P<name>\w+))(?P<options>[^`\n]*)"
)


@pytest.mark.parametrize("module", MODULES)
def test_each_benchmark_can_be_imported(module: str) -> None:
    import_module(f"benchmarks.{module}")


def test_documented_commands_name_benchmarks_and_options_that_exist() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
    commands = [it for page in pages for it in COMMAND.finditer(page.read_text(encoding="utf-8"))]
    assert len(commands) > 20
    for command in commands:
        module, name = command["module"], command["name"]
        if module is None:
            assert name in {*MEASUREMENTS, "NAME"}, command[0]
            continue
        assert module in MODULES, command[0]
        source = (ROOT / "benchmarks" / f"{module}.py").read_text(encoding="utf-8")
        assert 'if __name__ == "__main__":' in source, command[0]
        for option in re.findall(r"--[a-z-]+", command["options"]):
            assert f'"{option}"' in source or option == "--help", command[0]


def test_a_measurement_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def fail() -> None:
        raise SystemExit(1)

    measurements = {"first": fail, "second": lambda: done.append("second")}
    monkeypatch.setattr("benchmarks.__main__.MEASUREMENTS", measurements)
    monkeypatch.setattr("benchmarks.__main__.set_up_logs", lambda: None)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    with pytest.raises(SystemExit, match="failed: first"):
        main()
    assert done == ["second"]
