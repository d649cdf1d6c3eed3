"""Copy the scripts of pages from their npm packages, as ``vendor.json`` lists them.

``npm pack`` downloads a package and runs none of its scripts. To update a package, change its
version in ``vendor.json`` and run ``make vendor``, which writes the digests.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "api" / "pages" / "static" / "vendor"
LIST = FOLDER / "vendor.json"


def main() -> None:
    """Download every package, and write its files and digests."""
    packages = json.loads(LIST.read_text("utf-8"))
    for package in packages:
        name = f"{package['package']}@{package['version']}"
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["npm", "pack", "--silent", name],  # noqa: S607
                cwd=folder,
                check=True,
                capture_output=True,
            )
            with tarfile.open(Path(folder) / done.stdout.decode().strip()) as archive:
                for file in package["files"]:
                    member = archive.extractfile(f"package/{file['source']}")
                    if member is None:
                        raise SystemExit(f"{name} has no file {file['source']}")
                    content = member.read()
                    (FOLDER / file["file"]).write_bytes(content)
                    file["sha256"] = hashlib.sha256(content).hexdigest()
        print(name)  # noqa: T201
    LIST.write_text(json.dumps(packages, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
