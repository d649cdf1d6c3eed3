"""The stores' schemas, step by step: ``versions/`` for PostgreSQL, ``cypher/`` for the graph.

A step that has been released is never changed; a new one follows it.
"""
