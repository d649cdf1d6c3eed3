"""The commands ``thoth serve``, ``thoth worker`` and ``thoth token``."""
