"""Names of others in files that other programs interpret: no formula, no mention; all writers by a list of the code."""

import ast
import csv
import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.core.errors import InvalidFile
from strobe.core.files import WRITTEN, below

SOURCE = Path(strobe.__file__).parent
FOLDER_MAKERS = {"make_folder", "swapping", "writing", "mkdir"}
FILE_WRITERS = {"write_text", "write_bytes", "write_json", "replacing"}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def test_every_csv_is_written_by_one_function() -> None:
    """`export csv` wrote a video named `=cmd|…` as it is, because it had its own writer."""
    own = {
        module
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("writer", "DictWriter")
        and ast.unparse(node.value) == "csv"
    }
    # report/tables.py writes tables/sets.csv row by row, with the cells of `cell`.
    assert own == {"core/quoting.py", "report/tables.py"}
    assert "safe_cell(" in (SOURCE / "report/tables.py").read_text(encoding="utf-8")


def test_the_csv_of_a_dataset_quotes_formulas(tmp_path: Path, command) -> None:
    data = strobe.example_dataset(n_videos=2, k=1)
    names = np.array(["=cmd|x", "plain"], dtype=object)
    strobe.save_dataset(replace(data, videos=replace(data.videos, name=names)), tmp_path / "data")
    code, _, err = command("export", tmp_path / "data", "csv", tmp_path / "out", "--candidates")
    assert code == 0, err
    assert "'=cmd|x" in (tmp_path / "out/videos.csv").read_text()
    for path in (tmp_path / "out").glob("*.csv"):
        for row in csv.reader(io.StringIO(path.read_text(), newline="")):
            assert not [cell for cell in row if cell.startswith("=")]


def test_every_writer_of_markdown_escapes_names() -> None:
    """Modules that write headings of Markdown. A new one must escape, too."""
    writers = {
        module
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        and isinstance(node.values[0], ast.Constant)
        and str(node.values[0].value).startswith(("# ", "## ", "### ", "---\n"))
    }
    writers -= {"annexes/web/view/exports.py"}  # a list of videos for --subset, whose first line is a comment
    assert {"report/gate.py", "formats/export_card.py", "workflows/train_card.py"} <= writers
    for module in writers:
        assert "safe_markdown(" in (SOURCE / module).read_text(encoding="utf-8"), module


# -- folders below a given one -------------------------------------------------------------------------------------


def folders_written() -> set[tuple[str, str]]:
    """The first parts of the folders that the code writes to inside another folder, by module.

    They are the constants in `X / "name"` or `below(X, "name")` in calls that make a folder or write a file. Of a
    file, the last part is its name.
    """
    found = set()
    for module, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            places = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            if name == "below":
                found.add((module, str(ast.literal_eval(node.args[1])).split("/")[0]))
            for place in places if name in FOLDER_MAKERS | FILE_WRITERS else ():
                parts = divided(place)
                parts = parts[:-1] if name in FILE_WRITERS else parts
                if parts and isinstance(parts[0], str):
                    found.add((module, parts[0]))
    return found


def divided(node: ast.AST) -> list[str | None]:
    """The parts after the first in `a / "b" / "c"`; None for a part that is no constant."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return []
    text = node.right.value if isinstance(node.right, ast.Constant) else None
    return [*divided(node.left), *(text.split("/") if isinstance(text, str) else [None])]


def test_every_folder_that_is_written_below_another_is_in_the_list() -> None:
    found = folders_written()
    assert ("cli/gate.py", "gate") in found
    assert {"gate", "figures", "tables"} <= {folder for _, folder in found} <= set(WRITTEN), found


def test_a_folder_that_is_not_in_the_list_is_a_mistake_of_ours(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="elsewhere is not in"):
        below(tmp_path, "elsewhere")
    (tmp_path / "gate").symlink_to(tmp_path.parent)
    with pytest.raises(InvalidFile, match="leads out of the folder"):
        below(tmp_path, "gate")
