"""serve, status, export and import as workflows and on the command line, and how far votes can be trusted."""

import html
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from strobe.analyses.voting import asked, too_quick, warnings
from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.store import Store
from strobe.cli.main import cli
from strobe.core.derivation import derive, latest_votes, reviewed
from strobe.core.errors import StrobeError
from strobe.core.records import DECISIONS, Verdict
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


def write(path, *lines, header="set,frame,decision,annotator"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def votes_in(data):
    store = Store(f"sqlite:///{data.root / 'review.sqlite'}")
    try:
        return list(store.all())
    finally:
        store.close()


def last_word(data, frame="vid0:1"):
    return {v.decision for v in latest_votes(votes_in(data))["set0", frame].values()}


@pytest.mark.parametrize("said", list(permutations(["similar", "dissimilar", "unsure"])))
def test_the_last_line_without_a_time_wins(small, tmp_path, said):
    file = write(tmp_path / "votes.csv", *(f"set0,vid0:1,{one},Ann" for one in said))
    assert review.import_votes(small.root, file, annotator="x")["added"] == 3
    assert last_word(small) == {said[-1]}
    assert review.import_votes(small.root, file, annotator="x")["added"] == 0
    assert last_word(small) == {said[-1]}
    review.export(small.root)
    assert derive(folders.read(small.root)).kept[1] == (said[-1] == "similar")


def test_a_vote_on_the_page_still_counts_over_any_import(small, tmp_path):
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0))
    claimed = next(c for c in queue.claim(store, "Ann", tab="t", want=12) if c.task.frame_id == "vid0:1")
    file = write(tmp_path / "votes.csv", "set0,vid0:1,dissimilar,Ann", "set0,vid0:1,similar,Ann")
    review.import_votes(small.root, file, annotator="x")
    imported = next(v for v in store.all() if v.frame_id == claimed.task.frame_id)
    store.cast([type(imported)(
        verdict_id="on-the-page", annotator="Ann", at="", stage="pair", set_id="set0", frame_id="vid0:1",
        decision="unsure",
    )])  # fmt: skip
    store.close()
    assert last_word(small) == {"unsure"}


# -- what the page would refuse ---------------------------------------------------------------------------------------


# -- one person, one name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["ann lee", "ANN LEE", "Ann  Lee", "\uff21nn Lee"])
def test_another_spelling_of_a_name_is_refused(small, tmp_path, other):
    one = write(tmp_path / "one.csv", "set0,vid0:1,similar,Ann Lee")
    review.import_votes(small.root, one, annotator="x")
    two = write(tmp_path / "two.csv", "set0,vid0:3,similar,Bo", f"set0,vid0:1,dissimilar,{other}")
    says = re.escape("two.csv: line 3: the name") + ".*'Ann Lee'.*"
    with pytest.raises(StrobeError, match=says):
        review.import_votes(small.root, two, annotator="x")
    both = write(tmp_path / "both.csv", "set0,vid0:1,similar,Cy Day", f"set0,vid0:1,similar,{other}")
    with pytest.raises(StrobeError, match=re.escape("both.csv: line 3")):
        review.import_votes(small.root, both, annotator="x")
    assert [v.annotator for v in votes_in(small)] == ["Ann Lee"], "nothing of a refused file is kept"


def test_the_name_of_the_importer_is_checked_too(small, tmp_path):
    file = write(tmp_path / "one.csv", "set0,vid0:1,similar", header="set,frame,decision")
    review.import_votes(small.root, file, annotator="Ann")
    with pytest.raises(StrobeError, match="differs from 'Ann'"):
        review.import_votes(small.root, file, annotator="ann")
    review.export(small.root)
    (small.root / "review.sqlite").unlink()
    with pytest.raises(StrobeError, match="differs from 'Ann'"):
        review.import_votes(small.root, file, annotator="ann")


GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("what", ["folder", "database"])
def test_review_status_of_what_cannot_be_written_or_read(what: str, tmp_path: Path) -> None:
    """Both ended with exit 70, `a bug in strobe`."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.name == "posix" and os.geteuid() == 0 else []
    if os.name != "posix" or (drop and shutil.which("setpriv") is None):
        pytest.skip("permissions do not bind this user")
    place = tmp_path / "set"
    shutil.copytree(GOLDEN / "datasets/votes", place)
    make = (
        "import sys; from pathlib import Path; from contextlib import closing\n"
        "from strobe.annexes.web.review.store import Store; from strobe.store.dataset_folder import content, read\n"
        "with closing(Store('sqlite:///' + sys.argv[1] + '/review.sqlite')) as store:\n"
        "    store.check(read(Path(sys.argv[1])), content(Path(sys.argv[1])))\n"
    )
    subprocess.run([sys.executable, "-c", make, str(place)], check=True)
    closed = place if what == "folder" else place / "review.sqlite"
    closed.chmod(0o555 if what == "folder" else 0o000)
    words = [*drop, sys.executable, "-m", "strobe", "review", "status", str(place), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    closed.chmod(0o755)
    if what == "folder":
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["dataset"] == "golden-votes"
    else:
        assert done.returncode == 2
        assert done.stderr == f"strobe: {place}/review.sqlite: no permission to read it; ask its owner\n"


def vote(number, set_id, frame_id, decision="similar", **fields):
    return Verdict(
        verdict_id=f"v{number}", annotator="ann", at=f"2026-01-01T00:00:{number:02}.000000Z",
        stage=fields.pop("stage", "pair"), set_id=set_id, frame_id=frame_id, decision=decision, **fields,
    )  # fmt: skip


def test_what_review_changed(helpers, tmp_path):
    data = helpers.make_dataset(tmp_path / "data", n_sets=4, k=1)  # sets 0–3 of classes 0–3, frames −1, anchor, +1
    votes = [vote(n, f"set{s}", f"vid{s}:{f}") for n, (s, f) in enumerate((s, f) for s in range(3) for f in (0, 2))]
    votes[1] = vote(1, "set0", "vid0:2", "dissimilar", reason="blur")
    votes.append(vote(20, "set3", "vid3:0", "dissimilar", bad_anchor=True))
    votes.append(vote(21, "set1", "vid1:1", stage="anchor", labels=("n02", "n03")))
    folders.append_verdicts(data.root, votes)

    def scores(label):
        return [float(place == label) for place in range(4)]

    said = {name: scores(place // 3) for place, name in enumerate(data.frames.key)}
    said["clip0/frame2"] = scores(3)  # wrong only where people said dissimilar
    said["clip1/frame1"] = scores(2)  # right only after the label was added
    said["clip3/frame1"] = scores(0)  # wrong only on the bad anchor
    (tmp_path / "preds.json").write_text(json.dumps(said))
    out = tmp_path / "run"
    arguments = ["score", str(data.root), "-m", f"preds:{tmp_path / 'preds.json'}", "-o", str(out), "--compare-review"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (model,) = json.loads((out / "results.json").read_text())["models"].values()
    impact = model["review_impact"]
    counts = {
        stage: (impact[stage]["acc_orig"]["n"], impact[stage]["acc_orig"]["count"], impact[stage]["acc_pmk"]["count"])
        for stage in "ABC"
    }
    assert counts["A"] == (4, 2, 1), "all candidates: anchors 0 and 2 right, set 2 right throughout"
    assert counts["B"] == (3, 3, 2), "kept anchors: the added label makes anchor 1 and its set right"
    assert counts["C"] == (3, 3, 3), "kept members: the dissimilar frame no longer counts"
    assert model["acc_pmk"]["count"] == 3, "the score itself is that of the reviewed sets"
    assert {entry["offset"] for entry in impact["A"]["per_offset"]} == {-1, 0, 1}


def votes_of(data, who, *, seconds, choose, page="1f0c", controls=10):
    """One person's votes on every pair and on some controls, `choose(is_control, must_be_similar)` each."""
    pairs = [(set_id, frame, None) for set_id, frame in sorted(data.candidates())]
    for number in range(controls):
        one, other = number % data.n_sets, (number + 1) % data.n_sets
        same = number % 2 == 0
        pairs.append((f"set{one}", f"vid{one if same else other}:2", same))
    out = []
    for number, (set_id, frame, same) in enumerate(pairs):
        decision = choose(same)
        out.append(
            Verdict(
                verdict_id=f"{who}-{number:04}", annotator=who, at=f"2026-01-01T00:00:00.{number:06}Z", stage="pair",
                set_id=set_id, frame_id=frame, decision=decision, label_right=True, page_version=page,
                reason="motion" if decision == "dissimilar" else "",
                seconds=seconds[number % len(seconds)] if seconds else None,
            )
        )  # fmt: skip
    return out


def careful(same):
    return "dissimilar" if same is False else "similar"


@pytest.fixture
def data(helpers, tmp_path):
    return helpers.make_dataset(tmp_path / "data", n_sets=12, k=2)


