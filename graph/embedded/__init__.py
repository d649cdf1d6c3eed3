"""PostgreSQL and ArcadeDB from their wheels, as processes of their own on this machine."""

from graph.embedded.home import Home
from graph.embedded.passwords import Passwords
from graph.embedded.service import Service
from graph.embedded.stores import EmbeddedStores, Started, Stopped

__all__ = ["EmbeddedStores", "Home", "Passwords", "Service", "Started", "Stopped"]
