"""ImageNet-A, crops of it, ImageNet-9 and ObjectNet, from fixtures in the real layouts, and what is refused of them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_imports import picture, refused, run
from PIL import Image

from strobe.analyses.published import printed_on
from strobe.annexes.backgrounds.imagenet_9 import RUNGS
from strobe.core.errors import StrobeError
from strobe.core.labels import space
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import ImportOptions, import_dataset

RAY, DOG, FOX = "n01498041", "n02106662", "n02120505"  # stingray and German shepherd are in ImageNet-A, grey fox is not


@pytest.fixture
def imagenet_a(tmp_path: Path) -> Path:
    """Four images of two classes, named as ImageNet-A's are."""
    root = tmp_path / "imagenet-a"
    for place, (wnid, name) in enumerate(
        [(RAY, "0.000116_digital clock _ fox_0.865662.jpg"), (RAY, "0.2_b.jpg"), (DOG, "0.1_c.jpg"), (DOG, "0.3_d.jpg")]
    ):
        picture(root / wnid / name, 20 * place, (30, 20))
    (root / "README.txt").write_text("ImageNet-A")
    return root


# -- ImageNet-A ------------------------------------------------------------------------------------------------------


def test_imagenet_a_is_a_choice_among_its_200_classes(imagenet_a: Path, tmp_path: Path) -> None:
    done = import_dataset("imagenet-a", imagenet_a, tmp_path / "a")
    data = folder.read(tmp_path / "a")
    assert data.digest() == done.dataset.digest()
    assert (data.info.name, data.info.k, data.n_sets) == ("imagenet-a", 0, 4)
    assert data.info.label_space == space("imagenet-a")
    ours = space("imagenet-a")
    assert [data.labels_of(row) for row in range(4)] == [(ours.index(RAY),)] * 2 + [(ours.index(DOG),)] * 2
    assert ours.index(DOG) == 40, "the place among the 200, not the second folder that happens to be here"
    assert done.notes == ("2 of ImageNet-A's 200 classes are present; models choose among all 200",)
    again = import_dataset("imagenet-a", imagenet_a, tmp_path / "a")
    assert again.notes[0] == "it already exists; nothing was changed"
    wide = import_dataset("imagenet-a", imagenet_a, tmp_path / "wide", options={"label_space": "ilsvrc-2012"}).dataset
    assert [wide.labels_of(row) for row in (0, 3)] == [(6,), (235,)]


