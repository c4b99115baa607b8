"""Whatever strobe wrote is checked by whoever reads it: every file of a run and of a dataset, and every reader."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import strobe
from strobe.cli.main import COMMANDS
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.people import GROWING
from strobe.core.records import Verdict
from strobe.core.seals import DIGESTS, damaged_files, read_digests
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import SEALED, Run

SOURCE = Path(strobe.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with votes, and a scored and reported run of models that ran here and of a file."""
    root = tmp_path_factory.mktemp("sealed")
    shutil.copytree(GOLDEN / "datasets/video", root / "data")
    shutil.copytree(GOLDEN / "inputs", root / "inputs")
    shutil.copy(GOLDEN / "models.py", root)
    models = "-m py:models.py:logits -m py:models.py:shares -m third=preds:inputs/video-logits.json"
    words = f"eval data {models} -o run -q --bootstrap 100".split()
    subprocess.run([sys.executable, "-m", "strobe", *words], cwd=root, check=True, capture_output=True)
    return root


@pytest.fixture
def copy(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    about = tmp_path / "copy/run/run.json"
    about.write_text(about.read_text().replace(str(whole), str(tmp_path / "copy")))
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def flip(path: Path, place: int | None = None) -> bytes:
    """Change one bit of a file, and return its content before."""
    content = path.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(changed)
    return content


# -- every file ----------------------------------------------------------------------------------------------------


def noticed(root: Path) -> list[str]:
    """What the readers of a run and its dataset report, all of them."""
    run, out = Run(root / "run"), []

    def one(read: Callable[[], Any]) -> None:
        try:
            out.extend(read() or ())
        except StrobeError as error:
            assert "\n" not in str(error)  # noqa: PT017 (no error is fine too)
            out.append(str(error))

    one(lambda: run.about() and None)
    one(lambda: run.results() and None)
    one(lambda: damaged_files(root / "run"))
    one(lambda: [model.load() and None for model in run.models(folder.read(root / "data"))] and None)
    return out


def test_each_file_of_a_run_and_of_its_dataset_is_sealed(copy: Path) -> None:
    """The files that no figure comes from are listed; a file of a new kind must be sealed, or be added to the list."""
    assert noticed(copy) == []
    unsealed = {"report.html", "frames"}  # nobody reads the page; frames are read once the dataset changed (below)
    tried = set()
    for path in sorted([*(copy / "run").rglob("*"), *(copy / "data").glob("*")]):
        top = path.relative_to(copy).parts[1]
        if not path.is_file() or top in unsealed:
            continue
        before = flip(path)
        assert any(path.name in line for line in noticed(copy)), path
        path.write_bytes(before)
        tried.add(top)
    assert noticed(copy) == []
    assert {"run.json", "results.json", DIGESTS, "tables", "figures", "predictions", "external"} <= tried
    assert {"dataset.json", "frames.parquet", "sets.parquet"} <= tried


def test_the_record_of_frames_is_checked_when_the_dataset_changed(copy: Path) -> None:
    (path,) = (copy / "run/frames").iterdir()
    dataset = folder.read(copy / "data")
    frames = replace(dataset.frames, sha256=dataset.frames.sha256[::-1])
    changed = replace(dataset, frames=frames)
    with suppress(StrobeError):
        Run(copy / "run").models(changed)
    flip(path)
    with pytest.raises(InvalidFile, match=r"frames/.*damaged"):
        Run(copy / "run").models(changed)


# -- every reader --------------------------------------------------------------------------------------------------


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    """The modules of the source that name results or their tables, parsed."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))]
    return [(path, ast.parse(text)) for path, text in texts if "results" in text or "sets.parquet" in text]


def calls(name: str) -> Iterator[tuple[str, str]]:
    """The functions of the source that call a method of this name without arguments, by module."""
    for path, tree in trees():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
                    if is_call and node.func.attr == name:  # type: ignore[attr-defined]  # it is a Call, see above
                        yield path.relative_to(SOURCE).as_posix(), function.name


READERS = {
    ("workflows/report.py", "_write"): [["report", "run", "-q"]],
    ("workflows/export.py", "export_latex"): [["export", "run", "latex", "out"]],
    ("workflows/export.py", "export_figures"): [["export", "run", "figures", "out", "-q"]],
    ("workflows/export.py", "export_leaderboard"): [["export", "run", "leaderboard", "out"]],
}
if "view" in COMMANDS:
    READERS["annexes/web/view/runs.py", "results_figures"] = [["view", "run", "--list"], ["view", "run", "--json"]]
"""The commands for each function that reads the results of a run."""


def test_the_readers_below_are_all_readers() -> None:
    assert set(calls("results")) == READERS.keys()
    named = {
        path.relative_to(SOURCE).as_posix()
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and any(isinstance(one, ast.Constant) and str(one.value).endswith(("results.json", "tables/sets.parquet"))
                for one in [*node.args, *(kid for arg in node.args for kid in ast.walk(arg))])
    }  # fmt: skip
    checked, help_text, writer = {"store/run_folder.py"}, {"cli/score.py"}, {"workflows/score.py"}
    checked |= {"annexes/web/view/outcomes.py"} if "view" in COMMANDS else set()
    assert named == checked | help_text | writer
    for module in checked:
        assert "check_file(" in (SOURCE / module).read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [one for each in READERS.values() for one in each], ids=" ".join)
def test_no_reader_prints_a_changed_figure(words: list[str], copy: Path, command: Any) -> None:
    """`acc_pmk` 0.475 made 0.875 was printed as 87.5 beside its interval of 31.5–63.9, by page, CSV and viewer."""
    path = copy / "run/results.json"
    results = json.loads(path.read_text())
    first = next(iter(results["models"].values()))
    first["acc_pmk"]["value"] = round(first["acc_pmk"]["value"] / 2, 3)
    path.write_text(json.dumps(results))
    code, out, err = command(*words)
    if words[0] == "view":
        assert code == 0
        assert "results.json: damaged" in out, "the list has the note that --json has"
        assert "figures" not in words or not any(row["figures"] for row in json.loads(out)["runs"][0]["models"])
    else:
        assert code == 2
        assert "results.json: damaged: its content does not match its digest in digests.json; run strobe score" in err
        assert not (copy / "out").exists()
    code, _, _ = command("score", "run", "-q", "--bootstrap", "100")
    assert code == 0
    assert command(*words)[0] == 0


def test_a_report_seals_what_it_writes_and_keeps_the_digests_of_the_score(copy: Path, command: Any) -> None:
    before = read_digests(copy / "run")
    assert before is not None
    assert {name.split("/")[0] for name in before["files"]} == {one.split("/")[0] for one in SEALED}
    (copy / "run/tables/models.csv").write_text("mine")
    flip(copy / "run/tables/sets.parquet")
    code, _, err = command("report", "run")
    assert code == 0
    assert "1 file of run damaged, first tables/sets.parquet; run strobe score again" in err
    assert damaged_files(copy / "run") == ["tables/sets.parquet"]


# -- people's answers ----------------------------------------------------------------------------------------------


def test_each_table_of_peoples_answers_is_sealed(tmp_path: Path) -> None:
    """A dataset's own tables had digests and the growing ones had none, so a flipped vote changed the scored sets."""
    shutil.copytree(GOLDEN / "datasets/votes", tmp_path / "set")
    place = folder.write(folder.read(tmp_path / "set"), tmp_path / "set", overwrite=True)
    path = place / "verdicts.parquet"
    before = flip(path)
    with pytest.raises(InvalidFile, match=r"verdicts\.parquet: damaged: .* digests\.json; copy it again"):
        folder.read(place)
    folder.read(place, people=False)  # whoever does not read the answers does not need them
    path.unlink()
    with pytest.raises(InvalidFile, match=r"verdicts\.parquet: the file is missing, but digests\.json lists it"):
        folder.read(place)
    path.write_bytes(before)
    known = read_digests(place)
    more = Verdict(
        verdict_id="new", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair",
        set_id=str(folder.read(place).sets.set_id[0]), frame_id=folder.read(place).frame_ids()[1], decision="similar",
    )  # fmt: skip
    assert len(folder.append_verdicts(place, [more]).verdicts) == len(folder.read(place).verdicts)
    assert read_digests(place) != known
    assert set(read_digests(place)["files"]) <= {f"{name}.parquet" for name in GROWING}  # type: ignore[index]
    folder.write(replace(folder.read(place), verdicts=()), place, overwrite=True)
    assert not (place / DIGESTS).exists()


def test_a_dataset_that_is_gone_is_not_a_damaged_file(copy: Path, command: Any) -> None:
    """A dataset deleted under a running `eval` blamed a Parquet file, or its frames were stored as unreadable."""
    dataset = folder.read(folder.write(folder.read(copy / "data"), copy / "other"))
    (copy / "gone.py").write_text(
        "import shutil\nfrom models import *\nimport models\n"
        "def last():\n    return answer, models.logits()[1]\n"
        "def answer(images):\n    shutil.rmtree('data', ignore_errors=True)\n    return models.logits()[0](images)\n"
    )
    code, _, err = command("eval", "data", "-m", "py:gone.py:last", "-o", "new", "-q", "--batch-size", "4")
    assert code == 2
    assert "the dataset data was removed or moved while it was in use" in err
    assert not list(copy.glob("new/predictions/*/*.parquet"))
    assert not (copy / "data").exists()
    shutil.rmtree(copy / "other")
    with pytest.raises(InvalidFile, match="was removed or moved while it was in use"):
        dataset.frames.pict_type.tolist()


def test_a_table_that_is_read_alone_has_its_digest_in_its_name(copy: Path) -> None:
    for path in (copy / "run").rglob("*.parquet"):
        if path.parts[-2] == "frames" or path.parts[-3] == "predictions":
            assert path.name.count(".") == 2, path
            assert pq.read_metadata(path).num_rows
