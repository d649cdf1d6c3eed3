"""The commands of this room."""

from pis.commands.inspect import inspect
from pis.commands.pi import pi
from pis.commands.pin import pin

pi.add_command(pin)

__all__ = ["inspect", "pi"]
