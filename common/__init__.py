"""Words that all rooms share: errors, settings, logs and the documents themselves."""

__version__ = "0.1.0"
