"""PostgreSQL and ArcadeDB from their wheels, as processes on this machine.

Start with :class:`graph.embedded.stores.EmbeddedStores`.
"""
