"""The commands that the fuzzer runs, of every verb, with their inputs relative to the case's folder."""

from collections.abc import Sequence
from functools import cache

from fuzz.command import Command
from fuzz.commands_options import running
from fuzz.commands_vary import varying
from fuzz.offered import is_offered, is_there

__all__ = ["commands"]

_DATASETS = (
    "video",
    "boxes",
    "votes",
    "severity",
    "anchor",
    "clips",
    "shaky",
    "world",
    "variants",
    "varied",
    "masked",
    "ladder",
    "changed",
    "reviewing",
    "reviewed",
    "boxing",
    "robust",
    "ytbb",
)
_RUNS = {
    "anchor-py": "anchor",
    "anchor-sum": "anchor",
    "boxes-coco": "boxes",
    "boxes-py": "boxes",
    "severity": "severity",
    "video-brought": "video",
    "video-part": "video",
    "video-py": "video",
    "votes": "votes",
    "new-video": "video",
    "new-boxes": "boxes",
    "new-early": "video",
    "new-variants": "variants",
}
_OTHER_RUNS = {"anchor-sum": "anchor-py", "boxes-coco": "boxes-py", "boxes-py": "boxes-coco"}
"""For runs of one model, the run to compare them with."""

_IMAGELESS = ("votes", "severity", "reference")
"""Datasets without stored images, which some formats need."""

_FORMS = ("coco", "csv", "imagenet-vid-robust", "fiftyone", "croissant", "huggingface", "card")
_FILES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("anchor", "anchor-ilsvrc.parquet", ("--space", "ilsvrc-2012")),
    ("boxes", "boxes-coco.json", ("--empty-frames",)),
    ("severity", "severity-a.json", ()),
    ("video", "video-labels.jsonl", ()),
    ("video", "video-logits.json", ()),
    ("video", "video-probabilities.csv", ()),
    ("video", "video-part.json", ("--allow-missing", "--ignore-extra", "--kind", "logits")),
    ("votes", "votes-logits.json", ()),
    ("votes", "votes-ilsvrc-labels.json", ("--space", "ilsvrc-2012")),
    ("variants", "variants.json", ()),
)
_QUICK = ("--bootstrap", "100", "-q")


@cache
def commands() -> tuple[Command, ...]:
    """Return all commands, in a fixed order."""
    every = (*_measuring(), *_making(), *varying(), *_importing(), *_reviewing(), *running())
    return tuple(one for one in every if is_offered(one.words) and is_there((*one.place, *one.aside, *one.words)))


