"""A small dataset with images, boxes, tracks, labels and a vote, to export."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.labels import LabelSpace, space
from strobe.core.packed import packed
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folder


def made(
    root: Path, *, label_space: LabelSpace | None = None, keys: str = "clip{v}/{i}.png", ending: str = ".png"
) -> Path:
    """Two videos of five frames with images, boxes, tracks, two labels on some frames and one vote."""
    grown = DatasetBuilder()
    for v in range(2):
        video = grown.video(video_id=f"v{v}", name=f"clip {v}", fps=Fraction(30000, 1001), n_frames=5)
        rows = []
        for i in range(5):
            media = f"media/clip{v}/{i}{ending}"
            (root / media).parent.mkdir(parents=True, exist_ok=True)
            picture = Image.new("RGB", (32, 24), (v, i, 0))
            if ending == ".zst":
                (root / media).write_bytes(packed(np.asarray(picture), ""))
            else:
                picture.save(root / media)
            rows.append(
                grown.frame(
                    video=video, index=i, key=keys.format(v=v, i=i), size_wh=(32, 24), media=media,
                    labels=[v] if i < 3 else [v, 2],
                )
            )  # fmt: skip
            grown.box(frame=rows[-1], label=v, xyxy=(i, 1.25, i + 7.5, 20), track=v if i else -1, crowd=i == 4)
        grown.set(set_id=f"clip {v}@2", anchor=rows[2], members=[(rows[i], i - 2) for i in (0, 1, 3, 4)])
    info = DatasetInfo(name="made", label_space=label_space or space("imagenet-vid"), k=2, licence="CC0")
    data = grown.build(info, root=root)
    vote = Verdict(
        verdict_id="1", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id="clip 0@2", frame_id="v0:1",
        decision="similar", labels=("a", "b"), note='says "hm", twice',
    )  # fmt: skip
    folder.write(replace(data, verdicts=(vote,)), root)
    return root
