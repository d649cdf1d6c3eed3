"""Rules of Prometheus, boards of Grafana and runbooks agree with what the service says."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from api.jobs.queue import QueueName
from cli import main as cli
from graph.record import freshness
from model.errors import Reason
from tests.requirements import needs
from tests.services.guides import blocks_of
from tests.services.served import Served

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
RULES = PROMETHEUS / "rules.yml"
RULE_TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
BOARDS = ("service", "knowledge", "evidence")
_METRIC = re.compile(r"(?<![:\w])thoth_\w+")
_RECORDED = re.compile(r"\bjob\w*:thoth_\w+:\w+")


def rules(kind: str) -> list[dict[str, Any]]:
    """The rules of one kind: ``alert`` or ``record``."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


ALERTS = [rule["alert"] for rule in rules("alert")]


def board(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GRAFANA / f"{name}.json").read_text("utf-8"))
    return loaded


def panels(name: str) -> list[dict[str, Any]]:
    """The panels of a board, without the headings of rows."""
    return [it for it in board(name)["panels"] if it["type"] != "row"]


def expressions() -> list[str]:
    """All expressions of rules and boards; variables of boards have a value."""
    of_boards = [
        target["expr"].replace("$job", "thoth").replace("$__rate_interval", "5m")
        for name in BOARDS
        for panel in panels(name)
        for target in panel["targets"]
    ]
    return [str(rule["expr"]) for kind in ("alert", "record") for rule in rules(kind)] + of_boards