def _measuring() -> list[Command]:
    out: list[Command] = []
    words: tuple[str, ...]
    place: tuple[str, ...]
    aside: tuple[str, ...]
    more: tuple[str, ...]
    laid: tuple[str, ...]
    for name in (*_DATASETS, "reference"):
        data = f"datasets/{name}"
        place = (data, "clips/b.mp4") if name == "reference" else (data,)
        out.append(Command(name=f"inspect {name}", words=("inspect", data), place=place))
        out.append(Command(name=f"view {name}", words=("view", data, "--json"), place=place, weight=0.5))
        if name not in ("votes", "severity"):
            sheet = ("inspect", data, "--sheet", "sheet.png", "--sets", "2", "--columns", "3", "-q")
            out.append(Command(name=f"sheet {name}", words=sheet, place=place, dest="sheet.png", weight=0.5))
        exports = {form: _exported(form, name) for form in _FORMS}
        out += [
            Command(name=f"export {form} {name}", words=exported, place=place, dest="out", weight=0.2)
            for form, exported in exports.items()
            if exported
        ]
    for data, file, more in _FILES:
        words = ("score", f"datasets/{data}", "-m", f"preds:inputs/{file}", "-o", "run", *_QUICK, *more)
        place = (f"datasets/{data}", f"inputs/{file}")
        out.append(
            Command(name=f"score {file}", words=words, place=place, dest="run", aside=(f"datasets/{data}",), weight=3)
        )
        out.append(Command(name=f"score {file} on damage", words=words, place=place, dest="run", weight=0.5))
    more = ("--types", "inputs/types.csv", "--subset", "inputs/subset.txt", "--allow-missing")
    words = ("score", "datasets/video", "-m", "preds:inputs/video-logits.json", "-o", "run", *_QUICK, *more)
    place = ("datasets/video", "inputs/video-logits.json", "inputs/types.csv", "inputs/subset.txt")
    out.append(Command(name="score side files", words=words, place=place, dest="run", aside=place[:2], weight=2))
    words = (*words[:1], "datasets/reviewed", *words[2:6], *_QUICK, "--compare-review")
    place = ("datasets/reviewed", "inputs/video-logits.json")
    out.append(Command(name="score review", words=words, place=place, dest="run", aside=place[1:]))
    words = ("score", "datasets/named", "-o", "run", *_QUICK)
    out.append(Command(name="score people alone", words=words, place=("datasets/named",), dest="run"))
    for held, data in _RUNS.items():
        place = (f"runs/{held}", f"datasets/{data}", "models.py")
        aside = (f"datasets/{data}", "models.py")
        words = ("view", f"runs/{held}", f"datasets/{data}", "--list")
        out.append(Command(name=f"view run {held}", words=words, place=place, aside=aside))
        for verb, more, weight in (
            ("score", _QUICK, 1.5),
            ("report", ("-q", "--gallery", "2"), 0.4),
            ("compare", ("-q",), 0.8),
        ):
            if verb == "compare" and held in ("new-variants", "video-part"):
                continue  # these have one model, and no other run has their dataset or all their frames
            words, laid = (verb, f"runs/{held}", *more), place
            if held == "video-part":  # it was scored on a subset, with frames missing
                missing = ("--allow-missing",) if verb == "score" else ()
                words, laid = (*words, "--subset", "inputs/subset.txt", *missing), (*place, "inputs/subset.txt")
            if verb == "compare" and held in _OTHER_RUNS:
                other = f"runs/{_OTHER_RUNS[held]}"
                words, laid = (*words[:2], other, *words[2:]), (*laid, other)
            dest = None if verb == "compare" else f"runs/{held}"
            out.append(
                Command(name=f"{verb} run {held}", words=words, place=laid, dest=dest, aside=aside, weight=weight)
            )
    aside = ("datasets/video", "datasets/boxes", "models.py")
    for held, data, rules in (
        ("new-video", "video", ("-m", "third", "--baseline", "py:models.py:logits", "--max-loss", "acc_pmk=1")),
        ("new-boxes", "boxes", ("-m", "py:models.py:blobs", "--min", "map_pmk=10")),
    ):
        place = (f"runs/{held}", f"datasets/{data}", "models.py")
        words = ("gate", f"runs/{held}", *rules, "-o", "out", "-q")
        out.append(Command(name=f"gate {held}", words=words, place=place, dest="out", aside=aside))
    place = ("runs/new-video", "runs/video-py", "datasets/video", "models.py")
    words = ("history", "runs/video-py", "runs/new-video", "-q")
    out.append(Command(name="history", words=words, place=place, aside=aside))
    place = ("runs/new-video", "runs/new-boxes", "runs/severity")
    words = ("export", *place, "leaderboard", "out")
    out.append(Command(name="leaderboard", words=words, place=place, dest="out", weight=2))
    for form in ("latex", "figures"):
        words = ("export", "runs/severity", form, "out", *(("-q",) if form == "figures" else ()))
        out.append(Command(name=f"export {form}", words=words, place=("runs/severity",), dest="out"))
    for data, model, run in (
        ("video", "logits", "new-video"),
        ("boxes", "blobs", "new-boxes"),
        ("anchor", "animals", None),
    ):
        words = ("predict", f"datasets/{data}", "-m", f"py:models.py:{model}", "-o", "runs/x", "-q", "--workers", "1")
        place = (f"datasets/{data}", "models.py")
        out.append(Command(name=f"predict {data}", words=words, place=place, dest="runs/x", aside=("models.py",)))
        if run:
            again = ("eval", *words[1:5], f"runs/{run}", *words[6:], "--no-report", "--bootstrap", "100")
            place = (*place, f"runs/{run}")
            aside = (f"datasets/{data}", "models.py")
            out.append(
                Command(name=f"eval into {run}", words=again, place=place, dest=f"runs/{run}", aside=aside, weight=1.5)
            )
    two = (
        "-m", "det=preds:inputs/boxes-coco.json", "--empty-frames", "-m", "boxes-sum:det",
        "-m", "boxes-all:py:models.py:blobs",
        "-m", "crop:det,without=outside:py:models.py:logits",
        "-m", "wide=crop:truth,context=1.5,fit=pad:py:models.py:logits",
    )  # fmt: skip
    words = ("eval", "datasets/boxes", *two, "-o", "run", "--no-report", "--bootstrap", "100", "--device", "cpu", "-q")
    place = ("datasets/boxes", "inputs/boxes-coco.json", "models.py")
    out.append(Command(name="eval two models", words=words, place=place, dest="run", aside=("models.py",), weight=2))
    words = ("eval", "clips", "-m", "py:models.py:logits", "-o", "run", "--k", "1", "--workers", "1", *words[-6:])
    out.append(Command(name="eval videos", words=words, place=("clips", "models.py"), dest="run", aside=("models.py",)))
    for held in ("new-video", "new-boxes", "new-variants", "severity"):
        place = (f"runs/{held}", f"datasets/{_RUNS[held]}")
        parts = ("predictions", "external", "frames", "tables", "run.json")
        aside = (place[1], *(f"runs/{held}/{part}" for part in parts))
        words = ("report", f"runs/{held}", "-q", "--gallery", "1")
        out.append(
            Command(
                name=f"report results {held}", words=words, place=place, dest=f"runs/{held}", aside=aside, weight=0.5
            )
        )
    words = ("predict", "datasets/video", "-m", "onnx:weights/net.onnx", "-o", "runs/x", "-q", "--workers", "1")
    place = ("datasets/video", "weights")
    out.append(
        Command(name="predict onnx", words=words, place=place, dest="runs/x", aside=("datasets/video",), weight=2)
    )
    words = (
        "predict",
        "datasets/video",
        "-m",
        "@inputs/models.toml",
        "-o",
        "runs/x",
        "-q",
        "--workers",
        "1",
        "--trust",
    )
    place = ("datasets/video", "inputs/models.toml", "models.py")
    out.append(Command(name="predict list", words=words, place=place, dest="runs/x", aside=(place[0], place[2])))
    out.append(Command(name="models", words=("models", "--json", "--testbed"), place=(), weight=0.1))
    return out


