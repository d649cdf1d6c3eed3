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
from api.pages.report_view import report_view

_FOLDER = Path(__file__).parent


def report_file(report: Mapping[str, Any], made_at: datetime) -> str:
    """The HTML of a report.

    :param report: of :func:`adviser.quality.report_document.report_document`
    """
    css = (_FOLDER / "static" / "pages.css").read_text(encoding="utf-8")
    style = Markup(f"<style>{css}</style>")  # noqa: S704 - a file of this package
    template = _templates().get_template("report_file.html")
    return template.render(style=style, view=report_view(report), made_at=made_at)


@cache
def _templates() -> Environment:
    loader = FileSystemLoader(_FOLDER / "templates")
    templates = Environment(loader=loader, autoescape=True, finalize=visible_text)
    templates.filters.update(FILTERS)
    return templates
