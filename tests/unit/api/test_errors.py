"""What clients learn of errors that are not theirs."""

from __future__ import annotations

from flask import Flask

from api.http import errors
from model.errors import AccessDenied


def test_a_store_that_refuses_the_service_is_no_error_of_the_client() -> None:
    app = Flask(__name__)
    errors.register(app)

    @app.get("/")
    def ask() -> str:
        raise AccessDenied("DATABASE_URL: permission denied for table tokens", hint="use another")

    response = app.test_client().get("/")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert response.get_json()["detail"] == "a store refuses the service: try again later"
    assert "DATABASE_URL" not in response.text