def _exported(form: str, name: str) -> tuple[str, ...]:
    """Return the command that exports a dataset, or nothing if the format cannot hold it."""
    rendered = name in ("varied", "ladder")
    if form == "imagenet-vid-robust" and name not in ("votes", "robust"):
        return ()  # it has other classes
    if (form == "fiftyone" and (rendered or name in _IMAGELESS)) or (form == "huggingface" and name in _IMAGELESS[:2]):
        return ()  # these formats need images
    bare = name in _IMAGELESS or (rendered and form == "coco")
    media = () if form in ("huggingface", "card") else ("--media", "none" if bare else "copy")
    return ("export", f"datasets/{name}", form, "out", *media, "-q")


def _making() -> list[Command]:
    words: tuple[str, ...]
    place: tuple[str, ...]
    more: tuple[str, ...]
    few = ("--k", "2", "--seed", "1", "-q", "--workers", "1")
    clips = ("clips/a.mp4", "clips/b.mp4", "clips/c.mkv", "clips/d.avi")
    out = []
    for clip in (*clips, "clips/e.webp"):
        words = ("build", clip, "out", "--label", "dog", *few)
        out.append(Command(name=f"build {clip}", words=words, place=(clip,), dest="out"))
    side = ("clips/labels.csv", "clips/anchors.csv", "clips/boxes.csv")
    words = ("build", *clips, "out", "--labels", side[0], *few)
    out.append(Command(name="build labels", words=words, place=(*clips, side[0]), dest="out", aside=clips, weight=1.5))
    words = ("build", *clips[:2], "out", "--boxes", side[2], "--anchors", side[1], *few[2:], "--k", "2")
    out.append(
        Command(name="build boxes", words=words, place=(*clips[:2], *side[1:]), dest="out", aside=clips, weight=1.5)
    )
    for name, clip, more in (
        ("clips", "clips/a.mp4", ("--label", "dog")),
        ("reference", "clips/b.mp4", ("--label", "cat", "--reference")),
    ):
        words = ("build", clip, f"datasets/{name}", *more, "--k", "2", "-q", "--workers", "1")
        place = (clip, f"datasets/{name}")
        out.append(
            Command(name=f"build again {name}", words=words, place=place, dest=f"datasets/{name}", aside=(clip,))
        )
    camera = ("--k", "1", "--size", "24", "-q", "--workers", "1")
    words = ("simulate", "photos/in", "out", *camera)
    out.append(Command(name="simulate", words=words, place=("photos/in",), dest="out", weight=1.5))
    more = ("--labels", "photos/labels.csv", "--masks", "photos/masks")
    out.append(
        Command(name="simulate masks", words=(*words, *more), place=("photos",), dest="out", aside=("photos/in",))
    )
    more = ("--boxes", "photos/boxes.csv")
    out.append(
        Command(name="simulate boxes", words=(*words, *more), place=("photos",), dest="out", aside=("photos/in",))
    )
    words = ("simulate", "photos/in", "datasets/shaky", *camera)
    place = ("photos/in", "datasets/shaky")
    out.append(Command(name="simulate again", words=words, place=place, dest="datasets/shaky", aside=("photos/in",)))
    words = ("synthesize", "datasets/world", "--videos", "3", "--size", "32", "--k", "1", "-q")
    out.append(Command(name="synthesize again", words=words, place=("datasets/world",), dest="datasets/world"))
    words = (
        "synthesize",
        "out",
        "--videos",
        "2",
        "--size",
        "32",
        "--k",
        "1",
        "--objects",
        "1-2",
        "--motion",
        "1",
        "--blur",
        "0.5",
        "--lighting",
        "1",
        "--noise",
        "1",
        "--background-correlation",
        "0.5",
        "--max-occlusion",
        "0.6",
        "--seed",
        "0",
    )
    out.append(Command(name="synthesize", words=words, place=(), dest="out", weight=0.5))
    return out


