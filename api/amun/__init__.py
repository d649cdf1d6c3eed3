"""The inspection service, below ``/amun/api/v1``."""