def promtool(*arguments: str | Path) -> None:
    command = ["promtool", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


class TestRules:
    @needs("promtool")
    def test_prometheus_accepts_alert_rules_and_the_example_configuration(self) -> None:
        promtool("check", "rules", RULES)
        promtool("check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml")

    @needs("promtool")
    @pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
    def test_alert_fires_after_its_waiting_time_and_not_before(self, path: Path) -> None:
        promtool("test", "rules", path)

    def test_each_alert_has_a_promtool_test(self) -> None:
        outcomes: dict[str, list[bool]] = {name: [] for name in ALERTS}
        for path in RULE_TESTS:
            for test in yaml.safe_load(path.read_text("utf-8"))["tests"]:
                for case in test["alert_rule_test"]:
                    outcomes[case["alertname"]].append(bool(case["exp_alerts"]))
        assert len(outcomes) == len(ALERTS) > 25
        assert {name: it for name, it in outcomes.items() if it != [False, True]} == {}

    @pytest.mark.parametrize("rule", rules("alert"), ids=lambda rule: rule["alert"])
    def test_alert_has_a_severity_and_a_runbook_section(self, rule: dict[str, Any]) -> None:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor == rule["alert"].lower()
        text = (ROOT / page).read_text("utf-8")
        section = text.partition(f"\n## {rule['alert']}\n")[2].partition("\n## ")[0]
        for part in ("**Meaning.**", "**Do.**"):
            assert part in section, part

    def test_every_runbook_section_belongs_to_an_existing_alert(self) -> None:
        sections = [
            name
            for page in RUNBOOKS
            for name in re.findall(r"(?m)^## (\w+)$", page.read_text("utf-8"))
        ]
        assert sorted(sections) == sorted(ALERTS)

    def test_missing_metric_of_a_critical_alert_raises_an_alert(self) -> None:
        # Identical stacks are compared by the loop only.
        optional = {"thoth_identical_pairs"}
        recorded = {it["record"]: str(it["expr"]) for it in rules("record")}
        watched = set(_watched_metrics())
        needed: set[str] = set()
        for rule in rules("alert"):
            if rule["labels"]["severity"] == "critical":
                texts = [str(rule["expr"])]
                while texts:
                    text = texts.pop()
                    needed.update(_METRIC.findall(text))
                    texts += [recorded[name] for name in _RECORDED.findall(text)]
        assert needed - watched == optional


def _watched_metrics() -> list[str]:
    """The metrics whose absence is an alert."""
    absent = next(it for it in rules("alert") if it["alert"] == "ThothMetricAbsent")
    return re.findall(r"unless on \(job\) (\w+)", str(absent["expr"]))


class TestRunbooks:
    @pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
    def test_thoth_commands_in_a_runbook_exist_with_their_options(self, page: Path) -> None:
        lines = list(thoth_commands(page.read_text("utf-8")))
        assert lines
        for line in lines:
            command, rest = _command(shlex.split(line)[1:])
            options = {text for it in command.params for text in (*it.opts, *it.secondary_opts)}
            named = {it.partition("=")[0] for it in rest if it.startswith("-")}
            assert named <= options | {"--help"}, line


def thoth_commands(text: str) -> Iterator[str]:
    """The calls of ``thoth`` in the blocks and sentences of a page."""
    for block in blocks_of(text):
        for command in block.commands if block.language == "console" else ():
            if command.startswith("thoth "):
                yield command
    yield from re.findall(r"`(thoth [^`\n]+)`", text)


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli.thoth
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, words
        command, words = inner, words[1:]
    return command, words


class TestBoards:
    @pytest.mark.parametrize("name", BOARDS)
    def test_grafana_dashboard_contains_no_identifiers_of_an_installation(self, name: str) -> None:
        text, loaded = (GRAFANA / f"{name}.json").read_text("utf-8"), board(name)
        identifiers = [it["id"] for it in loaded["panels"]]
        assert len(set(identifiers)) == len(identifiers)
        assert loaded["time"] == {"from": "now-24h", "to": "now"}
        assert not re.search(r"\b20\d\d-|\b1[5-9]\d{8,11}\b", text), "an absolute time"
        assert [it["name"] for it in loaded["templating"]["list"]] == ["datasource", "job"]
        sources = re.findall(r'"uid": "([^"]+)"', text)
        assert set(sources) == {"${datasource}", loaded["uid"]}

    @pytest.mark.parametrize("name", BOARDS)
    def test_dashboard_panels_have_units_and_do_not_overlap(self, name: str) -> None:
        cells: set[tuple[int, int]] = set()
        for panel in board(name)["panels"]:
            place = panel["gridPos"]
            covered = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not covered & cells, panel["title"]
            assert max(x for x, _ in covered) < 24
            cells |= covered
        for panel in panels(name):
            assert panel["description"].endswith(".")
            units = {"short", "s", "bytes", "percentunit", "reqps"}
            assert panel["fieldConfig"]["defaults"]["unit"] in units
            assert all('job="$job"' in it["expr"] for it in panel["targets"])
            assert all(it["legendFormat"] for it in panel["targets"])

    @needs("promtool")
    def test_prometheus_accepts_every_dashboard_expression(self, tmp_path: Path) -> None:
        recorded = [
            {"record": f"panel:{number}", "expr": it} for number, it in enumerate(expressions())
        ]
        assert len(recorded) > 60
        path = tmp_path / "panels.yml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
        promtool("check", "rules", path)


class TestNames:
    def test_recorded_series_in_dashboards_are_defined_by_rules(self) -> None:
        recorded = {rule["record"] for rule in rules("record")}
        assert set(_RECORDED.findall("\n".join(expressions()))) <= recorded

    def test_label_values_in_alert_rules_exist_in_the_service(self) -> None:
        text = RULES.read_text("utf-8")

        def values(label: str) -> set[str]:
            found = re.findall(rf'\b{label}=~?"([^"]+)"', text)
            return {value for it in found for value in it.split("|")}

        # Each kind of source has an alert.
        kinds = {it for name, it in vars(freshness).items() if name.isupper()}
        assert values("kind") == {it for it in kinds if isinstance(it, str)}
        assert values("queue") <= {it.value for it in QueueName}
        assert values("reason") <= {it.value for it in Reason}

    def test_running_service_exposes_all_documented_metrics(self, served: Served) -> None:
        with served.client() as client:
            client.get("/api/v2/advice")
            text = client.get("/metrics").text
        exposed = set(re.findall(r"(?m)^# TYPE (\w+)", text)) | set(re.findall(r"(?m)^(\w+)", text))
        named = set(_METRIC.findall("\n".join(expressions())))
        assert len(named) > 20
        assert named - exposed == set()
        # Metrics whose absence is an alert have a value, not only a type.
        watched = _watched_metrics()
        assert set(watched) - set(re.findall(r"(?m)^(\w+)", text)) == set()
        names = re.findall(r"(?m)^# TYPE (\w+)", text)
        guide = (ROOT / "docs" / "guides" / "service.md").read_text("utf-8")
        assert {name for name in names if f"`{name}`" not in guide} == set()
