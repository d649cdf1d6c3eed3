"""What a person reads where packages are not known yet."""

from __future__ import annotations

from adviser.reports.note_codes import NoteCode
from adviser.reports.notes import stack_notes
from adviser.reports.unfetched_versions import missing_message
from adviser.stack_request import RequestIndex
from tests.factories.requests import INDEX, advice_for, request_for, snapshot_for

FILES = {
    "Pipfile": """
[[source]]
name = "main"
url = "https://index.example/simple"
verify_ssl = true

[[source]]
name = "own"
url = "https://own.example/simple"
verify_ssl = true

[packages]
web = "*"
mine = {version = "*", index = "own"}
"""
}
MAIN = RequestIndex("pypi", "main", "https://index.example/simple")
OWN = RequestIndex("internal", "own", "https://own.example/simple")


def test_an_empty_store_is_reported_once_with_what_to_do() -> None:
    notes = stack_notes(advice_for(request_for("web\ntool\n"), {}))
    told = [it for it in notes if it.code not in (NoteCode.ENVIRONMENT, NoteCode.CONFLICT)]
    assert [(it.code, it.type.value) for it in told[-1:]] == [("fetch", "ERROR")]
    assert told[-1].message == (
        "the store has none of the required packages: `thoth advise --fetch` reads them first, "
        "like `thoth packages add tool web`"
    )
    assert not {"package_missing", "coverage"} & {it.code for it in notes}


def test_some_that_are_missing_are_named() -> None:
    notes = stack_notes(advice_for(request_for("web\nnowhere\n")))
    (note,) = [it for it in notes if it.code == NoteCode.FETCH]
    assert note.message.startswith("not in the store: nowhere: `thoth advise --fetch`")
    assert "package_missing" in {it.code for it in notes}
    assert NoteCode.FETCH not in {it.code for it in stack_notes(advice_for())}


def test_each_is_added_from_the_index_that_it_names() -> None:
    request = request_for(files=FILES, indexes=(MAIN, OWN))
    message = missing_message(request, snapshot_for(request, {})) or ""
    assert "`thoth packages add web` and `thoth packages add mine --index internal`" in message


def test_an_index_that_is_not_configured_has_no_remedy_but_that() -> None:
    unknown = RequestIndex("own", "own", "https://own.example/simple", known=False)
    request = request_for(files=FILES, indexes=(MAIN, unknown))
    message = missing_message(request, snapshot_for(request, INDEX)) or ""
    assert message == (
        "not in the store: mine; no index for them is configured here (PACKAGE_INDEXES)"
    )
