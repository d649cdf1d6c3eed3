"""The commands of this room."""

from api.commands.audit import audit
from api.commands.serve import serve
from api.commands.token import token
from api.commands.worker import worker

__all__ = ["audit", "serve", "token", "worker"]
