"""The reference of the service: Flask views that return a constant document."""

import os
from typing import Any

from flask import Flask, jsonify

app = Flask("bare", static_folder=None)
_DOCUMENT = {"text": "x" * int(os.environ.get("BARE_BYTES", "0"))}


@app.get("/small")
def small() -> Any:
    """The body of ``/livez``."""
    return jsonify(status="alive")


@app.get("/large")
def large() -> Any:
    """A document of the size of a report."""
    return jsonify(_DOCUMENT)
