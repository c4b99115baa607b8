"""Files that go together: killed at any system call, the next one who looks finds all the old or all the new."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError
from strobe.core.files import replacing, write_text
from strobe.core.swaps import settle, swapping

OLD = {"a.txt": "old a", "sub/b.txt": "old b", "gone.txt": "to go"}
NEW = {"a.txt": "new a", "sub/b.txt": "new b", "c.txt": "new c"}

KILLED = f"""
from strobe.core import files, swaps

def put(folder, texts):
    for name, text in texts.items():
        files.write_text(folder / name, text)

def begin(folder):
    put(folder, {OLD})

def change(folder, mortal):
    mortal("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "open")
    with swaps.swapping(folder) as staged:
        put(staged.root, {NEW})
        staged.remove("gone.txt")
"""


def content(folder: Path) -> dict[str, str]:
    """Every file of the folder, hidden ones and those of sub-folders too."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        write_text(folder / name, text)


def test_killed_before_every_call(killed_at_every_call: Callable[[str], list[Path]]) -> None:
    kills, outcomes = killed_at_every_call(KILLED), []
    for folder in kills:
        settle(folder)
        shown = {name: text for name, text in content(folder).items() if not name.startswith(".")}
        assert shown in (OLD, NEW), f"killed before call {folder.name}"
        outcomes.append(shown == NEW)
        with swapping(folder) as staged:  # the next start goes on, and leaves nothing of the killed one behind
            (staged.root / "d.txt").write_text("d")
        assert content(folder) == {**shown, "d.txt": "d"}
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert len(kills) > 20
    assert outcomes == sorted(outcomes)  # one call decides
    assert {*outcomes} == {False, True}


def test_one_who_writes_is_not_swept_away(tmp_path: Path) -> None:
    with replacing(tmp_path / "x.txt") as temporary, swapping(tmp_path) as one:
        temporary.write_text("x")
        (one.root / "a").write_text("1")
        with swapping(tmp_path) as two:
            (two.root / "b").write_text("2")
        settle(tmp_path, sweep=True)
    assert content(tmp_path) == {"x.txt": "x", "a": "1", "b": "2"}


def test_what_nobody_holds_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".a.parquet.abcd1234.tmp").write_text("half")
    (tmp_path / ".staging-abc").mkdir()
    (tmp_path / ".staging-abc/put").write_text("half")
    (tmp_path / ".mine.tmp").write_text("not ours")
    settle(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    settle(tmp_path, sweep=True)
    assert content(tmp_path) == {".mine.tmp": "not ours"}


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "link/out.txt", "", "a\0b", 7])
@pytest.mark.parametrize("part", ["put", "gone"])
def test_a_strangers_list_moves_nothing_outside(tmp_path: Path, name: object, part: str) -> None:
    folder = tmp_path / "set"
    (folder / ".committed/put").mkdir(parents=True)
    (tmp_path / "out.txt").write_text("mine")
    (folder / "link").symlink_to(tmp_path)
    listing = {"put": [], "gone": [], part: [name]}
    (folder / ".committed/these.json").write_text(json.dumps(listing))
    with pytest.raises(InvalidFile, match=r"is not a file in this folder|leads out of the folder|not a list of files"):
        settle(folder)
    assert (tmp_path / "out.txt").read_text() == "mine"
    (folder / ".committed/these.json").write_text('{"put": 3}')
    with pytest.raises(InvalidFile, match="not a list of files to swap"):
        settle(folder)


@pytest.mark.parametrize("link", [".committed", ".committed/put", ".committed/put/deep", ".committed/put/deep/key"])
def test_a_strangers_links_move_nothing(tmp_path: Path, link: str) -> None:
    """`.committed/put` was a link to a private folder, and these.json had the names in it: they were moved here."""
    folder, private = tmp_path / "set", tmp_path / "private"
    for made in (private, private / "put/deep", private / "deep", (folder / link).parent):
        made.mkdir(parents=True, exist_ok=True)
    listing = {"put": ["key", "deep/key"], "gone": []}
    for place in ("key", "deep/key", "put/key", "put/deep/key"):
        (private / place).write_text("mine")
    (private / "these.json").write_text(json.dumps(listing))
    before = content(private)
    (folder / link).symlink_to(private if not link.endswith("key") else private / "key")
    if link != ".committed":
        (folder / ".committed/these.json").write_text(json.dumps(listing))
    for _ in range(2):
        with pytest.raises(InvalidFile, match="not a file of an interrupted write; strobe moved nothing"):
            settle(folder)
    assert content(private) == before
    assert not (folder / "key").exists()


def test_nothing_is_swapped_through_a_link(tmp_path: Path) -> None:
    """A run folder with `tables` as a link: what is written must not go where it leads."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "tables").symlink_to(outside)
    with pytest.raises(InvalidFile, match="leads out of the folder"), swapping(folder) as staged:
        write_text(staged.root / "tables/headline.csv", "a,b\n")
    assert not list(outside.iterdir())
    assert not [path for path in folder.iterdir() if path.name != "tables"]


def test_a_pipe_among_leftovers_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".a.strobe.tmp")
    settle(tmp_path, sweep=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_only_be_read(tmp_path: Path) -> None:
    (tmp_path / ".committed/put").mkdir(parents=True)
    (tmp_path / ".committed/put/a").write_text("new")
    (tmp_path / ".committed/these.json").write_text('{"put": ["a"], "gone": []}')
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StrobeError, match="strobe cannot finish an interrupted write"):
            settle(tmp_path)
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(("taken", "name"), [("a.txt", "a.txt"), ("tables", "tables/x.csv")])
def test_what_is_in_the_way_is_found_before_anything_is_decided(tmp_path: Path, taken: str, name: str) -> None:
    if taken == name:
        (tmp_path / taken).mkdir()
    else:
        (tmp_path / taken).write_text("a file where a folder is wanted")
    before = sorted(path.name for path in tmp_path.iterdir())

    def swap() -> None:
        with swapping(tmp_path) as one:
            (one.root / name).parent.mkdir(exist_ok=True)
            (one.root / name).write_text("new")

    with pytest.raises(CannotWrite, match=f"{name}: it is a folder|{name}: a parent is a file"):
        swap()
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "nothing is left to be finished"


@pytest.mark.parametrize("gone", [False, True])
def test_a_folder_inside_that_may_only_be_read_is_found_too(
    tmp_path: Path, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decided and then stuck, the folder could not be opened by anybody any more. Root may write: it is told not to."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/x.csv").write_text("old")
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "tables" and asked(path, mode))

    def swap() -> None:
        with swapping(tmp_path) as one:
            (one.root / "a.txt").write_text("new")
            if gone:
                one.remove("tables/x.csv")
            else:
                (one.root / "tables").mkdir()
                (one.root / "tables/x.csv").write_text("new")

    with pytest.raises(CannotWrite, match=r"tables/x.csv: no write permission"):
        swap()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables"], "nothing is left to be finished"
    assert (tmp_path / "tables/x.csv").read_text() == "old"
