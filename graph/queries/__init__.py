"""Cypher questions, one module per subject."""
