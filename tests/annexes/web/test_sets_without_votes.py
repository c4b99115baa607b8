"""Sets that nobody voted on, from the import of votes to the figures of the sets that stay."""

import json

import numpy as np
import pytest

import strobe
from strobe.core.files import read_json

LEFT = "9 sets without any vote are excluded from every figure"


@pytest.fixture
def partial(tmp_path, command):
    """Twelve sets, three of them voted on; a model that is wrong far from the anchor on all sets but the first two."""
    data = strobe.example_dataset(n_videos=12, k=2)
    folder, ids = strobe.save_dataset(data, tmp_path / "data"), data.frame_ids()
    lines = ["set,frame,decision,annotator"]
    for row in np.flatnonzero((data.sets.set < 3) & ~data.sets.is_anchor).tolist():
        decision = "dissimilar" if abs(data.sets.distance[row]) > 1 else "similar"
        lines.append(f"{data.sets.set_id[data.sets.set[row]]},{ids[data.sets.frame[row]]},{decision},ann")
    (tmp_path / "votes.csv").write_text("\n".join(lines), encoding="utf-8")
    label = np.zeros(len(data.frames), dtype=np.int64)
    label[data.labels.frame] = data.labels.label
    far = data.sets.frame[(np.abs(data.sets.distance) == 2) & (data.sets.set >= 2)]
    label[far] = 1 - label[far]
    names = data.info.label_space.names
    given = {str(key): names[place] for key, place in zip(data.frames.key, label, strict=True)}
    (tmp_path / "net.json").write_text(json.dumps(given), encoding="utf-8")
    assert command("review", "import", folder, tmp_path / "votes.csv")[0] == 0
    return folder


def _scored(command, folder, *more):
    code, out, err = command(
        "score", folder, "-m", f"preds:{folder.parent}/net.json", "-o", folder.parent / f"run-{folder.name}", *more
    )
    assert code == 0, err
    return out, read_json(folder.parent / f"run-{folder.name}" / "results.json")


def test_export_says_how_many_sets_leave_the_study(partial, command):
    code, out, err = command("review", "export", partial)
    assert code == 0
    assert "(9 sets without any vote)" in out
    assert "9 of 12 sets have no vote and are excluded from the study; --unreviewed keep keeps them as built" in err
    assert read_json(partial / "review.json")["table"]["sets_without_votes"] == 9
    out, found = _scored(command, partial)
    assert LEFT in out
    assert (found["dataset"]["n_sets"], found["dataset"]["sets_without_votes"]) == (3, 9)
    run = partial.parent / "run-data"
    assert LEFT in command("gate", run, "--min", "acc_orig=10")[1]
    assert read_json(run / "gate" / "gate.json")["sets_without_votes"] == 9
    assert LEFT in command("history", run, "-o", partial.parent / "history")[1]
    assert command("report", run)[0] == 0
    assert LEFT in (run / "report.html").read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match=LEFT):
        strobe.score(partial, partial.parent / "net.json")
    few = partial.parent / "few.txt"
    few.write_text("\n".join(strobe.load_dataset(partial).videos.name[2:5]), encoding="utf-8")
    assert "2 sets without any vote" in _scored(command, partial, "--subset", few)[0]


def test_review_is_not_credited_with_sets_nobody_voted_on(partial, command):
    command("review", "export", partial)
    _, found = _scored(command, partial, "--compare-review")
    impact = found["models"]["net"]["review_impact"]
    assert [impact[stage]["drop"]["n"] for stage in "ABC"] == [3, 3, 3]
    assert [impact[stage]["drop"]["count"] for stage in "ABC"] == [1, 1, 0]
    assert impact["drop_difference"]["value"] == pytest.approx(1 / 3)  # 10 of 12 with those nobody looked at


def test_unreviewed_sets_can_stay_as_they_were_built(partial, command):
    _, _, err = command("review", "export", partial, "--unreviewed", "keep")
    assert "9 of 12 sets have no vote and stay in the study as built" in err
    assert read_json(partial / "dataset.json")["unreviewed"] == "keep"
    out, found = _scored(command, partial, "--compare-review")
    assert "9 of the 12 scored sets have no vote; they are scored with all their candidates" in out
    facts, model = found["dataset"], found["models"]["net"]
    assert (facts["n_sets"], facts["sets_without_votes"], facts["kept_without_votes"]) == (12, 9, 9)
    assert (model["drop"]["count"], model["review_impact"]["A"]["drop"]["n"]) == (9, 3)
    assert "unreviewed_pairs" not in facts
    assert read_json(partial / "review.json")["table"]["pairs_accepted"] == 6
    command("review", "export", partial)  # what was said stays
    assert read_json(partial / "dataset.json")["unreviewed"] == "keep"
    command("review", "export", partial, "--unreviewed", "exclude")
    assert "unreviewed" not in read_json(partial / "dataset.json")
    assert command("review", "export", partial, "--ask", "box", "--unreviewed", "keep")[0] == 2
