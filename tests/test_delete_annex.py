"""scripts/delete_annex.py: copies the tree without an annex and says what does not work then."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project_files import files

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "delete_annex.py"


def _delete(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A repository with the code, one golden run and an annex called attic, which brings nothing."""
    root = tmp_path / "repository"
    root.mkdir()
    for file in [*files("src/**/*"), *files("tests/golden/**/*")]:
        if "annexes" in file.parts:
            continue
        (root / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, root / file.relative_to(ROOT))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for folder in ("src/strobe/annexes/attic", "tests/annexes/attic", "docs/annexes"):
        (root / folder).mkdir(parents=True)
    (root / "src/strobe/annexes/__init__.py").write_text("")
    (root / "src/strobe/annexes/attic/annex.py").write_text(
        'from strobe.core.annex import Annex\n\nANNEX = Annex(what="nothing")\n'
    )
    (root / "docs/annexes/attic.md").write_text("# Attic\n")
    (root / "tests/annexes/attic/data.json").write_text("{}\n")
    return root


def _says(root: Path, message: str) -> None:
    path = root / "tests/annexes/attic/without.toml"
    path.write_text(f'[[command]]\nwords = ["inspect", "attic-data"]\nsays = "{message}"\n')


def test_an_annex_that_nothing_needs_can_be_deleted(planted: Path) -> None:
    _says(planted, "attic-data")
    (planted / "tests/test_gone.py").write_text(
        "from pathlib import Path\n\n\ndef test_gone():\n    root = Path(__file__).parents[1]\n"
        "    assert (root / 'src/strobe/core').is_dir()\n    assert not list(root.rglob('attic*'))\n"
    )
    code, text = _delete("--root", str(planted), "--runs", "anchor-sum", "--tests", "tests/test_gone.py")
    assert code == 0, text
    assert "attic: can be deleted" in text
    assert "1 passed" in text


def test_what_an_annex_leaves_broken_is_named(planted: Path) -> None:
    """A house that imports the annex, and a message that is not the one expected."""
    _says(planted, "the annex attic is not installed")
    module = planted / "src/strobe/metrics/intervals.py"
    module.write_text(module.read_text(encoding="utf-8") + "import strobe.annexes.attic.annex\n", encoding="utf-8")
    (planted / "src/strobe/annexes/__init__.py").write_text("")
    (planted / "src/strobe/annexes/attic/__init__.py").write_text("")
    code, text = _delete("--drawn", "0", "--root", str(planted), "--runs", "anchor-sum", "--tests")
    assert code == 1
    assert "strobe score runs/anchor-sum" in text
    assert "one line with 'the annex attic is not installed', got 70: " in text


def test_annexes_are_named(planted: Path, tmp_path: Path) -> None:
    assert _delete("cellar", "--root", str(planted)) == (1, "no such annex: cellar; there are: attic\n")
    assert _delete("--root", str(tmp_path)) == (0, "no annexes\n")
