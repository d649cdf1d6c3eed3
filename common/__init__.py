"""Infrastructure: settings, logs, file formats, HTTP and package indexes."""

__version__ = "0.2.0"