def _importing() -> list[Command]:
    root = "releases"
    table: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
        ("imagenet-vid-robust", (f"{root}/vid-robust", "out"), (f"{root}/vid-robust",)),
        (
            "imagenet-vid-robust",
            (f"{root}/vid-robust", "out", "--annotations", f"{root}/vid-robust/ILSVRC"),
            (f"{root}/vid-robust",),
        ),
        ("ytbb-robust", (f"{root}/ytbb-robust", "out"), (f"{root}/ytbb-robust",)),
        (
            "ytbb-robust",
            (f"{root}/ytbb-robust", "out", "--annotations", f"{root}/ytbb-robust/yt_bb.csv"),
            (f"{root}/ytbb-robust",),
        ),
        ("imagenet-vid", (f"{root}/imagenet-vid", "out", "--k", "1", "--seed", "0"), (f"{root}/imagenet-vid",)),
        ("youtube-bb", (f"{root}/youtube-bb", "out", "--k", "1", "--seed", "0"), (f"{root}/youtube-bb",)),
        (
            "youtube-bb",
            (
                f"{root}/youtube-bb/yt_bb.csv",
                "out",
                "--videos",
                f"{root}/youtube-bb/videos",
                "--anchors",
                f"{root}/anchors.csv",
                "--k",
                "1",
            ),
            (f"{root}/youtube-bb", f"{root}/anchors.csv"),
        ),
        ("coco-vid", (f"{root}/coco-vid/ann.json", "out", "--k", "1", "--hints"), (f"{root}/coco-vid",)),
        ("photos", ("photos/in", "out", "--labels", "photos/labels.csv"), ("photos/in", "photos/labels.csv")),
        ("photos", ("photos/in", "out", "--boxes", "photos/boxes.csv"), ("photos/in", "photos/boxes.csv")),
        ("photos", (f"{root}/ilsvrc", "out"), (f"{root}/ilsvrc",)),
        ("photos", (f"{root}/devkit", "out"), (f"{root}/devkit",)),
        (
            "imagenet-c",
            (f"{root}/imagenet-c/c", "out", "--clean", f"{root}/imagenet-c/clean", "--severity", "1-2"),
            (f"{root}/imagenet-c",),
        ),
        (
            "imagenet-c",
            (f"{root}/imagenet-c/npy", "out", "--clean", f"{root}/imagenet-c/clean.npy"),
            (f"{root}/imagenet-c",),
        ),
        ("imagenet-a", (f"{root}/imagenet-a", "out"), (f"{root}/imagenet-a",)),
        (
            "imagenet-a-plus",
            (f"{root}/imagenet-a-plus", "out", "--originals", f"{root}/imagenet-a"),
            (f"{root}/imagenet-a-plus", f"{root}/imagenet-a"),
        ),
        (
            "imagenet-a-plus",
            (f"{root}/crops", "out", "--originals", f"{root}/imagenet-a", "--label-space", "ilsvrc-2012"),
            (f"{root}/crops", f"{root}/imagenet-a"),
        ),
        ("imagenet-9", (f"{root}/imagenet-9", "out"), (f"{root}/imagenet-9",)),
        ("objectnet", (f"{root}/objectnet", "out"), (f"{root}/objectnet",)),
        (
            "objectnet",
            (f"{root}/objectnet/images", "out", "--map", f"{root}/objectnet.csv", "--border", "1"),
            (f"{root}/objectnet", f"{root}/objectnet.csv"),
        ),
        ("trials", (f"{root}/trials/csv", "out"), (f"{root}/trials/csv",)),
        ("trials", (f"{root}/trials/csv", "out", "--images", f"{root}/trials/images"), (f"{root}/trials",)),
        ("frames", (f"{root}/frames/in", "out", "--k", "1", "--fps", "25"), (f"{root}/frames",)),
        (
            "frames",
            (
                f"{root}/frames/in",
                "out",
                "--boxes",
                f"{root}/frames/boxes.csv",
                "--anchors",
                f"{root}/frames/anchors.csv",
                "--k",
                "1",
            ),
            (f"{root}/frames",),
        ),
    )
    return [
        Command(
            name=f"import {form} {number}", words=("import", form, *words, "-q"), place=place, dest="out", weight=1.3
        )
        for number, (form, words, place) in enumerate(table)
    ]


