"""Runs PostgreSQL and ArcadeDB, which are installed from wheels, as processes on this machine.

Entry point: :class:`graph.embedded.start_stop.EmbeddedStores`.
"""
