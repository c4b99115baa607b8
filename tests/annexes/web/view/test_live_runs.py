"""Runs are found, followed while they go on, and shown as killed; what is written is whole."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from made_world import SPACE, answers, make_dataset, make_run

from strobe.annexes.web.view.finding import find_places, lock_state
from strobe.annexes.web.view.library import Library
from strobe.annexes.web.view.tags import TAGS, add_rows, notes_of, read_tags, tags_csv, tags_of
from strobe.core.errors import InvalidFile, InvalidValue
from strobe.core.locks import writing
from strobe.core.ports import Silent
from strobe.formats.bring import bring
from strobe.models.requested import RequestedModel
from strobe.store.dataset_folder import read
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions

SLOW = """
import time
import numpy as np

def make():
    return answer, {names!r}

def answer(images):
    time.sleep(0.25)
    return np.array([[image.mean(), image[0, 0, 0], image[-1, -1, 2]] for image in images], dtype=float)
"""

PREDICT = """
from pathlib import Path
import strobe
from strobe.core.ports import Silent
from strobe.engine.running import Running
from strobe.models.options import LoadOptions
from strobe.workflows.predict import predict

options = Running(device="cpu", batch_size=2, shard_size=4)
predict(strobe.load_dataset(Path("data")), ["py:slow.py:make"], Path("run"), options, Silent())
"""
LOCKED = """
import sys, pathlib
from strobe.annexes.web.view.finding import lock_state
print(lock_state(pathlib.Path(sys.argv[1])))
"""


def state_of(client):
    """The state of the one run, and its models."""
    (run,) = client.get("/api/runs").json()["runs"]
    return run


def wait_for(client, done, what):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = client.get("/api/runs").json()["runs"]
        if found and done(found[0]):
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"{what}: {found}")


@pytest.mark.slow
def test_a_run_is_followed_and_a_killed_one_is_shown_as_such(tmp_path, view_server, started):
    make_dataset(tmp_path / "data")
    (tmp_path / "slow.py").write_text(SLOW.format(names=list(SPACE.names)))
    process = started([sys.executable, "-c", PREDICT], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    server = view_server(tmp_path)
    ann = server.client("Ann")
    run = wait_for(ann, lambda one: one["models"] and one["models"][0]["frames"] >= 20, "no prediction appears")
    assert run["state"] == "running"
    assert run["total"] == 120
    found = ann.get("/api/sets", params={"data": run["dataset"], "facets": 1}).json()
    (counts,) = found["facets"]["m"].values()
    assert 0 < counts["unscored"] < 24, "some sets are there, and some are still to come"
    first = 24 - counts["unscored"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = ann.get("/api/sets", params={"data": run["dataset"], "facets": 1}).json()
        (counts,) = found["facets"]["m"].values()
        if 24 - counts["unscored"] > first:
            break
        time.sleep(0.3)
    assert 24 - counts["unscored"] > first, "more sets appear"
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = wait_for(ann, lambda one: one["state"] == "killed", "the kill is not seen")
    assert 0 < killed["models"][0]["frames"] < 120


def test_a_lock_that_nobody_holds_was_left_by_a_kill(tmp_path):
    assert lock_state(tmp_path) == "free"
    with writing(tmp_path):
        words = [sys.executable, "-c", LOCKED, str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "held"
    assert lock_state(tmp_path) == "free"
    (tmp_path / ".lock").write_text("left")
    assert lock_state(tmp_path) == "left"
    with writing(tmp_path):  # looking does not keep the lock
        pass


def test_a_stopped_run_and_one_that_is_not_scored(world, view_server):
    (world / "run/results.json").unlink()
    server = view_server(world)
    ann = server.client("Ann")
    assert state_of(ann)["state"] == "predicted"
    found = ann.get("/api/sets", params={"data": server.data, "facets": 1}).json()
    assert sum(found["facets"]["m"]["net:0"].values()) == 24, "outcomes are computed from the predictions"
    (world / "run/.lock").write_text("left")
    assert state_of(ann)["state"] == "killed"


def test_old_results_are_not_shown_as_current(world, view_server):
    server = view_server(world)
    assert state_of(server.client("Ann"))["state"] == "scored"
    path = next((world / "run/external").iterdir())
    held = path.stat()
    newer = time.time_ns() + 10**9
    os.utime(path, ns=(newer, newer))
    assert state_of(server.client("Ann"))["state"] == "scored", "the content decides, not the time"
    other = next(one for one in (world / "run/external").iterdir() if one != path)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns - 10**12))
    assert state_of(server.client("Ann"))["state"] != "scored"


def test_new_predictions_that_are_dated_back_are_counted(world, command):
    """With three models' files dated back, the viewer showed the sets of the earlier score."""
    run = world / "run"
    before = counts_of(command, world)
    dataset = read(world / "data")
    wrong = answers(dataset, n_models=1)[0]
    wrong = replace(wrong, scores=-wrong.scores, label=np.asarray(wrong.scores).argmin(axis=1).astype(np.int32))
    with Run(run).stage() as stage:
        bring(
            dataset,
            Run(run),
            [RequestedModel("net:0", "answers", answers=wrong)],
            ScoreRunOptions(),
            Silent(),
            stage=stage,
        )
        Run(run).record(dataset, path=world / "data", changes={}, stage=stage)
    for path in (run / "external").iterdir():
        os.utime(path, ns=(0, 0))
    after = counts_of(command, world)
    assert after["net:0"]["holds"] < before["net:0"]["holds"]
    assert after["net:1"] == before["net:1"]
    code, out, _ = command("view", run, "--json")
    (shown,) = json.loads(out)["runs"]
    assert not any(row["figures"] for row in shown["models"]), "the figures are those of the earlier predictions"
    assert "results.json was computed from other predictions than the run now has" in shown["note"]
    assert "computed from other predictions" in command("view", run, "--list")[1]
    code, _, err = command("report", run)
    assert code == 0
    assert "run: results.json was computed from other predictions than the run now has; run strobe score again" in err