def _reviewing() -> list[Command]:
    video, votes, names = "datasets/video", "inputs/votes.csv", "inputs/names.csv"
    pairs = "releases/ytbb-robust/metadata/pair_labels.json"
    words = ("review", "import", "datasets/reviewing", votes)
    out = [
        Command(
            name="votes",
            words=("review", "import", video, votes),
            place=(video, votes),
            in_place=True,
            aside=(video,),
            weight=3,
        ),
        Command(
            name="votes json",
            words=("review", "import", "datasets/ytbb", pairs),
            place=("datasets/ytbb", pairs),
            in_place=True,
            aside=("datasets/ytbb",),
        ),
        Command(
            name="names",
            words=("review", "import", video, names, "--ask", "name"),
            place=(video, names),
            in_place=True,
            aside=(video,),
            weight=2,
        ),
        Command(name="votes again", words=words, place=("datasets/reviewing", votes), in_place=True, weight=1.5),
    ]
    boxes, ask = "inputs/boxes.csv", ("--ask", "box")
    out += [
        Command(
            name="boxes of people",
            words=("review", "import", video, boxes, *ask),
            place=(video, boxes),
            in_place=True,
            aside=(video,),
            weight=2,
        ),
        Command(
            name="crops",
            words=("review", "export", "datasets/boxing", *ask, "--crops", "out"),
            place=("datasets/boxing",),
            dest="out",
            in_place=True,
            weight=2,
        ),
    ]
    for name in ("reviewing", "reviewed"):
        data = f"datasets/{name}"
        out += [
            Command(name=f"status {name}", words=("review", "status", data), place=(data,), in_place=True),
            Command(
                name=f"names {name}", words=("review", "status", data, "--ask", "name"), place=(data,), in_place=True
            ),
            Command(
                name=f"review export {name}",
                words=("review", "export", data, "-o", "out"),
                place=(data,),
                dest="out",
                in_place=True,
            ),
        ]
    return out
