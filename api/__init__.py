"""The service: advice, graph and ingest over HTTP, and the jobs behind it."""
