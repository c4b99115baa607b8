"""Make datasets from videos (`build`), from photos (`simulate`) or by rendering (`synthesize`), and int8 ONNX files.

Each function writes a dataset folder and returns the dataset. An input that cannot be used, such as a video that does
not decode, is skipped with a warning and recorded in the dataset's provenance.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strobe.api.words import as_path, as_paths, in_python, opened, several, space_given, watching
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.labels import LabelSpace
from strobe.core.ports import Progress

if TYPE_CHECKING:
    from strobe.build.options import CameraOptions, DropRules, Limits
    from strobe.synthetic.world import WorldOptions


Paths = str | Path | Sequence[str | Path]


@in_python
def build(
    videos: Paths,
    out: str | Path,
    *,
    labels: str | Path | Mapping[str, str | Sequence[str]] | None = None,
    label: str | Sequence[str] = (),
    boxes: str | Path | None = None,
    anchors: str | Path | None = None,
    label_space: str | Path | Sequence[str] | LabelSpace | None = None,
    label_source: Literal["frame", "anchor"] | None = None,
    unlabelled: bool = False,
    k: int = 10,
    window_ms: float | None = None,
    anchors_per_video: int = 1,
    every: int | None = None,
    seed: int = 0,
    store: Literal["zstd", "png", "webp", "jpeg"] | None = None,
    reference: bool = False,
    hints: bool = True,
    drop: "DropRules | None" = None,
    limits: "Limits | None" = None,
    name: str = "",
    licence: str = "",
    strict: bool = False,
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Make a dataset folder from videos: anchors and the frames around them, decoded exactly and stored without loss.

    Calling it again with the same arguments does only the missing work.

    Args:
        videos: Video files, a folder of videos, or a folder with one subfolder per class. The names of these subfolders
            are the labels if no others are given.
        out: The dataset folder to write.
        labels: A CSV file, or a dict from a video's file name to its class or classes.
        label: Classes that every video shows.
        boxes: A CSV or COCO JSON file of boxes.
        anchors: A CSV file that names the anchors. Default: random anchors.
        label_space: A shipped label space, e.g. imagenet-vid, a file of classes (one per line, or a JSON list), or
            the classes. Default: the classes in the labels.
        label_source: Whether a member is scored with the labels of its own frame or of its anchor.
        unlabelled: Allow videos without labels, to label them in review.
        k: Frames before and after the anchor.
        window_ms: Milliseconds before and after the anchor, instead of `k`.
        anchors_per_video: Random anchors per video. Their sets share no frame.
        every: Place an anchor every `every` frames, instead of at random.
        seed: Seed of the random anchors.
        store: How frames are stored: zstd (default), png and webp are lossless. jpeg changes pixels.
        reference: Store no frames. They are decoded from the videos when a model runs.
        hints: Compute hints for reviewers (blur, motion, scene cuts, …).
        drop: Rules that exclude members by their hints (`strobe.build.options.DropRules`).
        limits: The largest video accepted (`strobe.build.options.Limits`).
        name: The dataset's name. Default: the name of the folder.
        licence: The licence of the videos, stored in dataset.json.
        strict: Write nothing if any video cannot be used.
        workers: Number of processes.
        progress: True shows a progress bar.

    Returns:
        The dataset.

    Raises:
        StrobeError: No video can be used, or the labels, boxes or anchors do not match the videos.

    >>> import strobe
    >>> dataset = strobe.build("videos/", "data/", labels={"cat.mp4": "cat"}, k=10)  # doctest: +SKIP
    """
    from strobe.build.labels import LabelRow
    from strobe.build.options import AnchorOptions, DropRules, Limits
    from strobe.workflows.build import build as run
    from strobe.workflows.options import BuildOptions

    rows: Path | list[LabelRow] | None = None
    if isinstance(labels, Mapping):
        rows = [LabelRow(video=video, label=one) for video, said in labels.items() for one in several(said)]
        expect(len(rows) > 0, "labels", "a class for every video", {})
    elif labels is not None:
        rows = Path(labels)
    sampling = AnchorOptions(k=k, window_ms=window_ms, anchors_per_video=anchors_per_video, every=every, seed=seed)
    done = run(
        _files(videos),
        Path(out),
        BuildOptions(
            sampling=sampling,
            labels=rows,
            label=several(label),
            boxes=as_path(boxes),
            anchors=as_path(anchors),
            label_space=space_given(label_space),
            label_source=label_source,
            unlabelled=unlabelled,
            store=store,
            reference=reference,
            hints=hints,
            drop=drop or DropRules(),
            limits=limits or Limits(),
            name=name,
            licence=licence,
            strict=strict,
            workers=workers,
        ),
        progress=watching(progress),
    )
    return _made(out, done.problems)


