"""Packages: names, releases, wheels, target environments, candidates and the snapshot."""
