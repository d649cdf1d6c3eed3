"""Packages, releases, files and events on the wire."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    QuerySchema,
    asked,
    asked_choice,
    choice,
    count,
    flag,
    free,
    moment,
    text,
    texts,
)
from common.packages import DEFAULT_INDEX
from common.releases import ReleaseState
from graph.record.indexes import KINDS

_STATES = [it.value for it in ReleaseState]


class PackageQuerySchema(PageQuerySchema):
    """Which packages are asked for."""

    like = asked("Part of a name.", "flask")
    index = asked("Name of an index that serves a version.", "pypi")


class PackageItemSchema(Schema):
    """A package in a list."""

    name = text("Name, normalised.", "flask")
    versions = count("Known versions, on all indexes together.", 6)
    indexes = texts("Indexes that serve one of them.", ["pypi"])


class PackagePageSchema(PageSchema):
    """Packages in the order of their names."""

    items = fields.List(fields.Nested(PackageItemSchema), required=True)


class IndexAnswerSchema(Schema):
    """What an index last said when it was asked for the package."""

    index = text("Name of the index.", "pypi")
    state = choice("What it said.", ["known", "missing", "failed"])
    as_of = moment("When it last answered; null if it never did.", null=True)
    problem = text("Why it failed: a code.", null=True)
    message = text("The same, for people.", null=True)


class PackageDocumentSchema(FreshnessSchema, PackageItemSchema):
    """A package."""

    revision = text("Digest of all that could change an answer about it.", null=True)
    document_id = text("The document that it was first seen in.")
    answers = fields.List(fields.Nested(IndexAnswerSchema), required=True)


class VersionsQuerySchema(PageQuerySchema):
    """Which releases are asked for."""

    index = asked("Only those that this index serves.", "pypi")


class VersionItemSchema(Schema):
    """A release in a list."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Name, normalised.", "flask")
    version = text("Version, normalised.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known; only a solved release is ever advised.", _STATES)
    yanked = flag("Whether the index withdrew it.")
    uploaded_at = moment("When it was uploaded.", null=True)
    requires_python = text("The interpreters that it is for.", ">=3.9", null=True)
    vulnerabilities = count("How many affect it.", 0)


class VersionsPageSchema(PageSchema):
    """Releases, newest first."""

    items = fields.List(fields.Nested(VersionItemSchema), required=True)


class ReleaseQuerySchema(QuerySchema):
    """Which index is meant."""

    index = fields.String(
        load_default=DEFAULT_INDEX,
        validate=validate.Length(1, 500),
        metadata={"description": "Name of the index that serves it.", "example": "pypi"},
    )


class ReleasePageQuerySchema(ReleaseQuerySchema, PageQuerySchema):
    """Which index is meant, and which page."""


class VersionQuerySchema(ReleaseQuerySchema):
    """Which index is meant, and where the release is to run."""

    python_version = asked("Evaluate markers for this interpreter.", "3.11")
    platform = asked(
        "Evaluate them for this platform; `linux_x86_64` if only an interpreter is named.",
        "manylinux_2_28_x86_64",
    )
    extras = fields.List(
        fields.String(validate=validate.Length(1, 100)),
        validate=validate.Length(max=50),
        metadata={"description": "Extras that are asked of it.", "example": ["async"]},
    )


class RequirementSchema(Schema):
    """One line of what a release requires, as it was written and as it is understood."""

    raw = text("As it was written.", 'colorama; platform_system == "Windows"')
    name = text("The required package; null if the line is no requirement.", null=True)
    specifier = text("Versions of it; empty for any.", ">=3.1.2")
    marker = text("Where it holds; null for everywhere.", null=True)
    extras = texts("Extras of the required package.", [])
    for_extras = texts("Extras of this release that its marker names.", [])
    url = text("Where a direct reference points.", null=True)
    problem = text("Why the line is no requirement.", null=True)
    applies = flag(
        "Whether it holds in the environment that was named; null if none was, or if that cannot"
        " be told.",
        null=True,
    )


class VersionDocumentSchema(FreshnessSchema, Schema):
    """One release as one index serves it."""

    purl = text("Package URL.", "pkg:pypi/flask@3.1.2")
    name = text("Name, normalised.", "flask")
    version = text("Version, normalised.", "3.1.2")
    index = text("Name of the index that serves it.", "pypi")
    state = choice("What is known.", _STATES)
    problem = text("Why it is not solved: a code.", null=True)
    problem_message = text("The same, for people.", null=True)
    requires_python = text("The interpreters that it is for.", ">=3.9", null=True)
    extras = texts("Extras that it offers.", ["async", "dotenv"])
    license = text("As its metadata says.", "BSD-3-Clause", null=True)
    yanked = flag("Whether the index withdrew it.")
    yanked_reason = text("Why.", null=True)
    uploaded_at = moment("When it was uploaded.", null=True)
    metadata_source = text("How its requirements were read.", "metadata-file", null=True)
    metadata_file = text("The file whose metadata that is.", null=True)
    wheels = texts("Tag sets of its wheels.", ["py3-none-any"])
    has_sdist = flag("Whether there is a source distribution.", null=True)
    files_complete = flag("Whether all of its files are known.")
    document_id = text("The document that spoke last.")
    read_at = moment("When an index spoke last.", null=True)
    environment = text(
        "What markers were evaluated for.", "CPython 3.11 on manylinux_2_28_x86_64", null=True
    )
    requirements = fields.List(fields.Nested(RequirementSchema), required=True)


class FileItemSchema(Schema):
    """A file of a release; the hash that was seen first is never overwritten."""

    filename = text("Its name.", "flask-3.1.2-py3-none-any.whl")
    sha256 = text("Hexadecimal digits.", null=True)
    kind = choice("What it is.", ["wheel", "sdist", "other"])
    size_bytes = count("Its size.", 103308, null=True)
    requires_python = text("The interpreters that it is for.", null=True)
    yanked = flag("Whether the index withdrew it.")
    yanked_reason = text("Why.", null=True)
    uploaded_at = moment("When it was uploaded.", null=True)
    metadata_sha256 = text("Of the metadata beside it; empty if that has no hash.", null=True)
    attested = flag("Whether the index offers attestations.", null=True)
    listed = flag("Whether the index offers it still.")


class FilePageSchema(PageSchema):
    """Files of a release, by name."""

    items = fields.List(fields.Nested(FileItemSchema), required=True)


class EventQuerySchema(PageQuerySchema):
    """Which events are asked for."""

    package = asked("Name of a package.", "flask")
    index = asked("Name of an index.", "pypi")
    kind = asked_choice("What happened.", list(KINDS))


class EventItemSchema(Schema):
    """Something that changed in an index."""

    event_id = count("Grows with time.", 17)
    kind = choice("What happened.", list(KINDS))
    index = text("Name of the index.", "pypi")
    name = text("The package.", "flask")
    version = text("The version; empty where it is of the whole project.", "3.1.2")
    detail = free("What changed, by the kind of event.")
    occurred_at = moment("When it was noticed.")


class EventPageSchema(PageSchema):
    """Events, newest first."""

    items = fields.List(fields.Nested(EventItemSchema), required=True)
