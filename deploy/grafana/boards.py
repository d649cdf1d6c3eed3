"""Makes the boards of Grafana from ``boards.yml``: ``python deploy/grafana/boards.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
#: Panels of a row of the board, and their size in Grafana's grid, which has 24 columns.
_ACROSS, _WIDTH, _HEIGHT = 3, 8, 7
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOBS = "label_values(thoth_build_info, job)"
#: People choose a data source and a scrape job; the file names none.
_VARIABLES = [
    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
    {
        "name": "job", "label": "Job", "type": "query", "datasource": _SOURCE,
        "query": _JOBS, "definition": _JOBS, "refresh": 1, "sort": 1,
    },
]  # fmt: skip


def boards() -> dict[str, str]:
    """The JSON text of each board by its name, in Grafana's format for import."""
    described = yaml.safe_load((FOLDER / "boards.yml").read_text(encoding="utf-8"))
    return {
        name: json.dumps(_board(name, values), indent=1) + "\n"
        for name, values in described.items()
    }


def _board(name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    panels = _panels(described["rows"])
    return {
        "uid": f"thoth-{name}",
        "title": described["title"],
        "tags": ["thoth"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _VARIABLES},
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, start=1)],
    }


def _panels(rows: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    top = 0
    for title, described in rows.items():
        place = {"x": 0, "y": top, "w": 24, "h": 1}
        yield {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        for number, panel in enumerate(described):
            below, across = divmod(number, _ACROSS)
            place = {
                "x": across * _WIDTH, "y": top + below * _HEIGHT, "w": _WIDTH, "h": _HEIGHT,
            }  # fmt: skip
            yield {**_panel(panel), "gridPos": place}
        top += -(-len(described) // _ACROSS) * _HEIGHT


def _panel(described: Mapping[str, Any]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": expression.replace("JOB", 'job="$job"'),
            "legendFormat": legend,
        }
        for number, (legend, expression) in enumerate(described["queries"].items())
    ]
    return {
        "type": "stat" if described.get("stat") else "timeseries",
        "title": described["title"],
        "description": described["description"],
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": described["unit"]}, "overrides": []},
        "targets": targets,
    }


if __name__ == "__main__":
    for board, text in boards().items():
        (FOLDER / f"{board}.json").write_text(text, encoding="utf-8")
