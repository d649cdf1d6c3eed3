"""Reads documents from files, folders, archives and object stores, all alike.

Entry point: :func:`ingest.sources.reader.documents_of`.
"""
