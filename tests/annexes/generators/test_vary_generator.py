"""`strobe vary generator` from drawing to report, on a small generator of colours and nets that know them."""

import json
import math
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.annexes.generators import record as generator_record
from strobe.annexes.generators.restarts import RestartRatios
from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
from strobe.cli.main import main
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.inspect import inspect, lines

CPU = LoadOptions(device="cpu", batch_size=6)
SIDE = 8
WANTED = VaryGeneratorOptions(images=6, steps=40, strips=2, scale_images=60, most=4.0)
DYING = """
import os, signal
from pathlib import Path
from strobe.models.options import LoadOptions
from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator

many, rename = 0, os.replace


def dying(*said):
    global many
    many += 1
    if many == 150:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*said)


os.replace = dying
vary_generator(Path({out!r}), {generator!r}, {nets!r}, {wanted!r}, load={load!r})
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generator") / "paint.py"
    shutil.copy(Path(__file__).with_name("made_paint.py"), path)
    return path


def paint(file: Path, name: str = "paint") -> str:
    return f"py:{file}:{name}"


def nets(file: Path, *names: str) -> list[str]:
    return [f"{name}=py:{file}:{name}" for name in names or ("make", "other")]


@pytest.fixture(scope="module")
def searched(file: Path) -> Path:
    out = file.parent / "out"
    vary_generator(out, paint(file), nets(file), WANTED, load=CPU)
    return out


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def reach(data: Dataset, variant: str) -> Any:
    assert data.variants is not None
    mine = data.sets.variant == data.variants.variant.tolist().index(variant)
    return np.where(data.sets.status[mine] == "found", data.sets.reach[mine], np.inf)


def test_the_folder_says_everything(searched: Path) -> None:
    data = folder.read(searched)
    assert data.variants is not None
    words = ("latent", "coarse", "fine", "pixel")
    plain = [f"{word}/{net}" for net in ("make", "other") for word in words]
    assert data.variants.variant.tolist()[:8] == plain
    assert {one.variant: one.role for one in data.variants if one.role != "same"} == {
        f"{name}/{kind}": role for name in plain for kind, role in (("random", "control"), ("between", "shown"))
    }
    assert (data.info.axis, data.info.k, data.info.label_source) == ("magnitude", 25, "anchor")
    assert len(data.videos) == 6, "one latent, one source"
    assert set(data.videos.kind) == {"generated"}
    assert data.frames.as_input.all()
    same = data.variants.is_same[data.sets.variant]
    assert same.sum() == 6 * 8, "what was not found is kept"
    assert len(set(data.sets.group.tolist())) == 6
    for one in list(data.variants)[:8]:
        assert one.target is not None
        assert len(one.target.weights) == 64
        assert one.levels[-1] == pytest.approx(4.0 * math.sqrt(one.fields["neurons"]))
        assert {"granularity", "layers", "search", "aim", "steps", "margin", "seed", "scale"} <= set(one.fields)
    neurons = {one.fields["granularity"]: one.fields["neurons"] for one in data.variants}
    assert neurons == {"latent": 4, "coarse": 32, "fine": 5 * 16, "pixel": 3 * SIDE * SIDE}, "a still neuron is not one"
    accepted = data.info.provenance["accepted"]
    assert accepted["drawn"] >= accepted["accepted"] == 6
    assert not (searched / ".generator-search").exists()
    told = next(one for one in lines(inspect(searched)) if one.startswith("  coarse/make:"))
    assert told.endswith(" to 22.6 std in 25 levels, against make; 6 found"), "not each of the levels"


def test_restarts_only_make_findings_smaller_and_the_ratio_after_each_is_kept(searched: Path) -> None:
    record, data = generator_record.read_record(searched), folder.read(searched)
    both = {}
    for row in record:
        if row["status"] not in ("found", "censored"):
            continue
        assert len(row["after"]) == 4, "three restarts by default"
        assert row["after"] == sorted(row["after"], reverse=True)
        assert row["after"][-1] == pytest.approx(row["magnitude"], rel=1e-3)
        both[row["variant"], row["source"]] = row["after"]
    kept = data.info.provenance["restarts"]
    assert [one["granularity"] for one in kept] == ["latent", "coarse", "fine", "pixel"]
    for one in kept:
        word = one["granularity"]
        pairs = [
            (both[f"{word}/other", row], both[f"{word}/make", row])
            for row in range(6)
            if (f"{word}/other", row) in both and (f"{word}/make", row) in both
        ]
        plain = [sorted(a[n] / b[n] for a, b in pairs) for n in range(4)]
        middle = [(part[(len(part) - 1) // 2] + part[len(part) // 2]) / 2 for part in plain]
        assert one["values"] == pytest.approx(middle)


def test_a_ratio_that_still_moves_is_not_settled() -> None:
    moves = RestartRatios(granularity="fine", of="robust", over="standard", values=(1.81, 1.6, 1.38))
    line = "fine: robust ÷ standard after 0 to 2 restarts: 1.81, 1.6, 1.38"
    assert moves.text() == f"{line}; not settled: the last restart moved it by 14%, try --restarts 4"
    assert "not settled" not in replace(moves, values=(1.81, 1.4, 1.38)).text()


def test_what_is_found_is_made_again_to_the_pixel_and_within_its_bound(searched: Path) -> None:
    data, record = folder.read(searched), generator_record.read_record(searched)
    again = generator_record.made_again(searched, load=CPU)
    found = [row for row in record if row["status"] == "found"]
    assert len(found) > 30
    assert set(again) == {row["set_id"] for row in found}
    source, stored = MediaSource(data), {one.set_id: one for one in data}
    ids = {frame: row for row, frame in enumerate(data.frame_ids())}
    scale = generator_record.stored_scale(searched / "generator")
    still = (scale[2] == 0).reshape(-1)
    assert still.sum() == 16
    for row in found:
        one = stored[row["set_id"]]
        (member,) = one.members
        assert (again[row["set_id"]] == source.read(ids[member.frame.id])).all()
        change = np.load(searched / row["change"]).astype(np.float64)
        size = math.sqrt(np.square(change).sum())
        assert size == pytest.approx(one.reach, rel=1e-9)
        assert row["rms"] == pytest.approx(size / math.sqrt(row["neurons"]))
        assert member.distance == one.reach
        assert one.margin is not None
        assert one.margin >= 0.01
        if row["variant"].startswith("fine/"):
            assert not change[still].any(), "what never varies is not changed"
    few = generator_record.made_again(searched, set_ids=[found[0]["set_id"]], load=CPU)
    assert list(few) == [found[0]["set_id"]]


def test_a_random_direction_needs_more_than_the_search(searched: Path) -> None:
    data, record = folder.read(searched), generator_record.read_record(searched)
    assert data.variants is not None
    for one in data.variants:
        if one.role != "same":
            continue
        rows = [row for row in record if row["variant"] == one.variant and row["status"] == "found"]
        chance = [math.inf if row["random_reach"] is None else row["random_reach"] for row in rows]
        assert np.median(chance) > np.median([row["magnitude"] for row in rows])
        assert np.mean([row["random_fooled"] for row in rows]) < 0.5
        control = data.sets.variant == data.variants.variant.tolist().index(f"{one.variant}/random")
        assert control.sum() == len(rows)
        levels = data.sets.distance[~data.sets.is_anchor & control[data.sets.set]]
        np.testing.assert_allclose(np.sort(levels), np.sort([row["magnitude"] for row in rows]))


def test_the_same_command_finds_it_there_and_a_killed_one_ends_in_the_same_folder(searched: Path, file: Path) -> None:
    before = tree(searched)
    assert vary_generator(searched, paint(file), nets(file), WANTED, load=CPU).was_there
    assert tree(searched) == before
    out = file.parent / "killed" / "out"
    script = DYING.format(out=str(out), generator=paint(file), nets=nets(file), wanted=WANTED, load=CPU)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not folder.is_dataset(out)
    records = len(list((out / ".generator-search").glob("*.json")))
    assert 1 < records < 9, "some batches are done, not all eight"
    assert list(out.rglob("media/*/*.png")), "and the next was being written"
    with pytest.raises(StrobeError, match="unfinished generator-search with other settings"):
        vary_generator(out, paint(file), nets(file), replace(WANTED, margin=0.02), load=CPU)
    for name in ("latents.npy", "scale.npz", "sources.json"):
        whole = (out / "generator" / name).read_bytes()
        for damaged in (b"", whole[: len(whole) // 2]):
            (out / "generator" / name).write_bytes(damaged)
            with pytest.raises(StrobeError) as caught:
                vary_generator(out, paint(file), nets(file), WANTED, load=CPU)
            assert name in str(caught.value)
            assert "\n" not in str(caught.value)
        (out / "generator" / name).write_bytes(whole)
    vary_generator(out, paint(file), nets(file), WANTED, load=CPU)
    assert tree(out) == before


def test_eval_gives_survival_reproduced_and_who_else_is_fooled(searched: Path, file: Path) -> None:
    run = file.parent / "run"
    words = [word for net in nets(file) for word in ("-m", net)]
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(searched), *words, "-o", str(run), "-q", "--no-report", "--device", "cpu"])
    assert not ended.value.code
    results, data = json.loads((run / "results.json").read_text()), folder.read(searched)
    for search in results["searches"]:
        alive = [level["alive"]["value"] for level in search["levels"] if level["alive"]["value"] is not None]
        assert alive == sorted(alive, reverse=True)
        assert alive[0] == 1.0
        found = int(np.isfinite(reach(data, search["variant"])).sum())
        assert search["found"] == found
        assert search["found"] + search["censored"] + search["anchor_wrong"] + search["failed"] == 6
        target = search["variant"].split("/")[1]
        for name, model in results["models"].items():
            one = next(one for one in model["variants"] if one["variant"] == search["variant"])
            if name == target and found:
                assert one["reproduced"]["value"] == 1.0, "on the device that searched"
                assert one["reproduced"]["n"] == found
            elif found:
                assert one["fooled"]["n"] <= found


def test_alone_and_in_a_batch_the_same_magnitudes(searched: Path, file: Path) -> None:
    alone = file.parent / "alone"
    wanted = replace(WANTED, granularity=("coarse",))
    vary_generator(alone, paint(file), nets(file)[:1], wanted, load=replace(CPU, batch_size=1))
    whole, single = folder.read(searched), folder.read(alone)
    np.testing.assert_allclose(reach(single, "coarse/make"), reach(whole, "coarse/make"), rtol=0.02)


class Counting(Silent):
    """How far each task came, step by step."""

    def __init__(self) -> None:
        self.came: dict[str, list[int]] = {}
        self.total: dict[str, int | None] = {}

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        came = self.came.setdefault(label, [0])
        self.total[label] = total
        yield lambda units: came.append(came[-1] + units)


@pytest.mark.parametrize("how", [{}, {"search": "reference"}, {"search": "budget", "budget": (0.001, 0.002)}])
def test_one_hears_of_a_batch_while_it_is_searched(file: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    say, wanted = Counting(), replace(WANTED, granularity=("fine",), most=None if "budget" in how else 0.001, **how)
    vary_generator(tmp_path / "new", paint(file), nets(file)[:1], wanted, load=replace(CPU, batch_size=4), progress=say)
    came = say.came["search fine/make"]
    assert came == sorted(came), "never back"
    assert came[-1] == say.total["search fine/make"] == 6
    assert {1, 2, 3} & set(came), "before the first batch, of four, is done"
    assert 4 in came


def test_searches_aims_and_layers(searched: Path, file: Path, tmp_path: Path) -> None:
    base, net = folder.read(searched), nets(file)[:1]
    wanted = replace(WANTED, granularity=("fine",))
    slow = vary_generator(
        tmp_path / "a", paint(file), nets(file), replace(wanted, search="reference", steps=300), load=CPU
    )
    assert np.median(reach(base, "fine/make")) <= np.median(reach(slow.dataset, "fine/make"))
    balls = (0.05, 0.4, 1.5)
    fixed = vary_generator(
        tmp_path / "b", paint(file), nets(file), replace(wanted, search="budget", most=None, budget=balls, restarts=1),
        load=CPU,
    ).dataset  # fmt: skip
    assert fixed.variants is not None
    levels = fixed.variants[0].levels
    assert levels == pytest.approx([ball * math.sqrt(80) for ball in balls])
    found = reach(fixed, "fine/make")
    assert np.isfinite(found).any()
    assert (found[np.isfinite(found)] <= levels[-1]).all()
    censored = fixed.sets.status == "censored"
    assert np.isclose(fixed.sets.reach[censored], levels[-1]).all()
    aimed = vary_generator(
        tmp_path / "c", paint(file), net, replace(wanted, aim="green", granularity=("layer:1", "all")), load=CPU
    ).dataset
    assert aimed.variants is not None
    assert aimed.variants.variant.tolist()[:2] == ["layer:1/make", "all/make"]
    assert aimed.variants[1].fields["layers"] == ["latent", "shape", "form", "image"]
    assert "green" not in {str(group).split("/")[0] for group in aimed.sets.group}, "what it is already is not aimed at"
    second = vary_generator(
        tmp_path / "d", paint(file), net, replace(wanted, aim="runner-up", restarts=1, changes=False), load=CPU
    )
    assert second.tally()["fine/make"]["found"] > 0
    assert not (tmp_path / "d/generator/changes").exists()
    few = vary_generator(tmp_path / "e", paint(file), net, replace(wanted, most=0.001), load=CPU)
    assert few.tally()["fine/make"] == {"found": 0, "censored": 6, "anchor_wrong": 0, "failed": 0}


def test_a_search_that_found_nothing_is_told_how_to_search_harder(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vary", "generator", "", "--generator", paint(file), "-m", nets(file)[0], "-q",
             "--granularity", "fine", "--images", "6", "--steps", "20", "--device", "cpu"]  # fmt: skip
    for most, hinted in (("0.001", True), ("2", False)):
        with pytest.raises(SystemExit) as ended:
            main([*words[:2], str(tmp_path / most), *words[3:], "--most", most])
        assert not ended.value.code
        assert ("--restarts 3 --steps 240" in capsys.readouterr().out) is hinted


def test_a_finding_that_does_not_survive_being_read_back_is_none(file: Path, tmp_path: Path) -> None:
    done = vary_generator(
        tmp_path / "sly", paint(file), nets(file, "sly"), replace(WANTED, granularity=("pixel",)), load=CPU
    )
    tally = done.tally()["pixel/sly"]
    assert tally["failed"] + tally["anchor_wrong"] > 0
    stored = {str(path.relative_to(tmp_path / "sly")) for path in (tmp_path / "sly/media").rglob("*.png")}
    assert stored == set(done.dataset.frames.media.tolist()), "no image without a row"


def test_a_class_aimed_at_has_to_be_the_answer_when_read_back(file: Path, tmp_path: Path) -> None:
    wanted = replace(WANTED, granularity=("pixel",), classes=("red",))
    plain = vary_generator(tmp_path / "any", paint(file), nets(file, "shifty"), wanted, load=CPU)
    assert plain.tally()["pixel/shifty"]["found"] == 6, "any wrong answer"
    for aim in ("green", "runner-up"):
        aimed = vary_generator(
            tmp_path / aim, paint(file), nets(file, "shifty"), replace(wanted, aim=aim), load=CPU
        ).tally()["pixel/shifty"]
        assert aimed["failed"] > 0
        assert aim != "green" or aimed["failed"] == 6, "blue is wrong, and is not green"


def test_scores_that_are_no_numbers_end_a_search_and_drop_nothing(file: Path, tmp_path: Path, heard: Any) -> None:
    wanted = replace(WANTED, granularity=("pixel", "fine"), restarts=1)
    done = vary_generator(
        tmp_path / "nan", paint(file), nets(file, "make", "fraying", "lost"), wanted, load=CPU, progress=heard
    )
    tally = done.tally()
    assert tally["pixel/fraying"] == {"found": 0, "censored": 6, "anchor_wrong": 0, "failed": 0}
    assert tally["pixel/lost"] == {"found": 0, "censored": 0, "anchor_wrong": 0, "failed": 6}, "from the very start"
    sets = done.dataset.sets
    assert done.dataset.variants is not None
    rows = {name: sets.variant == row for row, name in enumerate(done.dataset.variants.variant.tolist())}
    held, found = sets.reach[rows["pixel/fraying"]], reach(done.dataset, "pixel/make")
    assert (held > 0).all()
    assert (held < found).all(), "it never came as far as where the same net errs"
    assert sum("not numbers" in one for one in heard.lines) == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"granularity": ("middle",)}, "unknown granularity of"),
        ({"granularity": ("layer:9",)}, "layer:0 … layer:3"),
        ({"granularity": ("fine", "fine")}, "each granularity once"),
        ({"classes": ("purple",)}, "unknown class of colours 'purple'; its classes: red, green, blue"),
        ({"classes": ("red", "blue", "red")}, "--classes: expected each class once"),
        ({"aim": "purple"}, "unknown class of colours 'purple'"),
        ({"aim": "red", "classes": ("red",)}, "every image is already of that class"),
        ({"budget": (0.1,)}, "must be used together"),
        ({"search": "budget", "most": None}, "must be used together"),
        ({"search": "budget", "budget": (0.2, 0.1), "most": None}, "ascending"),
        ({"search": "budget", "budget": (0.2,)}, "remove --most"),
        ({"most": -1.0}, "--most"),
        ({"most": 0.0}, "--most: expected above 0"),
        ({"most": float("nan")}, "--most"),
        ({"search": "budget", "budget": (1.0, 1e308), "most": None}, "--budget: .*at most 1,000,000"),
        ({"images": 0}, "--images"),
        ({"steps": 0}, "steps"),
    ],
)
def test_a_search_nobody_can_mean_is_one_line(file: Path, tmp_path: Path, wanted: Any, said: str) -> None:
    with pytest.raises(StrobeError, match=said) as caught:
        vary_generator(tmp_path / "never", paint(file), nets(file)[:1], replace(WANTED, **wanted), load=CPU)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("generator", "net", "said"),
    [
        (
            "paint",
            "some",
            r"it has 2 of the generator's 3 classes \(colours\); blue is missing, for example; use a model",
        ),
        (
            "stranger",
            "make",
            r"it has none of the generator's 3 classes \(sounds\); dog is missing, for example; use a model",
        ),
        ("fragile", "make", "form returned values that are not finite"),
        ("paint", "contrary", "no image of .* is classified correctly by every model"),
        ("paint", "hungry", "out of memory with a batch of 6; try --batch-size 3"),
        ("paint", "starving", "out of memory with a batch of 6; try --batch-size 3"),
        ("wide", "make", "returned torch.float64, expected torch.float32"),
    ],
)
def test_what_does_not_fit_together_is_one_line(
    file: Path, tmp_path: Path, generator: str, net: str, said: str
) -> None:
    wanted = replace(WANTED, granularity=("pixel",))
    with pytest.raises(StrobeError, match=said) as caught:
        vary_generator(tmp_path / "never", paint(file, generator), nets(file, net), wanted, load=CPU)
    assert "\n" not in str(caught.value)
    begun = net == "hungry"  # what a smaller batch goes on with; nothing else stands in another command's way
    assert (tmp_path / "never").exists() is begun
    assert not folder.is_dataset(tmp_path / "never")


def test_the_command_says_what_came(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["vary", "generator", str(tmp_path / "said"), "--generator", paint(file), "-m", nets(file)[0], "--images",
             "3", "--granularity", "latent,pixel", "--steps", "20", "--scale-images", "9", "--device=cpu"]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    said = capsys.readouterr()
    assert "latent/make: " in said.out
    assert "said: 3 generated images, " in said.out
    assert "drawn; right by make" in said.err, "acceptance rates"
    for wrong in (["--budget", "x"], ["--search", "nosuch"], ["--generator", "nosuch"]):
        with pytest.raises(SystemExit) as ended:
            main([*words[:2], str(tmp_path / "never"), *words[3:], *wrong])
        assert ended.value.code == 2
    assert not (tmp_path / "never").exists()
