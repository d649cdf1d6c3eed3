"""Rows compared with documents that are parsed again; a verifier for each kind of document."""
