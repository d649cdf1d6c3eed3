"""What benchmarks measure with: the samples of the repository, and a dump of real releases.

The dump lies beside the repository and is optional. It has the releases of 137 projects of PyPI.
"""

from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "samples"
SAMPLE_INSPECTIONS = SAMPLES / "inspections.tar.gz"
SAMPLE_PACKAGES = SAMPLES / "packages.jsonl.gz"
REAL_DUMP = Path(__file__).parents[2] / "shared" / "data" / "pypi-closure" / "pypi-closure.jsonl.gz"
#: Direct requirements of a project with many indirect ones; only the dump has all of them.
LARGE_PROJECT = ("tensorflow-cpu", "flask", "pandas", "scikit-learn")
