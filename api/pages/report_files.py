"""Quality reports as one HTML file that needs no scripts and no other file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from api.pages.formatting import FILTERS, visible_text
from api.pages.report_view import batches_view, report_view

_FOLDER = Path(__file__).parent


def report_file(report: Mapping[str, Any], made_at: datetime) -> str:
    """The HTML of a report.

    :param report: of :func:`adviser.quality.report_document.report_document`
    """
    return _render(view=report_view(report), batches=None, made_at=made_at)


def batches_file(batches: Mapping[str, Any], made_at: datetime) -> str:
    """The HTML of batches that differ in their number of repetitions.

    :param batches: of :func:`adviser.quality.report_document.batches_document`
    """
    return _render(view=None, batches=batches_view(batches), made_at=made_at)


def _render(**values: Any) -> str:
    css = (_FOLDER / "static" / "pages.css").read_text(encoding="utf-8")
    style = Markup(f"<style>{css}</style>")  # noqa: S704 - a file of this package
    return _templates().get_template("report_file.html").render(style=style, **values)


@cache
def _templates() -> Environment:
    loader = FileSystemLoader(_FOLDER / "templates")
    templates = Environment(loader=loader, autoescape=True, finalize=visible_text)
    templates.filters.update(FILTERS)
    return templates
