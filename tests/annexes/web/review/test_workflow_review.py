"""serve, status, export and import as workflows and on the command line."""

import json
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.command import command
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive, reviewed
from strobe.core.errors import StrobeError
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folders

REFERENCE = Path(__file__).parents[4] / "../shared/reference/ytbb-robust/anchor_labels.json"


def database(data):
    return f"sqlite:///{data.root / 'review.sqlite'}"


def decide_all(data, decide=lambda task, who: {}, *, people=("Ann", "Bo"), **settings):
    """A whole review straight into the dataset's store."""
    store = Store(database(data))
    store.prepare(data, ReviewOptions(**{"controls": 0.0, **settings}))
    number = len(list(store.all()))
    for _ in range(50):
        for who in people:
            for claimed in queue.claim(store, who, tab="t", want=2):
                task = claimed.task
                fields = {"decision": "similar", "label_right": True, "seconds": 2.0, **decide(task, who)}
                store.cast(
                    [
                        Verdict(
                            verdict_id=f"{who}-{number:06}", annotator=who, at="", stage=claimed.stage,
                            set_id=task.set_id, frame_id=task.frame_id, **fields,
                        )
                    ]
                )  # fmt: skip
                number += 1
    votes = list(store.all())
    store.close()
    return votes


def test_export_writes_every_vote_and_derives_the_sets(small):
    def doubt(task, who):
        return {"decision": "dissimilar", "reason": "motion"} if task.frame_id == "vid0:0" else {}

    votes = decide_all(small, doubt)
    before = small.digest()
    figures = review.export(small.root)
    data = folders.read(small.root)
    assert list(data.verdicts) == votes
    assert data.info.reviewed == "votes"
    assert data.digest() != before
    assert data.frames_digest() == small.frames_digest(), "votes never throw predictions away"
    assert figures["table"]["pairs_accepted"] == 11
    assert figures["reasons"] == {"motion": 2}
    assert len(reviewed(data).sets.set) == 14
    assert json.loads((small.root / "review.json").read_text()) == figures
    first = {path.name: path.read_bytes() for path in small.root.iterdir() if path.suffix in (".parquet", ".json")}
    review.export(small.root)
    assert first == {name: (small.root / name).read_bytes() for name in first}, "again: the same bytes"


def test_a_late_vote_after_export_waits_for_the_next_export(small):
    votes = decide_all(small, people=("Ann",))
    review.export(small.root)
    kept = derive(folders.read(small.root)).kept
    store = Store(database(small))
    store.prepare(folders.read(small.root), ReviewOptions(controls=0))
    late = replace(votes[0], verdict_id="late-vote", annotator="Bo", decision="dissimilar")
    store.cast([late])
    store.close()
    assert (derive(folders.read(small.root)).kept == kept).all(), "what was exported does not move by itself"
    review.export(small.root)
    data = folders.read(small.root)
    assert len(data.verdicts) == len(votes) + 1
    assert derive(data).kept.sum() == kept.sum() - 1, "one against one is a tie: not similar"


def test_export_as_a_dataset_of_its_own(small, tmp_path):
    decide_all(small, lambda task, who: {"decision": "unsure"} if task.set_id == "set1" else {})
    out = tmp_path / "reviewed"
    review.export(small.root, out=out)
    data = folders.read(out)
    assert data.info.reviewed == "release"
    assert len(data.sets.set) == 15 - 4
    assert (out / data.frames.media[0]).read_bytes() == (small.root / small.frames.media[0]).read_bytes()
    (out / data.frames.media[0]).unlink()  # as a kill between the tables and the images leaves it
    review.export(small.root, out=out)
    assert (out / data.frames.media[0]).is_file()
    assert folders.read(out).digest() == data.digest()
    folders.write(folders.read(small.root), tmp_path / "other")
    with pytest.raises(StrobeError, match="already contains a dataset made with other settings"):
        review.export(small.root, out=tmp_path / "other")


