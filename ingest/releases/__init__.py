"""Releases of packages, read from metadata dumps and from documents of solvers.

Entry point: :func:`ingest.releases.pipeline.import_releases`. Every release, crawled ones included,
is parsed by :func:`ingest.releases.parsing.release_of`.
"""
