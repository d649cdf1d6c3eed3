"""Stores inspections, releases, advisories and analyses of native libraries in the record.

Entry points: :func:`ingest.inspections.pipeline.ingest_inspections`,
:func:`ingest.releases.pipeline.import_releases`, :func:`ingest.advisories.sync.sync_source`,
:func:`ingest.crawl.crawler.crawl` and :func:`ingest.runs.run_nightly`.
"""