def scored(data, tmp_path, votes):
    """`strobe score` on those votes: what it says on the terminal, results.json, and the words of the report."""
    folders.append_verdicts(data.root, votes)
    preds, out = tmp_path / "preds.json", tmp_path / "run"
    preds.write_text(json.dumps({name: [1.0, 0.0, 0.0, 0.0] for name in data.frames.key}))
    done = CliRunner().invoke(
        cli, ["score", str(data.root), "-m", f"preds:{preds}", "-o", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    done_too = CliRunner().invoke(cli, ["report", str(out)], catch_exceptions=False)
    assert done_too.exit_code == 0, done_too.output
    page = next(out.rglob("*.html")).read_text("utf-8")
    words = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", "", words)).split())
    return done.output, json.loads((out / "results.json").read_text())["review"], words


def test_random_votes_at_a_tenth_of_a_second_are_nobodys_judgement(data, tmp_path):
    rng = random.Random(0)
    noise = votes_of(data, "Bo", seconds=[0.1], choose=lambda _: rng.choice(DECISIONS[:2]))
    terminal, results, words = scored(data, tmp_path, noise)
    controls, pace = results["warnings"]
    assert re.fullmatch(r"Bo got \d of 10 control pairs right: their answers may be guesses", controls)
    assert pace == "58 of 58 answers by Bo came faster than pairs can be viewed (less than 0.4 s)"
    assert "look the same to people" not in words
    assert "which look the same" not in words
    assert "that doubtful votes kept (see the notes)" in words
    for said in results["warnings"]:
        assert said in words
        assert said in " ".join(terminal.split())
    figures = review.export(data.root)
    assert figures["warnings"] == results["warnings"]
    status = CliRunner().invoke(cli, ["review", "status", str(data.root)], catch_exceptions=False).output
    assert f"warning: {controls}" in status
    assert f"warning: {pace}" in status


def test_careful_votes_are_peoples_word_and_their_figures_go_with_them(data, tmp_path):
    votes = votes_of(data, "Ann", seconds=[1.2, 2.4, 0.3] + [1.5] * 50, choose=careful)
    votes += votes_of(data, "Cy", seconds=None, choose=careful)
    votes[0] = replace(votes[0], decision="unsure")
    terminal, results, words = scored(data, tmp_path, votes)
    assert results["warnings"] == [], "one quick vote is no pace"
    assert (results["n_people"], results["n_votes"], results["n_pairs"], results["n_pairs_twice"]) == (2, 96, 48, 48)
    assert (results["controls"]["count"], results["controls"]["n"]) == (20, 20)
    assert results["seconds"] == 1.5
    assert [(one["person"], one["n_votes"], one["too_quick"]) for one in results["people"]] == [
        ("Ann", 58, 2), ("Cy", 58, 0),
    ]  # fmt: skip
    assert "look the same to people" in words
    assert "96 votes of 2 people on 48 pairs; Fleiss’ κ" in words
    assert "20 of 20 control pairs right; 1.5 s a pair (median)" in words
    assert "warning" not in terminal
    summary = review.status(data.root)
    assert summary["warnings"] == []
    assert summary["agreement"]["fleiss_kappa"] == results["fleiss_kappa"], "one figure, wherever it stands"
    assert summary["controls"]["all"] == results["controls"]


def test_a_set_at_a_time_has_a_pace_of_its_own(data):
    quick = votes_of(data, "Ann", seconds=[0.3], choose=careful, page="1f0c.set20")
    assert not any(map(too_quick, quick)), "six seconds for twenty images"
    assert warnings(asked(data, quick)) == ()
    rushed = votes_of(data, "Ann", seconds=[0.1], choose=careful, page="1f0c.set20")
    assert all(map(too_quick, rushed)), "two seconds are not enough"
    assert [replace(quick[0], page_version=page).at_once for page in ("", "1f0c", "1f.set0", "x.set7")] == [1, 1, 1, 7]


def test_a_line_that_comes_back_to_an_earlier_word_wins(small, tmp_path):
    said = ["similar", "dissimilar", "similar", "similar"]
    file = write(tmp_path / "votes.csv", *(f"set0,vid0:1,{one},Ann" for one in said))
    assert review.import_votes(small.root, file, annotator="x") == {"read": 3, "added": 3, "elsewhere": 0}
    assert last_word(small) == {"similar"}
    assert review.import_votes(small.root, file, annotator="x")["added"] == 0


def test_the_last_of_equal_times_wins(small, tmp_path):
    for number, said in enumerate(permutations(["similar", "dissimilar", "unsure"])):
        lines = [f"set0,vid0:1,{one},P{number},2020-01-01T00:00:00Z" for one in said]
        file = write(tmp_path / "votes.csv", *lines, header="set,frame,decision,annotator,at")
        review.import_votes(small.root, file, annotator="x")
        assert review.import_votes(small.root, file, annotator="x")["added"] == 0
        assert latest_votes(votes_in(small))["set0", "vid0:1"][f"P{number}"].decision == said[-1]