def test_what_is_no_imagenet_a_is_one_line(imagenet_a: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    assert "no images under" in refused("import", "imagenet-a", tmp_path / "empty", out)
    assert "no such folder" in refused("import", "imagenet-a", tmp_path / "nowhere", out)
    picture(imagenet_a / FOX / "x.jpg", 5)
    said = refused("import", "imagenet-a", imagenet_a, out)
    assert f"{FOX}: not a class of imagenet-a (200 classes, by WordNet id or name); move the folder away" in said
    assert "--label-space ilsvrc-2012 accepts all 1,000 classes" in said
    shutil.rmtree(imagenet_a / FOX)
    stray = picture(imagenet_a / "y.jpg", 5)
    assert "y.jpg is not in a class folder" in refused("import", "imagenet-a", imagenet_a, out)
    stray.unlink()
    assert "is not in a class folder" in refused(
        "import", "imagenet-a", imagenet_a.parent, tmp_path.parent / "elsewhere"
    )
    bad = imagenet_a / DOG / "bad.jpg"
    bad.write_bytes(b"no image")
    said = refused("import", "imagenet-a", imagenet_a, out)
    assert f"{DOG}/bad.jpg: not a readable image; download it again, or move it away" in said
    assert not (out / "dataset.json").exists()
    shutil.copy(imagenet_a / DOG / "0.1_c.jpg", bad)
    done = import_dataset("imagenet-a", imagenet_a, out)
    assert f"1 image(s) are copies of others, first {DOG}/0.1_c.jpg and {DOG}/bad.jpg" in done.notes[-1]


# -- crops and their originals -----------------------------------------------------------------------------------------


def test_crops_are_paired_with_their_originals(imagenet_a: Path, tmp_path: Path) -> None:
    crops = tmp_path / "imagenet-a-plus"
    for key in (f"{RAY}/0.2_b.jpg", f"{DOG}/0.1_c.jpg"):
        picture(crops / key, 99, (7, 5))
    done = import_dataset("imagenet-a-plus", crops, tmp_path / "plus", options={"originals": imagenet_a})
    data = folder.read(tmp_path / "plus")
    assert data.digest() == done.dataset.digest()
    assert (data.info.name, data.info.k, data.info.axis, data.info.label_source) == (
        "imagenet-a-plus",
        1,
        "mixed",
        "anchor",
    )
    assert data.info.label_space == space("imagenet-a")
    assert sorted(set(data.sets.group)) == [f"whole/{RAY}/0.2_b.jpg", f"whole/{DOG}/0.1_c.jpg"]
    assert [(one.variant, one.role, one.fields["rung"], one.levels) for one in data.variants] == [
        ("crop", "same", "crop", (1.0,)), ("usual", "control", "usual", (1.0,)),
    ]  # fmt: skip
    frames = data.frames
    assert dict(zip(frames.key, frames.as_input, strict=True)) == {
        key: not key.startswith("usual/") for key in frames.key
    }, "whole and crop are resized whole; `usual` is the same file as each model prepares it"
    usual = frames.key.tolist().index(f"usual/whole/{DOG}/0.1_c.jpg")
    assert frames.media[usual] == f"media/whole/{DOG}/0.1_c.jpg"
    assert done.notes == ("2 of 4 originals have no crop and were left out, because each image needs a crop",)
    assert data.boxes is None


def test_what_is_no_crop_set_is_one_line(imagenet_a: Path, tmp_path: Path) -> None:
    crops, out = tmp_path / "crops", tmp_path / "out"
    words = ("import", "imagenet-a-plus", crops, out, "--originals", imagenet_a)
    stray = picture(crops / RAY / "other.jpg", 99)
    said = refused(*words)
    assert f"{RAY}/other.jpg has no original: {RAY}/other.jpg is not below" in said
    assert "--originals" in said
    stray.unlink()
    for name in ("0.2_b.jpg", "0.2_b.png"):
        picture(crops / RAY / name, 99)
    assert (
        f"{RAY}/0.2_b.jpg and {RAY}/0.2_b.png are crops of the same image, {RAY}/0.2_b.jpg; keep one of them"
        in refused(*words)
    )
    (crops / RAY / "0.2_b.png").unlink()
    (crops / "manifest.json").write_text('{"crops": [{"file": "x"}]}')
    assert "manifest.json: crops[0]: key: expected a text" in refused(*words)
    (crops / "manifest.json").write_text("[]")
    assert "manifest.json: crops: expected a list of crops" in refused(*words)
    assert not out.exists()


# -- ImageNet-9 --------------------------------------------------------------------------------------------------------

CLASSES = ("00_dog", "01_bird", "02_wheeled vehicle")


@pytest.fixture
def imagenet_9(tmp_path: Path) -> Path:
    """Three images in all variations, as released: backgrounds named in the files of the mixed ones."""
    root = tmp_path / "bg_challenge"
    for place, name in enumerate(CLASSES):
        fore = f"n0208562{place}_{place + 7}"
        picture(root / "original/val" / name / f"{fore}.JPEG", place)
        for number, variation in enumerate(RUNGS, start=1):
            mixed = f"fg_{fore}_bg_n01440764_{place}" if variation.startswith("mixed") else fore
            picture(root / variation / "val" / name / f"{mixed}.JPEG", 20 * number + place)
    (root / "fg_mask/val/00_dog").mkdir(parents=True)
    return root


def test_imagenet_9_and_its_variations_are_the_rungs_of_a_ladder(imagenet_9: Path, tmp_path: Path) -> None:
    done = import_dataset("imagenet-9", imagenet_9, tmp_path / "in9")
    data = folder.read(tmp_path / "in9")
    assert data.digest() == done.dataset.digest()
    assert done.notes == ()
    assert data.info.label_space == space("imagenet-9")
    assert (data.n_sets, len(set(data.sets.group)), len(data.frames)) == (21, 3, 24)
    assert [(one.variant, one.role, one.fields["variation"]) for one in data.variants] == [
        ("same", "same", "mixed_same"), ("other", "same", "mixed_rand"), ("next", "same", "mixed_next"),
        ("object", "same", "only_fg"), ("removed", "control", "no_fg"), ("ground", "control", "only_bg_t"),
        ("box", "control", "only_bg_b"),
    ]  # fmt: skip
    assert data.frames.as_input.all(), "224×224 as they are: neither resized nor cropped, as its authors evaluate"
    assert [data.labels_of(int(row)) for row in np.unique(data.sets.anchor_frame)] == [(0,), (1,), (2,)]
    other = [one for one in data if one.variant == "other"]
    assert [one.members[0].frame.key for one in other] == [
        f"mixed_rand/{name}/fg_n0208562{place}_{place + 7}_bg_n01440764_{place}.JPEG"
        for place, name in enumerate(CLASSES)
    ]


def test_a_part_of_imagenet_9_is_said_and_names_stay_what_they_are(imagenet_9: Path, tmp_path: Path) -> None:
    whole = import_dataset("imagenet-9", imagenet_9, tmp_path / "whole").dataset
    shutil.rmtree(imagenet_9 / "mixed_next")
    (imagenet_9 / "only_fg/val/00_dog/n02085620_7.JPEG").rename(imagenet_9 / "only_fg/val/00_dog/n09_1.JPEG")
    done = import_dataset("imagenet-9", imagenet_9, tmp_path / "part")
    assert done.notes == (
        "only_fg: 1 file(s) match no image of original and were left out, first 00_dog/n09_1.JPEG",
        "only_fg: 1 of 3 images lack this variation",
        "missing variations: mixed_next",
    )
    names = dict(zip(whole.frames.key, whole.frame_ids(), strict=True))
    part = dict(zip(done.dataset.frames.key, done.dataset.frame_ids(), strict=True))
    assert {key: names[key] for key in part} == part


def test_an_object_on_several_grounds_of_one_kind_is_taken_once(imagenet_9: Path, tmp_path: Path) -> None:
    picture(imagenet_9 / "mixed_rand/val/00_dog/fg_n02085620_7_bg_n01443537_9.JPEG", 3)
    found = import_dataset("imagenet-9", imagenet_9, tmp_path / "in9")
    assert {len(one.members) for one in found.dataset} == {1}
    (note,) = [note for note in found.notes if note.startswith("mixed_rand: 1 file(s) show the same object as another")]
    assert "00_dog/fg_n02085620_7_bg_" in note


def test_what_is_no_imagenet_9_is_one_line(imagenet_9: Path, tmp_path: Path) -> None:
    words = ("import", "imagenet-9", imagenet_9, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    assert "no original/val in it" in refused(words[0], words[1], tmp_path / "empty", words[3])
    assert "no such folder" in refused(words[0], words[1], tmp_path / "nowhere", words[3])
    bad = imagenet_9 / "no_fg/val/01_bird/n02085621_8.JPEG"
    bad.write_bytes(b"")
    assert "no_fg/val/01_bird/n02085621_8.JPEG: not a readable image" in refused(*words)
    strange = imagenet_9 / "mixed_rand/val/09_tree"
    picture(strange / "x.JPEG", 1)
    assert "09_tree: not a class of ImageNet-9; class folders are called 00_dog to 08_fish" in refused(*words)
    shutil.rmtree(strange)
    picture(imagenet_9 / "original/val/00_dog/n02085620_7.png", 1)
    assert "n02085620_7.JPEG and 00_dog/n02085620_7.png are named after the same image" in refused(*words)
    for variation in RUNGS:
        shutil.rmtree(imagenet_9 / variation)
    assert "it has original but none of its variations" in refused(*words)


# -- ObjectNet ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def objectnet(tmp_path: Path) -> Path:
    """Three kinds as in the archive, red all around, two of which ILSVRC knows."""
    root = tmp_path / "objectnet-1.0"
    kinds = {"alarm_clock": "Alarm clock", "bicycle": "Bicycle", "air_freshener": "Air freshener"}
    for place, name in enumerate(kinds):
        path = picture(root / "images" / name / f"{place}.png", 10 * place + 5, (20, 16))
        pixels = np.asarray(Image.open(path)).copy()
        inside = pixels[2:-2, 2:-2].copy()
        pixels[:] = (255, 0, 0)
        pixels[2:-2, 2:-2] = inside
        Image.fromarray(pixels).save(path)
    (root / "mappings").mkdir()
    (root / "mappings/folder_to_objectnet_label.json").write_text(json.dumps(kinds))
    known = {
        "Alarm clock": "analog clock; digital clock",
        "Bicycle": "mountain bike, all-terrain bike, off-roader; bicycle-built-for-two, tandem bicycle, tandem",
    }
    (root / "mappings/objectnet_to_imagenet_1k.json").write_text(json.dumps(known))
    return root


def test_objectnet_loses_its_border_and_any_class_of_its_kind_is_right(objectnet: Path, tmp_path: Path) -> None:
    done = import_dataset("objectnet", objectnet, tmp_path / "set")
    data = folder.read(tmp_path / "set")
    assert data.digest() == done.dataset.digest()
    assert data.info.label_space.names == ("analog clock", "bicycle-built-for-two", "digital clock", "mountain bike")
    assert [data.labels_of(row) for row in range(2)] == [(0, 2), (1, 3)]
    assert data.frames.key.tolist() == ["alarm_clock/0.png", "bicycle/1.png"]
    assert (data.frames.width[0], data.frames.height[0]) == (16, 12)
    stored = np.asarray(Image.open(tmp_path / "set/media/bicycle/1.png"))
    assert (stored == (15, 7, 9)).all(), "no red is left"
    assert done.notes == ("1 image(s) of 1 folder(s) show no class of the map and were left out",)
    assert import_dataset("objectnet", objectnet, tmp_path / "set").notes[0] == "it already exists; nothing was changed"
    own = tmp_path / "map.csv"
    own.write_text("folder,label\nair_freshener,lighter\nair_freshener,n03916031\n")
    other = import_dataset("objectnet", objectnet, tmp_path / "own", options={"classes": own, "border": 0}).dataset
    assert other.info.label_space.names == ("lighter", "perfume")
    assert (other.frames.width[0], other.frames.height[0]) == (20, 16)
    bare = import_dataset("objectnet", objectnet, tmp_path / "bare", how=ImportOptions(media="none")).dataset
    assert bare.frames.key.tolist() == data.frames.key.tolist()


def test_what_is_no_objectnet_is_one_line(objectnet: Path, tmp_path: Path) -> None:
    words, own = ("import", "objectnet", objectnet, tmp_path / "out"), tmp_path / "map.csv"
    own.write_text("folder,label\nbicycle,unicycle of mine\n")
    assert "map.csv: line 2: unknown class of ilsvrc-2012 'unicycle of mine'" in refused(*words, "--map", own)
    own.write_text("folder\nbicycle\n")
    assert "line 2: expected the columns folder,label" in refused(*words, "--map", own)
    own.write_text("folder,label\nshoe,Loafer\n")
    assert "none of its folders (air_freshener, …) is in the map" in refused(*words, "--map", own)
    assert "--border: expected 0–64 pixels" in refused(*words, "--border", -1)
    assert "pixels has nothing left without its border" in refused(*words, "--border", 8)
    (objectnet / "images/bicycle/1.png").write_bytes(b"x")
    assert "1.png: not a readable image" in refused(*words)
    plain = picture(objectnet / "images/bicycle/1.png", 3, (20, 16))
    assert "1 image(s) have no red border" in run(*words)
    assert plain.is_file()
    shutil.rmtree(objectnet / "mappings")
    with pytest.raises(StrobeError, match="the ILSVRC classes of its folders are unknown"):
        import_dataset("objectnet", objectnet, tmp_path / "none")


# -- how they are scored -----------------------------------------------------------------------------------------------


def results_of(run_folder: Path) -> dict:
    return json.loads((run_folder / "results.json").read_text())


def test_imagenet_a_is_scored_among_200_classes_and_among_1000_beside_it(imagenet_a: Path, tmp_path: Path) -> None:
    """The best of 1,000 is a grey fox, which is none of the 200: right 200-way, wrong 1000-way; kept in the run."""
    import_dataset("imagenet-a", imagenet_a, tmp_path / "a")
    data, every = folder.read(tmp_path / "a"), space("ilsvrc-2012")
    scores = np.full((4, 1000), -1.0)
    for row, best, second in ((0, RAY, DOG), (1, FOX, RAY), (2, FOX, RAY), (3, DOG, RAY)):
        scores[row, every.index(best)], scores[row, every.index(second)] = 2.0, 1.0
    (tmp_path / "scores.json").write_text(json.dumps(dict(zip(data.frames.key, scores.tolist(), strict=True))))
    said = run("score", tmp_path / "a", "-m", f"preds:{tmp_path / 'scores.json'}", "-o", tmp_path / "run", "-q")
    assert "among the 200 classes of the data" in said
    assert "among all 1,000 of the model" in said
    first = results_of(tmp_path / "run")["models"]["scores"]
    assert first["acc_orig"]["count"] == 3
    found = first["all_classes"]
    assert (found["source"], found["n_own"], found["n_all"]) == ("ilsvrc-2012", 200, 1000)
    assert [(one["variant"], one["own"]["count"], one["all"]["count"]) for one in found["pictures"]] == [
        ("anchor", 3, 2)
    ]
    assert (tmp_path / "run/tables/all_classes.csv").is_file()
    run("score", tmp_path / "run", "-q")
    assert results_of(tmp_path / "run")["models"]["scores"] == first
    run("report", tmp_path / "run", "-q")
    page = (tmp_path / "run/report.html").read_text()
    assert "if it chooses among all its 1,000 classes" in page
    assert "EfficientNet-B7 as a detector 53.95 %" in page


NINE = """
import numpy as np
from strobe.core.labels import space
from strobe.formats.import_photos import PhotoFiles

def make():
    every = space("ilsvrc-2012")
    jeep, golfcart, dog = (every.index(name) for name in ("n03594945", "n03445924", "n02085620"))

    def scores(images):
        out = np.full((len(images), 1000), -5.0, dtype=np.float32)
        for row, image in enumerate(images):
            level = int(image[0, 0, 0])  # 20 for mixed_same, 40 for mixed_rand, … and the number of the image
            out[row, dog] = 1.0 if level % 20 == 0 else -9.0
            out[row, jeep] = 0.5
            out[row, golfcart] = 2.0 if 30 < level < 50 and level % 20 == 2 else -5.0
        return out

    return scores, every
"""


def test_imagenet_9_is_scored_by_its_authors_protocol(tmp_path: Path, imagenet_9: Path) -> None:
    """A vehicle on another ground is called a golfcart, which is none of the nine: outside and wrong, by the shards of
    a model that was run, by a file of its scores, and by one of its classes alike; the best child would be right."""
    for path in imagenet_9.rglob("*.JPEG"):  # without loss: the model reads the grey level
        place, number = int(path.parent.name[:2]), ["original", *RUNGS].index(path.parents[2].name)
        picture(path.with_suffix(".png"), 20 * number + place)
        path.unlink()
    import_dataset("imagenet-9", imagenet_9, tmp_path / "in9")
    (tmp_path / "nine.py").write_text(NINE)
    data = folder.read(tmp_path / "in9")
    every = space("ilsvrc-2012")
    best = {}
    for key in data.frames.key.tolist():
        place = int(key.split("/")[1][:2])
        golf = key.startswith("mixed_rand") and place == 2
        best[key] = "n02085620" if place == 0 else "n03445924" if golf else "n03594945"
    (tmp_path / "classes.json").write_text(json.dumps(best))
    scores = {key: [2.0 if name == wnid else 1.0 if name == "n03594945" else -5.0 for name in every.ids]
              for key, wnid in best.items()}  # fmt: skip
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    models = (f"nine=py:{tmp_path / 'nine.py'}:make", f"preds:{tmp_path / 'scores.json'}")
    words = [word for model in (*models, f"preds:{tmp_path / 'classes.json'}") for word in ("-m", model)]
    run("eval", tmp_path / "in9", *words, "-o", tmp_path / "run", "--no-report", "-q", "--device", "cpu")
    found = results_of(tmp_path / "run")
    for name in ("nine", "scores", "classes"):
        model = found["models"][name]
        right = {one["variant"]: one["levels"][0]["at"]["count"] for one in model["variants"]}
        assert right == {
            "same": 2, "other": 1, "next": 2, "object": 2, "removed": 2, "ground": 2, "box": 2
        }, name  # fmt: skip
    assert "ResNet-50 95.6 / 86.2 / 78.9 / 7.3" in printed_on(found["dataset"]["name"])
    gap = [one for one in found["contrasts"] if (one["a"], one["b"], one["held"]) == ("same", "other", "nine")]
    assert gap[0]["value"]["value"] == pytest.approx(1 / 3), "BG-Gap"
    with pytest.raises(AssertionError, match="uses the model's best class"):
        run("eval", tmp_path / "in9", "-m", models[0], "-o", tmp_path / "other", "--merge", "mean", "-q")


def test_crops_of_other_classes_have_the_folders_own_names(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        picture(tmp_path / "whole" / name / "a.png", 1, (30, 20))
        picture(tmp_path / "crops" / name / "a.png", 1, (9, 9))
    import_dataset("photos", tmp_path / "whole", tmp_path / "photos", files=PhotoFiles())
    done = import_dataset(
        "imagenet-a-plus", tmp_path / "crops", tmp_path / "set", options={"originals": tmp_path / "photos"}
    )
    assert done.dataset.info.label_space.names == ("cat", "dog")
