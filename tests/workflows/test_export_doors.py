"""Exports other tools open, opened by those tools: Hugging Face datasets, FiftyOne, Croissant; the card beside them."""

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from strobe.cli.main import main
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.export import export

LOAD = """
import json, sys
from datasets import load_dataset
frames = load_dataset(sys.argv[1], split="test", cache_dir=sys.argv[2])
sets = load_dataset(sys.argv[1], "sets", split="test", cache_dir=sys.argv[2])
names = frames.features["labels"].feature.names
rows = [
    [row["key"], list(row["image"].size), sum(row["image"].getpixel((3, 5))), [names[one] for one in row["labels"]],
     row["objects"]["bbox"], row["objects"]["track"], [one["distance"] for one in row["sets"]]]
    for row in frames
]
print(json.dumps({"rows": rows, "sets": [list(row.values()) for row in sets]}))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    root = tmp_path_factory.mktemp("doors") / "world"
    with pytest.raises(SystemExit) as ended:
        main(["synthesize", str(root), "--videos", "3", "--size", "32", "--k", "1", "-q"])
    assert not ended.value.code
    return folder.read(root)


def root_of(dataset: Dataset) -> Path:
    assert dataset.root is not None
    return dataset.root


def test_hugging_face_datasets_reads_images_labels_boxes_and_sets(world: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    done = export(root_of(world), "huggingface", tmp_path / "hf")
    assert done.files[-1].name == "README.md"
    environment = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    loaded = subprocess.run(  # in a process of its own: the library warns as it likes, and warnings are errors here
        [sys.executable, "-W", "ignore", "-c", LOAD, str(tmp_path / "hf"), str(tmp_path / "cache")],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert loaded.returncode == 0, loaded.stderr[-2000:]
    told = json.loads(loaded.stdout)
    names, boxes = world.info.label_space.names, world.boxes
    assert boxes is not None
    assert len(told["rows"]) == len(world.frames) == 9
    for row, (key, size, pixel, labels, bbox, track, distances) in enumerate(told["rows"]):
        with Image.open(root_of(world) / world.frames.media[row]) as picture:
            assert pixel == sum(picture.getpixel((3, 5)))  # type: ignore[arg-type]  # RGB
        assert (key, size) == (world.frames.key[row], [32, 32])
        assert labels == [names[label] for label in world.labels_of(row)]
        x0, y0, x1, y1 = boxes.xyxy[boxes.frame == row][0]
        assert bbox == [[x0, y0, x1 - x0, y1 - y0]]
        assert track == boxes.track[boxes.frame == row].tolist()
        assert distances == world.sets.distance[world.sets.frame == row].tolist()
    assert [row[3] for row in told["sets"]] == world.sets.distance.tolist()


def test_an_interrupted_export_goes_on_and_another_one_is_not_mixed_in(world: Dataset, tmp_path: Path) -> None:
    from strobe.formats import export_huggingface

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_huggingface, "_SHARD_BYTES", 4 * 2 * 32 * 32)
        whole = export(root_of(world), "huggingface", tmp_path / "hf").files
        assert [path.parent.name for path in whole] == ["frames", "frames", "frames", "sets", "hf"]
        content = {path: path.read_bytes() for path in whole}
        for path in (whole[1], whole[-1]):
            path.unlink()
        kept = whole[0].stat().st_mtime_ns
        assert export(root_of(world), "huggingface", tmp_path / "hf").files == whole
        assert {path: path.read_bytes() for path in whole} == content
        assert whole[0].stat().st_mtime_ns == kept
    keys = [key for path in whole[:3] for key in pq.read_table(path, columns=["key"])["key"].to_pylist()]
    assert keys == world.frames.key.tolist()
    synthesize_other = ["synthesize", str(tmp_path / "other"), "--videos", "3", "--size", "32", "--k", "1", "-q"]
    with pytest.raises(SystemExit):
        main([*synthesize_other, "--seed", "5"])
    with pytest.raises(StrobeError, match=r"hf contains other files \(frames/.*\.parquet\); choose another folder"):
        export(tmp_path / "other", "huggingface", tmp_path / "hf")
    assert {path: path.read_bytes() for path in whole} == content


@pytest.mark.parametrize("media", ["none", "copy"])
def test_fiftyone_documents_say_what_the_dataset_says(world: Dataset, tmp_path: Path, media: str) -> None:
    for _ in range(2):  # the same again changes nothing
        export(root_of(world), "fiftyone", tmp_path / "fo", media=media)  # type: ignore[arg-type]  # a mode
    samples = json.loads((tmp_path / "fo/samples.json").read_text())["samples"]
    assert [one["key"] for one in samples] == world.frames.key.tolist()
    assert len({one["_id"]["$oid"] for one in samples}) == 9
    for row, one in enumerate(samples):
        assert (tmp_path / "fo" / one["filepath"]).is_file()
        assert Path(one["filepath"]).is_absolute() == (media == "none")
        x, y, width, height = one["boxes"]["detections"][0]["bounding_box"]
        np.testing.assert_allclose(np.array([x, y, x + width, y + height]) * 32, world.boxes.xyxy[row])  # type: ignore[union-attr]
    about = json.loads((tmp_path / "fo/metadata.json").read_text())
    assert {field["db_field"] for field in about["sample_fields"]} >= set(samples[0])
    assert about["info"]["strobe"]["digest"] == world.digest()


def test_croissant_describes_every_column_of_every_file(world: Dataset, tmp_path: Path) -> None:
    export(root_of(world), "croissant", tmp_path / "out", media="copy")
    document = json.loads((tmp_path / "out/croissant.json").read_text())
    for one in document["distribution"]:
        content = (tmp_path / "out" / one["contentUrl"]).read_bytes()
        assert one["sha256"] == hashlib.sha256(content).hexdigest()
    described = {one["@id"]: [field["name"] for field in one["field"]] for one in document["recordSet"]}
    tables = {path.stem: pq.read_schema(path).names for path in (tmp_path / "out").glob("*.parquet")}
    assert described == tables
    assert folder.read(tmp_path / "out").digest() == world.digest()  # and it is a dataset folder, images and all
    assert (tmp_path / "out" / world.frames.media[0]).is_file()
    before = {path.name: path.read_bytes() for path in root_of(world).glob("*.*")}
    export(root_of(world), "croissant", root_of(world))  # into its own folder: one file more
    after = {path.name: path.read_bytes() for path in root_of(world).glob("*.*")}
    assert after.pop("croissant.json")
    assert after == before


def test_bad_requests_are_one_line(world: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare"
    document = export(root_of(world), "coco", tmp_path / "coco").files[0]
    with pytest.raises(SystemExit):
        main(["import", "coco-vid", str(document), str(bare), "--no-media", "-q"])
    capsys.readouterr()
    table = {
        ("huggingface", "--media", "copy"): "remove --media",
        ("card", "--media", "link"): "remove --media",
        ("fiftyon",): "fiftyone",
    }
    for words, said in table.items():
        with pytest.raises(SystemExit) as ended:
            main(["export", str(root_of(world)), words[0], str(tmp_path / "out"), *words[1:], "-q"])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
    for form, said in (("huggingface", "has no images"), ("fiftyone", "which FiftyOne needs")):
        with pytest.raises(SystemExit) as ended:
            main(["export", str(bare), form, str(tmp_path / "out"), "-q"])
        told = capsys.readouterr().err
        assert (ended.value.code, told.count("\n")) == (2, 1)
        assert said in told
    assert not (tmp_path / "out").exists()


RUNS = Path(__file__).parents[1] / "golden/runs"


def board(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, words)])
    return int(ended.value.code or 0)


def test_a_leaderboard_over_many_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = sorted(path.parent for path in RUNS.glob("*/results.json"))
    assert board(*runs, "leaderboard", tmp_path) == 0
    told = json.loads((tmp_path / "leaderboard.json").read_text())["boards"]
    results = {run.name: json.loads((run / "results.json").read_text()) for run in runs}
    entries = [(one, entry) for one in told for entry in one["entries"]]
    assert len(entries) == sum(len(found["models"]) for found in results.values())
    for one, entry in entries:
        found = results[entry["run"]]
        assert (one["digest"], one["k"]) == (found["dataset"]["digest"], found["dataset"]["k"])
        assert entry["drop"] == found["models"][entry["model"]].get("drop", entry["drop"])
    for one in told:  # the best first, equal figures of equal rank, never two datasets on one board
        key = "acc_pmk" if one["task"] == "classification" else "map_pmk"
        values = [entry[key]["value"] for entry in one["entries"]]
        assert values == sorted(values, reverse=True)
        assert [entry["rank"] for entry in one["entries"]] == [1 + sum(v > own for v in values) for own in values]
    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["model"]) for row in rows] == [(entry["run"], entry["model"]) for _, entry in entries]
    page = (tmp_path / "index.html").read_text()
    assert all(f'<th scope="row">{entry["model"]}' in page for _, entry in entries)
    assert board(*runs[:2], "leaderboard", tmp_path) == 0  # an earlier one is replaced
    capsys.readouterr()
    before = (tmp_path / "leaderboard.json").read_bytes()
    for words, said in (
        ((runs[0], runs[0], "leaderboard", tmp_path), "is given twice"),
        ((runs[0], RUNS, "leaderboard", tmp_path), "is not a run folder"),
        ((runs[0], runs[1], "coco", tmp_path / "new"), "only leaderboard takes several"),
        ((runs[0], "leaderboard", tmp_path, "--media", "copy"), "remove --media"),
    ):
        assert board(*words) == 2
        assert said in capsys.readouterr().err
    assert (tmp_path / "leaderboard.json").read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_the_page_of_a_leaderboard_has_records_and_runs_no_script_of_a_name(tmp_path: Path) -> None:
    dated = {"first": ("2026-01-02T00:00:00+00:00", 0), "second": ("2026-02-03T00:00:00+00:00", 1)}
    for name, (at, bonus) in dated.items():
        shutil.copytree(RUNS / "video-part", tmp_path / name)
        for file in ("run.json", "results.json"):
            path = tmp_path / name / file
            data = json.loads(path.read_text())
            if file == "run.json":
                data["at"] = at
            else:
                ((_, model),) = list(data["models"].items())[:1]
                model["acc_pmk"] |= {"value": bonus, "count": None, "low": None, "high": None, "reason": "made up"}
                data |= {"models": {f"<script>alert({bonus})</script>": model}, "comparison": []}
            path.write_text(json.dumps(data))
    assert board(tmp_path / "first", tmp_path / "second", "leaderboard", tmp_path / "board") == 0
    page = (tmp_path / "board" / "index.html").read_text()
    assert "<script>alert" not in page
    records = page[page.index("Best model over time") :]
    assert records.index("2026-02-03") < records.index("2026-01-02")
    (sha,) = re.findall(r"script-src 'sha256-([^']+)'", page)
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == sha


def test_pseudonyms_are_stable_and_leave_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    votes = RUNS.parent / "datasets" / "votes"
    names = {vote.annotator for vote in folder.read(votes).verdicts}
    rows = {}
    for place, flags in (("plain", ()), ("first", ("--pseudonyms",)), ("second", ("--pseudonyms",))):
        assert board(votes, "csv", tmp_path / place, "-q", *flags) == 0
        with (tmp_path / place / "verdicts.csv").open(newline="") as file:
            rows[place] = list(csv.DictReader(file))
    assert rows["first"] == rows["second"]
    pairs = {(one["annotator"], other["annotator"]) for one, other in zip(rows["plain"], rows["first"], strict=True)}
    assert len(pairs) == len(names) == len({hidden for _, hidden in pairs})  # one pseudonym for each person
    assert not names & {hidden for _, hidden in pairs}
    assert all(row["note"] == "" for row in rows["first"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))  # somebody else's secret gives other pseudonyms
    assert board(votes, "csv", tmp_path / "third", "-q", "--pseudonyms") == 0
    assert (tmp_path / "third" / "verdicts.csv").read_text() != (tmp_path / "first" / "verdicts.csv").read_text()
    capsys.readouterr()
    assert board(votes, "coco", tmp_path / "coco", "--pseudonyms") == 2
    assert "--pseudonyms only works with csv" in capsys.readouterr().err