def test_status_figures(small):
    def decide(task, who):
        if task.kind == "same":
            return {"decision": "similar" if who == "Ann" else "unsure"}
        if task.kind == "different":
            return {"decision": "dissimilar", "reason": "other"}
        wrong = task.frame_id == "vid2:4"
        return {"decision": "dissimilar", "reason": "blur"} if wrong and who == "Bo" else {}

    votes = decide_all(small, decide, votes=2, controls=0.5)
    figures = review.status(small.root)
    assert figures["votes"] == len(votes)
    assert figures["table"]["pairs_reviewed"] == 12
    assert figures["table"]["pairs_accepted"] == 11
    agreement = figures["agreement"]
    assert agreement["pairs_with_two_votes"] == 12
    assert agreement["raw"]["value"] == pytest.approx(11 / 12)
    assert [(one["a"], one["b"], one["n"]) for one in agreement["cohen_kappa"]] == [("Ann", "Bo", 12)]
    ann, bo = figures["annotators"]
    assert ann["controls"]["value"] == 1.0
    assert bo["controls"]["count"] == bo["controls"]["n"] - sum(
        v.annotator == "Bo" and v.decision == "unsure" for v in votes
    )
    assert figures["controls"]["same"]["n"] > 0
    assert figures["controls"]["different"]["value"] == 1.0
    assert figures["seconds"]["median"] == 2.0
    by_name = {one["name"]: one for one in figures["classes"]}
    assert by_name["bird"]["pairs_accepted"] == 3
    assert by_name["cat"] == {
        "label": "n01", "name": "cat", "anchors": 1, "anchors_accepted": 1, "pairs": 4, "pairs_reviewed": 4,
        "pairs_accepted": 4,
    }  # fmt: skip


# -- import -----------------------------------------------------------------------------------------------------------


def write_annotations(path, entries, names):
    path.write_text(json.dumps({"annotations": entries, "labels": names}))
    return path


PAIR_NAMES = ["correct", "similar", "dissimilar", "incorrect", "dont know", "blur-increase", "bad-anchor"]


def test_import_of_the_papers_pair_annotations(small, tmp_path):
    anchor = "/home/someone/data/clip0/frame2"
    entries = [
        {"key": f"{anchor},clip0/frame1", "notes": "", "labels": [0, 1]},
        {"key": f"{anchor},clip0/frame3", "notes": "blurred", "labels": [0, 1, 5]},
        {"key": f"{anchor},/elsewhere/clip0/frame4", "notes": "", "labels": [0, 1, 4]},
        {"key": "clip1/frame2,clip1/frame1", "notes": "", "labels": [6]},
        {"key": "other/frame2,other/frame1", "notes": "", "labels": [1]},
    ]
    file = write_annotations(tmp_path / "pairs.json", entries, PAIR_NAMES)
    assert review.import_votes(small.root, file, annotator="papers") == {"read": 4, "added": 4, "elsewhere": 1}
    assert review.import_votes(small.root, file, annotator="papers")["added"] == 0, "the same file again adds nothing"
    review.export(small.root)
    data = folders.read(small.root)
    found = {v.frame_id: (v.decision, v.reason, v.note, v.bad_anchor) for v in data.verdicts}
    assert found["vid0:1"] == ("similar", "", "", False)
    assert found["vid0:3"] == ("dissimilar", "blur", "blurred", False)
    assert found["vid0:4"][0] == "unsure"
    assert found["vid1:1"][3] is True
    kept = reviewed(data)
    assert [str(name) for name in kept.sets.set_id] == ["set0"]
    assert len(kept.sets.set) == 2


def test_import_of_the_papers_anchor_annotations(small, tmp_path):
    names = ["good", "unsure", "bad", "cat", "dog", "bird", "person"]
    entries = [
        {"key": "x/y/clip0/frame2", "notes": "", "labels": [0, 6]},
        {"key": "clip1/frame2", "notes": "what is it?", "labels": [2]},
        {"key": "clip2/frame2", "notes": "", "labels": [0]},
    ]
    file = write_annotations(tmp_path / "anchors.json", entries, names)
    assert review.import_votes(small.root, file, annotator="papers")["added"] == 3
    review.export(small.root)
    data = folders.read(small.root)
    derivation = derive(data)
    assert derivation.kept_set.tolist() == [True, False, True]
    after = replace(data, labels=derivation.labels)
    assert after.labels_of(2) == (0, 3), "cat, and the added person"
    assert after.labels_of(0) == (0, 3), "carried to the neighbours"


def test_import_of_csv_votes(small, tmp_path):
    file = tmp_path / "votes.csv"
    file.write_text(
        "annotator,set,frame,decision,label_right,reason,bad_anchor,labels,note,seconds,at,stage\n"
        "Ann,set0,vid0:1,similar,yes,,,,fine,1.5,2020-01-01T00:00:00Z,\n"
        'Bo,clip0/frame2,clip0/frame3,dissimilar,no,blur,no,,"a, comma",2,2020-01-01T01:00:00+01:00,verify\n'
        ",set1,vid1:2,similar,,,,cat; person,,,,\n"
        "Ann,set9,vid9:1,similar,,,,,,,,\n"
    )
    assert review.import_votes(small.root, file, annotator="nobody") == {"read": 3, "added": 3, "elsewhere": 1}
    store = Store(database(small))
    votes = {v.annotator: v for v in store.all()}
    store.close()
    assert votes["Ann"].at == "2020-01-01T00:00:00.000000Z"
    assert votes["Bo"].at == "2020-01-01T00:00:00.000000Z"
    assert (votes["Bo"].stage, votes["Bo"].label_right, votes["Bo"].reason) == ("verify", False, "blur")
    assert (votes["nobody"].stage, votes["nobody"].labels) == ("anchor", ("n01", "n04"))


