"""The passwords of the embedded stores: random, and only ever in one private file."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field

from graph.embedded.home import Home, read_json, write_private


@dataclass(frozen=True, slots=True)
class Passwords:
    """One password a user; none of them shows in a traceback or a log."""

    postgresql: str = field(repr=False)
    graph: str = field(repr=False)
    analyst: str = field(repr=False)

    @classmethod
    def load(cls, home: Home) -> Passwords | None:
        """The passwords in ``home``; ``None`` before the first start."""
        content = read_json(home.secrets)
        if content is None or not {"postgresql", "graph", "analyst"} <= content.keys():
            return None
        return cls(content["postgresql"], content["graph"], content["analyst"])

    @classmethod
    def load_or_create(cls, home: Home) -> Passwords:
        """The passwords in ``home``, made up at the first call; the caller holds the lock."""
        found = cls.load(home)
        if found is not None:
            return found
        # URL-safe characters only: ArcadeDB's list of users has : , [ ] as punctuation.
        created = cls(*(secrets.token_urlsafe(24) for _ in range(3)))
        write_private(home.secrets, json.dumps(asdict(created), indent=2) + "\n")
        return created
