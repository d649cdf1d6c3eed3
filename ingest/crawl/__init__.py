"""Reads packages and everything that they require from a package index.

Entry points: :func:`ingest.crawl.runs.add_packages` and :func:`ingest.crawl.runs.refresh`.
"""
