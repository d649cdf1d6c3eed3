"""Security advisories in the OSV format.

Entry point: :func:`ingest.advisories.sync.sync_source`.
"""
