"""ImageNet-Vid as ILSVRC lays it out, with three small videos."""

from pathlib import Path

from made_imports import numbered

TURTLE, CAT = "n01662784", "n02121808"


def xml(objects: list[tuple[str, int, tuple[int, int, int, int]]]) -> str:
    body = "".join(
        f"<object><trackid>{track}</trackid><name>{name}</name><bndbox><xmax>{box[2]}</xmax><xmin>{box[0]}</xmin>"
        f"<ymax>{box[3]}</ymax><ymin>{box[1]}</ymin></bndbox><occluded>0</occluded><generated>0</generated></object>"
        for name, track, box in objects
    )
    return (
        "<annotation><source><database>ILSVRC_2015</database></source>"
        f"<size><width>64</width><height>48</height></size>{body}</annotation>"
    )


def ilsvrc(root: Path, *, images: bool = True, split: str = "val") -> Path:
    """Three videos of 30, 6 and 5 frames; in the first, frames 20–29 are empty; the last shows nothing at all."""
    lengths = {"ILSVRC2015_val_00000000": 30, "ILSVRC2015_val_00001000": 6, "ILSVRC2015_val_00002000": 5}
    for place, (video, n) in enumerate(lengths.items()):
        inner = Path(split) / ("ILSVRC2015_VID_train_0000" if split == "train" else ".") / video
        for index in range(n):
            objects = [(TURTLE, 0, (1, 2, 30, 40))]
            if place == 1:
                objects.append((CAT, 1, (index, 0, index + 9, 9)))
            if (place == 0 and index >= 20) or place == 2:
                objects = []
            path = root / "Annotations/VID" / inner / f"{index:06d}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(xml(objects))
            if images:
                numbered(root / "Data/VID" / inner / f"{index:06d}.JPEG", 40 * place + index)
    return root
