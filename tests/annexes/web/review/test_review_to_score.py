"""From votes to what review changed: the whole way through `strobe score --compare-review`, against counts by hand."""

import json

from click.testing import CliRunner

from strobe.cli.main import cli
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folders


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
