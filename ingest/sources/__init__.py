"""Reads documents from files, folders, archives and object stores through one function.

Entry point: :func:`ingest.sources.reader.documents_of`.
"""
