"""What is known of packages, as clients of the original service read it."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schema_fields import LAST_PAGE, LenientSchema
from api.schemas.listings import SystemSchema
from api.schemas.thamos import CapitalBoolean

_NAME = validate.Length(1, 500)


class _Where(LenientSchema):
    os_name = fields.String(validate=_NAME)
    os_version = fields.String(validate=_NAME)
    python_version = fields.String(validate=_NAME)


class PackageNameQuerySchema(_Where):
    """Which packages are asked for; pages count from 0."""

    page = fields.Integer(load_default=0, validate=validate.Range(0, LAST_PAGE))
    per_page = fields.Integer(load_default=25, validate=validate.Range(1, 100))
    like = fields.String(validate=_NAME)


class PackageVersionsQuerySchema(_Where):
    """Whose versions are asked for."""

    name = fields.String(required=True, validate=_NAME)
    order_by = fields.String(validate=validate.OneOf(["ASC", "DESC"]))


class ReleaseQueryV1Schema(_Where):
    """Which release is asked about; the index by its address or its name."""

    name = fields.String(required=True, validate=_NAME)
    version = fields.String(required=True, validate=_NAME)
    index = fields.String(required=True, validate=_NAME)


class DependencyQuerySchema(ReleaseQueryV1Schema):
    """Which dependencies are asked for."""

    marker_evaluation_result = CapitalBoolean()


class PackageNameSchema(Schema):
    """A package."""

    package_name = fields.String(required=True)


class PackageNamesSchema(Schema):
    """A page of packages; the one past the last is empty."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    packages = fields.List(fields.Nested(PackageNameSchema), required=True)


class PackageVersionV1Schema(Schema):
    """A release."""

    package_name = fields.String(required=True)
    package_version = fields.String(required=True)
    index_url = fields.String(required=True)


class PackageVersionsV1Schema(Schema):
    """Releases of a package."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    versions = fields.List(fields.Nested(PackageVersionV1Schema), required=True)


class DependencyV1Schema(Schema):
    """One dependency of a release; its version is a specifier."""

    name = fields.String(required=True)
    version = fields.String(required=True)
    extra = fields.String(required=True, allow_none=True)
    environment_marker = fields.String(required=True, allow_none=True)


class DependenciesV1Schema(Schema):
    """Dependencies of a release."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    dependencies = fields.List(fields.Nested(DependencyV1Schema), required=True)


class MetadataV1Schema(Schema):
    """What the metadata of a release says."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    metadata = fields.Dict(keys=fields.String(), required=True)


class SolvedEnvironmentsSchema(Schema):
    """Systems that a release was looked at on."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    environments = fields.List(fields.Nested(SystemSchema), required=True)


class PlatformsSchema(Schema):
    """PlatformsSchema that packages are known for."""

    platform = fields.List(fields.String(), required=True)
