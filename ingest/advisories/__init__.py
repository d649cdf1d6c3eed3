"""Security advisories in the OSV format: fetched, parsed, recorded."""