@in_python
def simulate(
    photos: Paths,
    out: str | Path,
    *,
    labels: str | Path | None = None,
    label: str | Sequence[str] = (),
    boxes: str | Path | None = None,
    masks: str | Path | None = None,
    label_space: str | None = None,
    sets_per_photo: int = 1,
    k: int = 10,
    camera: "CameraOptions | None" = None,
    seed: int = 0,
    name: str = "",
    licence: str = "",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Make a dataset folder from photos: a simulated hand-held camera moves over each photo.

    Calling it again with the same arguments does only the missing work.

    Args:
        photos: Photo files, or folders with one folder per class.
        out: The dataset folder to write.
        labels: A CSV file (file, label). Default: the class folders.
        label: Classes that every photo shows.
        boxes: A CSV or COCO JSON file of boxes in pixels of the photos.
        masks: A folder of PNG masks with the file names of the photos.
        label_space: A shipped label space, e.g. ilsvrc-2012. Default: the classes in the labels.
        sets_per_photo: Clips per photo.
        k: Frames before and after the anchor. Ignored if `camera` is given.
        camera: The camera's motion and sensor effects (`strobe.build.options.CameraOptions`), including k.
        seed: Seed of the camera paths and the noise.
        name: The dataset's name. Default: the name of the folder.
        licence: The licence of the photos, stored in dataset.json.
        workers: Number of processes.
        progress: True shows a progress bar.

    Returns:
        The dataset.

    Raises:
        StrobeError: No photo can be used, or the labels, boxes or masks do not match the photos.

    >>> import tempfile, numpy as np, strobe
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     photo = Path(tmp, "photos", "cat", "one.png")
    ...     photo.parent.mkdir(parents=True)
    ...     Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 48, 3), dtype=np.uint8)).save(photo)
    ...     strobe.simulate(f"{tmp}/photos", f"{tmp}/data", k=1).n_sets
    1
    """
    from strobe.build.options import CameraOptions
    from strobe.workflows.options import SimulateOptions
    from strobe.workflows.simulate import simulate as run

    done = run(
        as_paths(photos),
        Path(out),
        SimulateOptions(
            camera=camera or CameraOptions(k=k),
            labels=as_path(labels),
            label=several(label),
            boxes=as_path(boxes),
            masks=as_path(masks),
            label_space=label_space,
            sets_per_photo=sets_per_photo,
            seed=seed,
            name=name,
            licence=licence,
            workers=workers,
        ),
        progress=watching(progress),
    )
    return _made(out, done.problems)


@in_python
def quantise(
    model: str,
    dataset: Dataset | str | Path,
    out: str | Path,
    *,
    frames: int = 100,
    seed: int = 0,
    model_settings: str | Path | None = None,
    progress: bool | Progress = False,
) -> Path:
    """Write an int8 ONNX file of a classifier, with ONNX Runtime's static quantiser.

    Activations are calibrated on frames of the dataset, drawn by seed. A JSON file next to the result has the
    preprocessing and the classes, and names the model that the file is a form of.

    Args:
        model: A bundled classifier, or `onnx:FILE`.
        dataset: The dataset that frames are drawn from, or its folder. Do not score the result on the same frames if
            you can avoid it.
        out: The file to write, *.onnx.
        frames: The number of frames.
        seed: The seed of the draw.
        model_settings: The JSON file of an ONNX file, if it is not next to it.
        progress: True shows a progress bar.

    Returns:
        The file.

    Raises:
        StrobeError: The model is no ONNX network, or the quantiser refuses it.

    >>> import strobe
    >>> int8 = strobe.quantise("efficientnet-lite0", "data/", "lite0-int8.onnx")  # doctest: +SKIP
    >>> strobe.evaluate("data/", ["efficientnet-lite0", f"onnx:{int8}"], "run/")  # doctest: +SKIP
    """
    from strobe.models.options import LoadOptions
    from strobe.workflows.quantise import quantise as run

    data = opened(dataset)
    settings = as_path(model_settings)
    load = LoadOptions(label_space=data.info.label_space, device="cpu", settings=settings)
    return run(model, data, Path(out), frames=frames, seed=seed, load=load, progress=watching(progress))


@in_python
def synthesize(
    out: str | Path,
    *,
    videos: int = 48,
    k: int = 10,
    size: int = 128,
    world: "WorldOptions | None" = None,
    seed: int = 0,
    masks: bool = False,
    name: str = "synthetic",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Dataset:
    """Render a dataset of moving objects with exact labels, boxes and masks.

    Args:
        out: The dataset folder to write.
        videos: Number of clips. Each has one set.
        k: Frames before and after the anchor. Ignored if `world` is given.
        size: The side of a frame in pixels. Ignored if `world` is given.
        world: How the world looks and moves (`strobe.synthetic.world.WorldOptions`), including its size and length.
        seed: Seed of the world. The same arguments give the same bytes.
        masks: Store masks, too.
        name: The dataset's name, which is part of its digest.
        workers: Number of processes.
        progress: True shows a progress bar.

    Returns:
        The dataset.

    Raises:
        StrobeError: An argument is out of range, or the folder contains another dataset.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     strobe.synthesize(f"{tmp}/world", videos=2, k=1, size=32).n_sets
    2
    """
    from strobe.synthetic.sets import SyntheticOptions
    from strobe.synthetic.world import WorldOptions
    from strobe.workflows.synthesize import synthesize as run

    options = SyntheticOptions(
        world=world or WorldOptions(size=size, frames=2 * k + 1), videos=videos, seed=seed, name=name, masks=masks
    )
    return replace(run(Path(out), options, progress=watching(progress), workers=workers).dataset, root=Path(out))


def _made(out: str | Path, problems: Sequence[str]) -> Dataset:
    """Read the new dataset and return it. Warn about skipped inputs; the warnings name the caller's line."""
    for problem in problems:
        warnings.warn(f"skipped: {problem}", stacklevel=4)
    return opened(Path(out))


def _files(given: Paths) -> list[Path]:
    """Return the video files. A folder is replaced by its files, except hidden files and text files. A folder without
    video files is returned itself.
    """
    files: list[Path] = []
    for path in as_paths(given):
        inside = sorted(one for one in path.iterdir() if one.is_file() and not _is_other(one)) if path.is_dir() else []
        files += inside or [path]
    return files


def _is_other(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix.lower() in (".csv", ".txt", ".json", ".md", ".xml")
