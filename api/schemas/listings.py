"""Listings as the ``thamos`` client reads them: texts, and null only where it allows that."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schema_fields import LAST_PAGE, LenientSchema


class SystemSchema(Schema):
    """An operating system and a Python."""

    os_name = fields.String(required=True)
    os_version = fields.String(required=True)
    python_version = fields.String(required=True)


class EnvironmentsSchema(Schema):
    """Systems that are known."""

    environment = fields.List(fields.Nested(SystemSchema), required=True)


class PackageIndexSchema(Schema):
    """A package index."""

    url = fields.String(required=True)
    verify_ssl = fields.Boolean(required=True)
    only_if_package_seen = fields.Boolean(required=True)
    warehouse_api_url = fields.String(allow_none=True, dump_default=None)


class IndexesSchema(Schema):
    """IndexesSchema that are read."""

    indexes = fields.List(fields.Nested(PackageIndexSchema), required=True)


class ImportQuerySchema(LenientSchema):
    """Which module is asked for."""

    import_name = fields.String(required=True, validate=validate.Length(1, 500))


class ProviderSchema(Schema):
    """A release that has a module."""

    package_name = fields.String(required=True)
    package_version = fields.String(required=True)
    package_import = fields.String(required=True)
    index_url = fields.String(required=True)


class ImportsSchema(Schema):
    """Releases that have a module."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    package_names = fields.List(fields.Nested(ProviderSchema), required=True)


class ImageQuerySchema(LenientSchema):
    """Which images are asked for."""

    page = fields.Integer(load_default=0, validate=validate.Range(0, LAST_PAGE))
    os_name = fields.String()
    os_version = fields.String()
    python_version = fields.String()
    cuda_version = fields.String()
    image_name = fields.String()
    library_name = fields.String()
    symbol = fields.String()
    package_name = fields.String()
    rpm_package_name = fields.String()


class ImageSchema(Schema):
    """A container image."""

    datetime = fields.String(required=True)
    environment_type = fields.String(required=True, validate=validate.OneOf(["RUNTIME"]))
    image_analysis_url = fields.String(required=True)
    package_extract_document_id = fields.String(required=True)
    quay_repo_url = fields.String(required=True)
    cuda_version = fields.String(allow_none=True)
    env_image_name = fields.String(allow_none=True)
    env_image_tag = fields.String(allow_none=True)
    environment_name = fields.String(allow_none=True)
    image_sha = fields.String(allow_none=True)
    os_name = fields.String(allow_none=True)
    os_version = fields.String(allow_none=True)
    python_version = fields.String(allow_none=True)
    thoth_image_name = fields.String(allow_none=True)
    thoth_image_version = fields.String(allow_none=True)


class ImagesSchema(Schema):
    """A page of images; the one past the last is empty."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    container_images = fields.List(fields.Nested(ImageSchema), required=True)
