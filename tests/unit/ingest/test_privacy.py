"""E-mail addresses and names of persons do not get in."""

from typing import Any

import pytest

from ingest.personal_data import REMOVED, scrub, scrub_text
from model.json_documents import canonical_json


def scrubbed(value: Any) -> Any:
    return scrub(value, canonical_json(value))


def test_document_without_personal_data_is_returned_unchanged() -> None:
    document = {
        "@parameters": {"a@b": 1},
        "script": "git@host.example:org/repo",
        "name": "PiMatmul",
    }
    assert scrubbed(document) is document


def test_mail_addresses_are_removed_from_texts_and_keys() -> None:
    document = {"log": ["by Jo <jo.doe+x@mail.example>", {"legit@host.example": 1}], "rate": 1.5}
    assert scrubbed(document) == {"log": [f"by Jo <{REMOVED}>", {REMOVED: 1}], "rate": 1.5}


def test_keys_made_equal_by_removal_of_addresses_are_numbered() -> None:
    keys = {"b@mail.example": 2, "a@mail.example": 1, REMOVED: 3, "c": 4}
    expected = {f"{REMOVED} 2": 1, f"{REMOVED} 3": 2, REMOVED: 3, "c": 4}
    assert scrubbed(keys) == expected
    assert scrubbed(dict(sorted(keys.items()))) == expected
    assert scrubbed(expected) is expected
    many = {f"{number:05d}@mail.example": number for number in range(20_000)}
    assert sorted(scrubbed(many).values()) == sorted(many.values())


@pytest.mark.parametrize(
    "key",
    ["author", "authors", "authorName", "authorEmail", "author_email", "contact", "maintainer",
     "Maintainer-Email", "submitter", "user_name", "username", "submission_poc_name",
     "submission_poc_email", "owner_email", "e-mail", "email"],
)  # fmt: skip
def test_fields_that_name_a_person_are_removed(key: str) -> None:
    assert scrubbed({"a": {key: "Jo Doe", "kept": 1}}) == {"a": {"kept": 1}}


def test_packages_named_like_personal_fields_are_kept() -> None:
    lock = {"default": {"contact": {"version": "==1.0"}, "author-email": {"version": "==2"}}}
    assert scrubbed(lock) is lock


@pytest.mark.parametrize(
    "text",
    [
        "git@code.example:org/x.git",
        "ssh://git@code.example/x",
        "pkg:pypi/a@1.2.dev0",
        "a@1.0",
        "@x",
    ],
)
def test_text_that_only_resembles_a_mail_address_is_unchanged(text: str) -> None:
    assert scrub_text(text) == text


def test_long_text_without_addresses_is_scanned_quickly() -> None:
    text = "a" * 500_000 + "@" + "b" * 500_000
    assert scrub_text(text) == text
