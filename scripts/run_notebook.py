"""Run examples/first-study.ipynb in a temporary folder and store its outputs in the file.

Times and execution counts are removed, so that the file changes only when its content does.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first-study.ipynb"


def run(path: Path, folder: Path) -> Any:
    """Run the notebook in a folder and return it with its outputs. An error in a cell is raised."""
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(part for part in sys.path if part))
    notebook: Any = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def main() -> None:
    """Run the notebook and write it back."""
    with tempfile.TemporaryDirectory() as temporary:
        nbformat.write(run(NOTEBOOK, Path(temporary)), NOTEBOOK)
    print(f"{NOTEBOOK.name}: {NOTEBOOK.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