def counts_of(command, world):
    code, out, _ = command("view", world / "run", "--json")
    assert code == 0
    return {row["model"]: row["sets"] for row in json.loads(out)["runs"][0]["models"]}


def test_damaged_runs_are_named_and_others_are_shown(world, view_server):
    shutil.copytree(world / "run", world / "broken")
    (world / "broken/run.json").write_text("{")
    shutil.copytree(world / "run", world / "torn")
    (world / "torn/tables/sets.parquet").write_bytes(b"PAR1")
    server = view_server(world)
    ann = server.client("Ann")
    runs = {one["name"]: one for one in ann.get("/api/runs").json()["runs"]}
    assert runs["broken"]["problem"]
    assert runs["broken"]["models"] == []
    found = ann.get("/api/sets", params={"data": server.data, "facets": 1})
    assert found.status_code == 200
    counts = found.json()["facets"]["m"]
    assert counts["torn/net:0"] == counts["run/net:0"], "the table is optional: the predictions give the same outcomes"
    assert "sets.parquet: damaged" in runs_of(ann)["torn"]["problem"]


def runs_of(client):
    return {one["name"]: one for one in client.get("/api/runs").json()["runs"]}


def test_a_moved_dataset_is_found_by_its_frames(world, view_server):
    (world / "data").rename(world / "moved")
    server = view_server(world)
    run = state_of(server.client("Ann"))
    assert run["problem"] == ""
    assert run["dataset_name"] == "toys"


def test_folders_are_searched_but_links_are_not_followed(world, tmp_path):
    (tmp_path / "deep/a/b").mkdir(parents=True)
    shutil.move(world / "run", tmp_path / "deep/a/b/run")
    (tmp_path / "deep/link").symlink_to(world)
    found = find_places([tmp_path / "deep"])
    assert [path.name for path in found.runs.values()] == ["run"]
    assert not found.datasets


