"""The questions that pages offer are those of the cookbook."""

from __future__ import annotations

import re

import pytest

from api.pages.questions import saved_questions
from tests.services.commands import ROOT


def test_every_question_of_the_cookbook_is_offered() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    headings = re.findall(r"^## (\d+)\. (.*)$", text, re.MULTILINE)
    assert [(str(it.number), it.title) for it in saved_questions().values()] == headings
    for question in saved_questions().values():
        assert set(re.findall(r"\$(\w+)", question.query)) == set(question.parameters)
        assert question.query in text


def test_parameters_have_the_type_of_their_example() -> None:
    (listed,) = (it for it in saved_questions().values() if "frameworks" in it.parameters)
    assert listed.values({"frameworks": "torch, jax"})["frameworks"] == ["torch", "jax"]
    (sized,) = (it for it in saved_questions().values() if "smallest" in it.parameters)
    assert sized.values({"smallest": "512", "indicator": ""}) == {
        **sized.parameters, "smallest": 512,
    }  # fmt: skip
    with pytest.raises(ValueError, match="smallest"):
        sized.values({"smallest": "big"})
