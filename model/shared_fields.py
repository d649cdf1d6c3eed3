"""Declarations of fields that several dataclasses have."""

from __future__ import annotations

from model.declared_fields import Field, public

#: An example of a digest.
DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"

# Series of measurements
COMPARISON_KEY = public("Key that comparable observations share.", DIGEST)
INDICATOR = public("Name of the indicator.", "PiMatmul")
SCRIPT = public("Digest of the indicator's script.")
PARAMETERS = public("Parameters of the indicator.")
DEVICE = public("Device that the indicator ran on.", "cpu")
COMPONENT = public("Library that the indicator measures.", "numpy")
RATE_UNIT = public("Unit of the rates.", "FLOP/s")
PYTHON_VERSION = public("Version of the Python interpreter.", "3.11")
HARDWARE_DIGEST = public("Digest of the hardware class.", DIGEST)
HARDWARE_LABEL = public("Name of the hardware class for people.", "AMD EPYC, 2 processors")
STACK_DIGEST = public("Digest of the stack.", DIGEST)
STACK_LABEL = Field("Name of the stack for people.", "numpy 2.4.6 (1f2e3d4c)")
HOST = public("Digest of the machine.")
BUNDLED_STEPS = Field(
    "By package, what its newer wheel bundles otherwise: context, not shown to be the cause.",
    {"numpy": "numpy 2.3.0 bundles OpenBLAS 0.3.29 instead of 0.3.28"},
)
DELTA_PCT = public("Differences up to this count as equivalent.", 2.0, unit="%")

# Packages and their releases
PURL = public("Package URL.", "pkg:pypi/flask@3.1.2")
PACKAGE = public("Normalised name.", "flask")
VERSION = public("Normalised version.", "3.1.2")
INDEX = public("Name of the index that serves it.", "pypi")
UPLOADED_AT = public("When its first file was uploaded.")
REQUIRES_PYTHON = public("Specifier of supported Python versions.", ">=3.9")
YANKED = public("Whether the release is yanked.")
