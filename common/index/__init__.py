"""Python package indexes (PEP 503, 691): configuration, client, cache and pages.

Entry points: :func:`common.index.configuration.configured_indexes` and
:class:`common.index.client.IndexClient`.
"""
