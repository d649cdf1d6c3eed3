"""The notebooks run on the bundled samples, and are stored without results."""

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

from tests.requirements import needs
from tests.services.commands import ROOT
from tests.services.installation import Installation

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_results(notebook: Path) -> None:
    document = json.loads(notebook.read_text(encoding="utf-8"))
    prose = code = 0
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            code += 1
        else:
            prose += len("".join(cell["source"]).split())
    assert code
    assert prose > 150, "it reads as an article"
    assert notebook.name in (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_imports_from_thoth_in_a_notebook_exist(notebook: Path) -> None:
    """Only slow tests run the notebooks."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(it["source"]) for it in cells if it["cell_type"] == "code")
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.ImportFrom)
            and (ROOT / str(node.module).partition(".")[0]).is_dir()
        ):
            module = import_module(str(node.module))
            assert [it.name for it in node.names if not hasattr(module, it.name)] == []


@pytest.mark.slow
@needs("notebooks")
def test_every_notebook_runs_on_the_samples(
    fresh: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    done = fresh.run("sh", "notebooks/run.sh", timeout_s=800)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    html = {path.stem: path.read_text("utf-8") for path in (fresh.home / "html").glob("*.html")}
    assert html.keys() == {path.stem for path in NOTEBOOKS}
    assert "equal to thoth stacks" in html["4-verdicts-from-parquet"]
    assert "20 rows are equal" in html["4-verdicts-from-parquet"]
