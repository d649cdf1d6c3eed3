"""Release documents: states, normalisation, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from ingest.releases.parsing import release_of
from model.errors import InvalidDocument, Reason
from model.json_documents import digest_bytes
from tests.factories.case_files import described
from tests.factories.golden import compare_views
from tests.factories.releases import file_document, release, release_document, sdist_of, wheel_of

Record = dict[str, Any]


def refused(document: Any) -> tuple[Reason, str]:
    with pytest.raises(InvalidDocument) as caught:
        release_of(document)
    return Reason(caught.value.reason), caught.value.field


def uploaded(*days: int, **changes: Any) -> Record:
    """A release whose files were uploaded on these days."""
    files = [
        file_document(f"flask-3.0.0-{day}-py3-none-any.whl", upload_time=f"2024-05-0{day}T10:00Z")
        for day in days
    ]
    return release_document(files=files, **changes)


IN_9_DAYS = (datetime.now(UTC) + timedelta(days=9)).isoformat()
RELEASES = {
    "a release": release_document(),
    "names, versions and extras in other spellings": release_document(
        "Keras_Preprocessing",
        "1.1.02",
        ['NumPy (>=1.9.1) ; extra == "Image.Ops"'],
        provides_extra=["Image.Ops", "image-ops"],
        index="pypi-org",
    ),
    "another index": release_document(index="builds"),
    "the URL of an index": release_document(index="https://user:secret@builds.example/cpu/simple/"),
    "no requirements are known": release_document(requires=None),
    "dynamic metadata": release_document(requires=None, problem="dynamic_metadata"),
    "broken metadata": release_document(requires=None, problem="broken_metadata"),
    "an invalid version": release_document(version="2004b-final"),
    "an invalid version without requirements": release_document(
        version="2004b-final", requires=None
    ),
    "an invalid requirement": release_document(requires=["click", "ipython doctest plugin==0.1"]),
    "an invalid Requires-Python": release_document(requires_python=">=3.x"),
    "the first upload of its files": uploaded(3, 2, upload_time=None),
    "an upload of its own": uploaded(3, 2),
    "a file from the future": release_document(
        requires=["click"],
        files=[wheel_of("flask", "3.0.0", upload_time=IN_9_DAYS), sdist_of("flask", "3.0.0")],
    ),
    "a backslash that is escaped": release_document(license="a\\u0000b"),
}


def test_release_document_gives_requirements_files_and_state() -> None:
    usual = lines_of(RELEASES["a release"])
    views = {
        title: "\n".join(it for it in lines_of(document) if title == "a release" or it not in usual)
        for title, document in RELEASES.items()
    }
    compare_views("releases", views)


def lines_of(document: Record) -> list[str]:
    return [it for it in described(release_of(document)) if not it.startswith("document_id")]


def test_release_with_unknown_requirements_differs_from_one_without_any() -> None:
    assert release(requires=None).document_id != release(requires=[]).document_id


@pytest.mark.parametrize(
    "document",
    [
        release_document(),
        release_document(requires=None, problem="no_files", problem_message="nothing there"),
        release_document("pytz", "2004b-final"),
        release_document(requires=["a b c", 'x; extra == "y"', "z @ file:///z.whl"]),
        release_document(index="builds", yanked="broken", files_complete=False),
        release_document(files=[wheel_of("flask", "3.0.0", attested=True, metadata_sha256="")]),
    ],
)
def test_release_is_read_back_from_its_stored_document(document: Record) -> None:
    found = release_of(document)
    assert release_of(orjson.loads(found.body)) == found
    assert found.document_id == digest_bytes(found.body)


def test_equal_release_documents_have_one_identifier() -> None:
    document = release_document(provides_extra=["b", "a"])
    other = dict(reversed(document.items())) | {
        "provides_extra": ["A", "b", "B"],
        "files": document["files"][::-1],
        "collected_at": "2026-11-21",
        "upload_time": "2024-05-01T12:00:00+02:00",
    }
    assert release_of(other).document_id == release_of(document).document_id


def test_release_is_yanked_if_all_its_files_are() -> None:
    whole = wheel_of("flask", "3.0.0", yanked="it breaks")
    part = file_document("flask-3.0.0.tar.gz")
    found = release(files=[whole], yanked=None)
    assert (found.yanked, found.yanked_reason) == (True, "it breaks")
    assert not release(files=[whole, part], yanked=None).yanked
    assert not release(files=[], yanked=None).yanked
    assert release(files=[part], yanked=True).yanked
    assert not release(files=[whole], yanked=False).yanked


def test_mail_addresses_and_passwords_in_releases_are_not_stored() -> None:
    found = release(
        requires=[
            "a @ git+https://jo:secret@host.example/a.git",
            "b @ git+ssh://git@host.example/b",
        ],
        license="MIT, ask jo@mail.example\nfull text",
        yanked="write to jo@mail.example",
    )
    assert b"secret" not in found.body
    assert b"mail.example" not in found.body
    assert b"full text" not in found.body
    assert [asked.url for asked in found.requirements] == [
        "git+https://host.example/a.git",
        "git+ssh://git@host.example/b",
    ]


def test_secrets_in_release_urls_are_not_stored() -> None:
    reason = "see https://u:SECRET@h.example/z?token=SECRET" + " x" * 475
    found = release(
        requires=["a @ https://u:SECRET@h.example/a.whl?sig=SECRET#sha256=0f&token=SECRET"],
        yanked=reason + " or ftp://u:SECRET@h.example",
        license="https://u:SECRET@h.example/l",
        files=[wheel_of("flask", "3.0.0") | {"yanked": "https://u:SECRET@h.example"}],
    )
    assert b"SECRET" not in found.body
    assert found.requirements[0].url == "https://h.example/a.whl#sha256=0f"
    broken = release(
        requires=None, problem="broken_metadata", problem_message="at https://u:SECRET@h.example?S"
    )
    assert broken.problem_message == "at https://h.example"
    invalid = release(requires=["no requirement https://u:SECRET@h.example/?t=SECRET"])
    assert b"SECRET" not in invalid.body
    for it in (found, broken, invalid):
        assert release_of(orjson.loads(it.body)).body == it.body


def test_long_texts_of_a_release_are_shortened() -> None:
    found = release(requires=None, license="x" * 10**6, problem_message="y" * 10**6)
    assert len(found.body) < 5_000


SHA = "a" * 64


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"name": None}, Reason.MISSING_FIELD, "$.name"),
        ({"name": "../../etc"}, Reason.WRONG_TYPE, "$.name"),
        ({"name": "x" * 201}, Reason.OUT_OF_RANGE, "$.name"),
        ({"name": 7}, Reason.WRONG_TYPE, "$.name"),
        ({"version": None}, Reason.MISSING_FIELD, "$.version"),
        ({"version": " "}, Reason.MISSING_FIELD, "$.version"),
        ({"version": "1" * 101}, Reason.OUT_OF_RANGE, "$.version"),
        ({"version": "1\x1b[2J"}, Reason.WRONG_TYPE, "$.version"),
        ({"version": "1\ud800"}, Reason.WRONG_TYPE, "$.version"),
        ({"index": "two words"}, Reason.WRONG_TYPE, "$.index"),
        ({"index": "https://["}, Reason.WRONG_TYPE, "$.index"),
        ({"requires_dist": "click"}, Reason.WRONG_TYPE, "$.requires_dist"),
        ({"requires_dist": ["click", None]}, Reason.WRONG_TYPE, "$.requires_dist[1]"),
        ({"requires_dist": ["a"] * 10_001}, Reason.OUT_OF_RANGE, "$.requires_dist"),
        ({"requires_dist": ["a\ud800"]}, Reason.LONE_SURROGATE, "$"),
        ({"license": "M\0IT"}, Reason.NUL_CHARACTER, "$"),
        ({"problem": "unheard_of", "requires_dist": None}, Reason.OUT_OF_RANGE, "$.problem"),
        ({"provides_extra": [1]}, Reason.WRONG_TYPE, "$.provides_extra[0]"),
        ({"yanked": 1}, Reason.WRONG_TYPE, "$.yanked"),
        ({"upload_time": "yesterday"}, Reason.WRONG_TYPE, "$.upload_time"),
        ({"files": [{"sha256": SHA}]}, Reason.MISSING_FIELD, "$.files[0].filename"),
        ({"files": [{"filename": "a/b.whl"}]}, Reason.WRONG_TYPE, "$.files[0].filename"),
        ({"files": [{"filename": "é" * 200}]}, Reason.OUT_OF_RANGE, "$.files[0].filename"),
        ({"files": [{"filename": "a", "sha256": "b"}]}, Reason.WRONG_TYPE, "$.files[0].sha256"),
        ({"files": [{"filename": "a", "size": -1}]}, Reason.OUT_OF_RANGE, "$.files[0].size"),
        ({"files": [{"filename": "a", "attested": 1}]}, Reason.WRONG_TYPE, "$.files[0].attested"),
        (
            {"files": [{"filename": "a", "sha256": SHA}, {"filename": "a", "sha256": "b" * 64}]},
            Reason.CONFLICTING_FIELDS,
            "$.files[1].sha256",
        ),
        ({"files": [{"filename": "a"}] * 10_001}, Reason.OUT_OF_RANGE, "$.files"),
        ({"files_complete": "yes"}, Reason.WRONG_TYPE, "$.files_complete"),
    ],
)
def test_invalid_release_document_is_refused_with_its_field(
    changes: Record, reason: Reason, field: str
) -> None:
    assert refused(release_document() | changes) == (reason, field)


def test_release_uploaded_in_the_future_is_refused() -> None:
    later = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert refused(release_document(upload_time=later)) == (
        Reason.FUTURE_TIMESTAMP,
        "$.upload_time",
    )
