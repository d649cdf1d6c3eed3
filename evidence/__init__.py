"""The pack of measurements that ships: ``thoth pack show evidence``."""
