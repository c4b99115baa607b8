"""Import Youtube-BB: its CSV and a folder of videos, whose frames are decoded."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.releases.youtube_bb import Moment, find_csv, find_videos, read_youtube_bb
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import Progress
from strobe.formats.registry import SEED, FormatOption, ImportFormat, K
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions


def read_into(
    source: Path,
    target: Path,
    *,
    videos: Path | None,
    anchors: Path | None,
    k: int,
    seed: int,
    reference: bool,
    workers: int,
    how: ImportOptions,
) -> ImportedDataset:
    """Import Youtube-BB's CSV and a folder of videos. Frames are decoded and stored as in `strobe build`."""
    from strobe.build.labels import AnchorRow, LabelRow
    from strobe.build.options import AnchorOptions
    from strobe.workflows.build import build
    from strobe.workflows.options import BuildOptions

    say = how.progress
    table = find_csv(source)
    release = read_youtube_bb(table, find_videos(videos or table.parent), anchors=anchors, seed=seed)
    for note in release.notes:
        say.note(note)
    rows, problems = _frame_rows(release.videos, release.anchors, say)
    options = BuildOptions(
        sampling=AnchorOptions(k=k, seed=seed),
        label_space="youtube-bb",
        label_source="anchor",
        labels=[
            LabelRow(video=video, frame=frame, label=name, where=table.name)
            for video, frame, names in rows
            for name in names
        ],
        anchors=[AnchorRow(video=video, frame=frame, where=table.name) for video, frame, _ in rows],
        reference=reference,
        licence="frames belong to their authors on Youtube; not distributed with strobe",
        workers=workers,
    )
    used = {video for video, _, _ in rows}
    built = build([path for name, path in release.videos.items() if name in used], target, options, progress=say)
    return ImportedDataset(dataset=built.dataset, notes=(*release.notes, *problems, *built.problems, *built.notes))


def _frame_rows(
    videos: Mapping[str, Path], anchors: Sequence[Moment], say: Progress
) -> tuple[list[tuple[str, int, tuple[str, ...]]], list[str]]:
    """Return anchors by frame. The frame nearest in time is used, because the table's times are truncated to 1 ms."""
    from strobe.build.index import read_index

    times: dict[str, NDArray[np.float64]] = {}
    problems: list[str] = []
    with say.task("reading timestamps", len(videos)) as advance:
        for name, path in videos.items():
            try:
                times[name] = read_index(path).times_s()
            except StrobeError as error:
                problems.append(str(error))
                say.note(f"skipped: {error}")
            advance(1)
    rows: dict[tuple[str, int], tuple[str, ...]] = {}
    for moment in anchors:
        if moment.video not in times:
            continue
        known = times[moment.video]
        gap = np.abs(known * 1000 - moment.time_ms)
        if np.isnan(gap).all() or np.nanmin(gap) > 500:
            problems.append(f"{printable(moment.video)}: no frame within half a second of {moment.time_ms} ms")
            continue
        place = int(np.nanargmin(gap))
        rows[moment.video, place] = tuple(dict.fromkeys((*rows.get((moment.video, place), ()), *moment.labels)))
    if not rows:
        raise StrobeError(f"no anchor is in the videos: {problems[0] if problems else 'no anchors'}")
    return [(video, frame, labels) for (video, frame), labels in rows.items()], problems


FORMAT = ImportFormat(
    read=read_into,
    about="Youtube-BB: its CSV (or .csv.gz) and a folder of videos. Members are scored with their anchor's labels.",
    example="yt_bb_detection_validation.csv data/ytbb --videos videos/",
    options=(
        FormatOption(
            name="videos", kind=Path, help="Folder of videos named by YouTube id. Default: the folder of the CSV."
        ),
        FormatOption(
            name="anchors",
            kind=Path,
            help="CSV ytid,time_ms,label of the anchors to use. Default: one random anchor per video.",
        ),
        K,
        FormatOption(name="reference", kind=bool, help="Store no frames. Decode them from the videos when models run."),
        FormatOption(name="workers", kind=int, default=1, help="Number of decoding processes."),
        SEED,
    ),
    media=False,
    whole=True,
)
