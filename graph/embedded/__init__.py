"""Runs PostgreSQL and ArcadeDB, which are installed from wheels, as processes on this machine.

Entry point: :class:`graph.embedded.stores.EmbeddedStores`.
"""