def test_import_leaves_the_queue_of_a_running_review_as_it_is(small, tmp_path):
    store = Store(database(small))
    store.prepare(small, ReviewOptions(votes=3, seed=7, controls=0.0, labels=True))
    before = queue.claim(store, "Ann", tab="t", want=12)
    file = tmp_path / "votes.csv"
    file.write_text("set,frame,decision\nset0,vid0:1,similar\n")
    review.import_votes(small.root, file, annotator="imported")
    assert queue.claim(store, "Ann", tab="t", want=12) == before
    assert store.conduct().settings == ReviewOptions(votes=3, seed=7, controls=0.0, labels=True)
    store.close()


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference material is not here")
def test_the_real_anchor_annotations(helpers, tmp_path):
    """The papers' 2,467 reviewed YTBB anchors, imported as votes on a dataset that has those anchors alone."""
    entries = json.loads(REFERENCE.read_text())["annotations"]
    keys = ["/".join(entry["key"].split("/")[-2:]) for entry in entries]
    listed = {}
    for line in (REFERENCE.parent / "ytbb_robustness_test_anchors_full.csv").read_text().split()[1:]:
        video, time_ms, label = line.split(",")
        listed[f"{video}_{time_ms}"] = 23 if label == "22" else int(label)  # in the list 22 is car
    data = helpers.anchors_alone(tmp_path / "ytbb", keys, [listed[key.split("/")[0]] for key in keys])
    found = review.import_votes(data.root, REFERENCE, annotator="papers")
    assert found == {"read": 2467, "added": 2467, "elsewhere": 0}
    review.export(data.root)
    data = folders.read(data.root)
    derivation = derive(data)
    kept = derivation.kept_set
    # By hand over the file: good, and neither bad nor unsure.
    good = np.array([set(entry["labels"]) & {0, 1, 2} == {0} for entry in entries])
    assert kept.tolist() == good.tolist()
    assert int(good.sum()) == 2169
    names = data.info.label_space.names
    after = [{names[label] for label in replace(data, labels=derivation.labels).labels_of(row)} for row in range(30)]
    words = json.loads(REFERENCE.read_text())["labels"]
    for row in range(30):
        added = {words[label] for label in entries[row]["labels"] if label > 2}
        assert after[row] == added | {names[listed[keys[row].split("/")[0]]]}


# -- the command line -------------------------------------------------------------------------------------------------


def test_status_and_export_on_the_command_line(small):
    decide_all(small)
    runner = CliRunner()
    shown = runner.invoke(command, ["status", str(small.root)])
    assert shown.exit_code == 0
    assert re.search(r"pairs +12 +12 +12", shown.output)
    assert "Krippendorff" in shown.output
    as_json = runner.invoke(command, ["status", str(small.root), "--json"])
    assert json.loads(as_json.output)["table"]["pairs"] == 12
    exported = runner.invoke(command, ["export", str(small.root)])
    assert exported.exit_code == 0
    assert "verdicts.parquet" in exported.output


def test_a_taken_port_is_one_line(small):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = review.ServeOptions(port=taken.getsockname()[1])
        with pytest.raises(StrobeError, match="is in use; choose another port with --port"):
            review.serve(small.root, options, ReviewOptions(), on_ready=lambda links: None)


@pytest.mark.slow
def test_serve_on_the_command_line_prints_links_and_stops_on_a_signal(small, started):
    call = "from strobe.annexes.web.review.command import command; command()"
    arguments = ["serve", str(small.root), "--no-open", "--port", "0", "--invite", "Ann", "--observer", "Olga"]
    process = started(
        [sys.executable, "-c", call, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = [process.stdout.readline() for _ in range(4)]
    url = lines[0].split()[-1]
    links = {line.split()[0]: line.split()[-1] for line in lines[1:]}
    assert httpx.get(url).status_code == 200
    who = {}
    for name in ("admin", "Ann", "Olga"):
        with httpx.Client(base_url=url, headers={"origin": url}) as client:
            who[name] = client.post("/api/login", json={"key": links[name].split("#key=")[1]}).json()["role"]
    assert who == {"admin": "admin", "Ann": "annotator", "Olga": "observer"}
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in out + err
    assert links["admin"].split("#key=")[1] not in out + err, "secrets are printed once, for who started it"
