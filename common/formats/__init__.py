"""Readers of file formats, one for each format and shared by all rooms.

A reader turns text or parsed JSON into typed values; its callers decide what they accept.
Start with :mod:`model.json_documents` and :mod:`model.json_fields`.
"""
