"""The least that such a service can be: one Flask view that gives a constant document."""

from __future__ import annotations

import os
from typing import Any

from flask import Flask, jsonify

app = Flask("bare", static_folder=None)
_DOCUMENT = {"text": "x" * int(os.environ.get("BARE_BYTES", "0"))}


@app.get("/small")
def small() -> Any:
    """What ``/livez`` gives, without anything around it."""
    return jsonify(status="alive")


@app.get("/large")
def large() -> Any:
    """As many bytes as a report has."""
    return jsonify(_DOCUMENT)
