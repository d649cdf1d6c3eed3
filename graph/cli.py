"""The commands of this room."""

from graph.commands.cypher import cypher
from graph.commands.projection import graph
from graph.commands.record import record
from graph.commands.stores import down, migrate, status, up

__all__ = ["cypher", "down", "graph", "migrate", "record", "status", "up"]
