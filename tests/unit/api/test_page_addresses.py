"""Addresses that pages make of their own."""

from __future__ import annotations

import pytest
from flask import Flask

from api.pages.site import other_url


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("", "/stacks/a?after=c+d"),
        ("after=b&package=x:y", "/stacks/a?after=c+d&package=x:y"),
        ("name=b&_method=POST", "/stacks/a?name=b&_method=POST&after=c+d"),
        ("_scheme=other&_external=1", "/stacks/a?_scheme=other&_external=1&after=c+d"),
    ],
)
def test_parameters_of_an_address_stay_parameters(query: str, address: str) -> None:
    app = Flask(__name__)
    app.add_url_rule("/stacks/<name>", "stack", lambda name: name)
    with app.test_request_context(f"/stacks/a?{query}"):
        assert other_url(after="c d") == address
        assert other_url(after=None, package=None, name=None, _method=None, _scheme=None,
                         _external=None) == "/stacks/a"  # fmt: skip
