"""The service of a run: one worker of xdist gets all of these modules, so that it starts once."""

from tests.services.served import served

__all__ = ["served"]