@pytest.mark.parametrize("words", [["view", "nowhere"], ["view", "empty"], ["view", "empty", "--host", "0.0.0.0"]])
def test_bad_places_are_one_line(command, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_server_for_others_needs_names(command, world):
    code, _, err = command("view", world, "--host", "0.0.0.0", "--public-url", "http://a:1")
    assert code == 2
    assert "--invite NAME" in err
    code, _, err = command("view", world, "--invite", "<b>")
    assert code == 2
    assert "name: expected" in err


# -- tags ----------------------------------------------------------------------------------------------------------


def test_tags_are_rows_that_are_never_changed(tmp_path):
    add_rows(tmp_path, ["a", "b"], who="Ann", act="tag", text="odd")
    add_rows(tmp_path, ["a"], who="Bo", act="untag", text="odd")
    add_rows(tmp_path, ["a"], who="Bo", act="note", text="first")
    add_rows(tmp_path, ["a"], who="Bo", act="note", text="=second()")
    rows = read_tags(tmp_path)
    assert [(row.who, row.set_id, row.act) for row in rows][:3] == [
        ("Ann", "a", "tag"), ("Ann", "b", "tag"), ("Bo", "a", "untag"),
    ]  # fmt: skip
    assert tags_of(rows) == {"b": {"odd": None}}
    assert [row.text for row in notes_of(rows, "a")] == ["=second()"]
    assert "'=second()" in tags_csv(rows), "a spreadsheet does not run it"


def test_a_line_that_a_kill_cut_off_is_dropped(tmp_path):
    add_rows(tmp_path, ["a"], who="Ann", act="tag", text="odd")
    whole = (tmp_path / TAGS).read_bytes()
    (tmp_path / TAGS).write_bytes(whole + whole[:20])
    assert len(read_tags(tmp_path)) == 1
    add_rows(tmp_path, ["b"], who="Ann", act="tag", text="odd")
    assert [row.set_id for row in read_tags(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    "line", ["{}", "[1]", '{"at":1}', "text", json.dumps({"at": "", "who": "", "set_id": "", "act": "x", "text": ""})]
)
def test_damaged_tags_are_named(tmp_path, line):
    (tmp_path / TAGS).write_text(f"{line}\n")
    with pytest.raises(InvalidFile, match="line 1"):
        read_tags(tmp_path)


def test_one_action_tags_only_so_many(tmp_path):
    with pytest.raises(InvalidValue, match="at most 20,000"):
        add_rows(tmp_path, ["a"] * 20_001, who="Ann", act="tag", text="odd")
    assert not (tmp_path / TAGS).exists()


def test_tags_filter_and_are_exported(world, view_server):
    server = view_server(world)
    ann, data = server.client("Ann"), server.data
    body = {"data": data, "act": "tag", "text": "odd", "query": "v=clip1&v=clip2"}
    assert ann.post("/api/tag", json=body).json() == {"rows": 6}
    found = ann.get("/api/sets", params={"data": data, "t": "odd", "facets": 1}).json()
    assert found["total"] == 6
    assert dict(found["facets"]["t"]) == {"odd": 6, "": 18}
    assert ann.get("/api/sets", params={"data": data, "t": ""}).json()["total"] == 18
    assert ann.get("/api/export", params={"data": data, "form": "tags"}).text.count(",Ann,") == 6
    subset = ann.get("/api/export", params={"data": data, "form": "subset", "t": "odd"}).text
    assert subset.splitlines()[1:] == ["clip1", "clip2"]
    table = ann.get("/api/export", params={"data": data, "form": "csv", "t": "odd"}).text
    assert len(table.splitlines()) == 7


def test_a_subset_file_is_read_by_score(world, view_server, command):
    server = view_server(world)
    text = server.client("Ann").get("/api/export", params={"data": server.data, "form": "subset", "c": "dog"}).text
    (world / "subset.txt").write_text(text)
    code, _, err = command("score", world / "run", "--subset", world / "subset.txt", "-q", "--bootstrap", "0")
    assert code == 0, err
    found = server.client("Ann").get("/api/runs").json()["runs"][0]
    assert found["state"] == "scored"


def test_a_selection_becomes_a_dataset_of_its_own(world, view_server, command):
    server = view_server(world)
    body = {"data": server.data, "query": "m=net%3A1%3Abreaks", "name": "broken"}
    answer = server.client("Ann").post("/api/selection", json=body).json()
    made = read(world / "data-broken")
    assert made.n_sets == answer["sets"]
    whole = server.library.index(server.data)
    breaks = whole.dataset.sets.set_id[whole.models["net:1"].status == 2]
    assert sorted(made.sets.set_id) == sorted(breaks)
    assert len(made.frames) == 5 * made.n_sets, "only their own frames"
    assert all((world / "data-broken" / name).is_file() for name in made.frames.media)
    before, after = whole.dataset, made
    for name in made.sets.set_id:
        old, new = (data.sets.frame[data.sets.set == list(data.sets.set_id).index(name)] for data in (before, after))
        assert before.frame_ids(old) == after.frame_ids(new)
    code, _, err = command("inspect", world / "data-broken")
    assert code == 0, err
    again = server.client("Ann").post("/api/selection", json=body)
    assert again.status_code == 200, "the same selection again"
    other = server.client("Ann").post("/api/selection", json={**body, "query": ""})
    assert other.status_code == 422, "another selection never replaces it"


def test_two_runs_of_one_model_are_compared(world, view_server):
    make_run(world / "later", world / "data", answers(read(world / "data"), 1))
    server = view_server(world)
    runs = server.client("Ann").get("/api/runs").json()["runs"]
    rows = [[one["id"], "net:0"] for one in runs]
    found = server.client("Ann").post("/api/compare", json={"rows": rows}).json()
    assert len(found["sentences"]) == 3
    (change,) = found["changes"]
    assert (change["held"], change["broken"]) == (0, 0)
    assert sorted(found["rows"]) == ["later/net:0", "run/net:0"]


def test_a_whole_tag_without_a_line_end_is_kept(tmp_path):
    """An editor that leaves out the last line end: the row was shown, and then deleted by the next tag."""
    add_rows(tmp_path, ["one"], who="Ann", act="tag", text="hard")
    path = tmp_path / TAGS
    path.write_text(path.read_text().rstrip("\n"))
    assert tags_of(read_tags(tmp_path)) == {"one": {"hard": None}}
    add_rows(tmp_path, ["two"], who="Ann", act="tag", text="easy")
    assert tags_of(read_tags(tmp_path)) == {"one": {"hard": None}, "two": {"easy": None}}
    with path.open("a") as file:  # a killed process leaves a part of a row
        file.write('{"at": "2026')
    add_rows(tmp_path, ["three"], who="Ann", act="tag", text="odd")
    assert set(tags_of(read_tags(tmp_path))) == {"one", "two", "three"}


def test_the_list_has_the_note_about_damaged_results(world, command):
    path = world / "run/results.json"
    path.write_text(path.read_text().replace("0.", "0.1", 1))
    code, out, _ = command("view", world / "run", "--list")
    assert code == 0
    assert "results.json: damaged: its content does not match its digest in digests.json; run strobe score again" in out
    note = json.loads(command("view", world / "run", "--json")[1])["runs"][0]["note"]
    assert note in out


def test_a_refused_dataset_stays_refused(world):
    """After two seconds the folders are looked at again, which dropped the reason: `no sets` without a word."""
    now = [0.0]
    library = Library([world], secret=b"", clock=lambda: now[0])
    (data,) = library.datasets
    library.refuse(data, "sets.parquet: damaged")
    (run,) = library.found.runs
    now[0] = 10.0
    library.look()
    assert library.dataset_of(run) == (data, "sets.parquet: damaged")
