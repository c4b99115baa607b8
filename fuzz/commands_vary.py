"""Commands of `strobe vary`: corruptions, background ladders, attacks, and searches in a generator."""

from fuzz.command import Command

__all__ = ["varying"]

_SEARCH = ("--images=3", "--scale-images=8", "--steps", "4", "--strips", "1", "--device", "cpu", "-q")
_ATTACK = ("--eps", "2/255,8/255", "--steps", "3", "--restarts", "0", "--device", "cpu", "-q")


def varying() -> list[Command]:
    """Return all these commands, in a fixed order."""
    return [*_corrupting(), *_laddering(), *_searching()]


def _corrupting() -> list[Command]:
    corrupted = ("--kind", "fog,glass_blur", "--severity", "1,3", "-q", "--workers", "1")
    out = []
    for name, data, dest, more in (
        ("vary", "video", "out", ()),
        ("vary stored", "boxes", "out", ("--store",)),
        ("vary again", "shaky", "datasets/varied", ()),
    ):
        words = ("vary", "corruption", f"datasets/{data}", dest, *corrupted, *more)
        source, again = (f"datasets/{data}",), dest != "out"
        place, aside = (*source, dest) if again else source, source if again else ()
        out.append(Command(name=name, words=words, place=place, dest=dest, aside=aside))
    return out


def _laddering() -> list[Command]:
    """Return background ladders with damaged folders, boxes, masks, networks and command lines."""
    words: tuple[str, ...]
    place: tuple[str, ...]
    odd: tuple[str, ...]
    data, usual = "datasets/masked", ("-q", "--workers", "1")
    table: tuple[tuple[str, tuple[str, ...], tuple[str, ...], float], ...] = (
        ("ladder", ("--context", "1,2"), (), 1),
        ("ladder stored", ("--context", "1,2", "--store", "--fit", "pad"), (), 1),
        ("ladder boxes", ("--boxes", "inputs/ladder.csv", "--rungs", "zoom,crop"), ("inputs/ladder.csv",), 1.5),
        ("ladder manifest", ("--boxes", "inputs/ladder.json", "--rungs", "crop"), ("inputs/ladder.json",), 1),
        ("ladder masks", ("--masks", "inputs/masks", "--rungs", "grey,blur"), ("inputs/masks",), 1),
        ("ladder net", ("--segment", "onnx:weights/salient.onnx", "--rungs", "grey"), ("weights/salient.onnx",), 1),
        ("ladder detector", ("--detector", "py:models.py:blobs", "--rungs", "crop"), ("models.py",), 0.5),
        ("ladder detections", ("--detector", "preds:inputs/ladder-coco.json", "--rungs", "crop"),
         ("inputs/ladder-coco.json",), 1),
    )  # fmt: skip
    out = []
    for name, more, inputs, weight in table:
        words = ("vary", "background", data, "out", *usual, *more)
        aside = (data,) if inputs else ()
        out.append(Command(name=name, words=words, place=(data, *inputs), dest="out", aside=aside, weight=weight))
    words = ("vary", "background", data, "datasets/ladder", "--context", "1,2", *usual)
    place = (data, "datasets/ladder")
    out.append(Command(name="ladder again", words=words, place=place, dest=place[1], aside=(data,)))
    words = ("vary", "background", "datasets/boxing", "out", "--boxes", "people", *usual)
    out.append(Command(name="ladder people", words=words, place=("datasets/boxing",), dest="out"))
    odd = (
        "--context", "1,2", "--fit", "pad", "--rungs", "zoom,crop", "--boxes", "truth", "--masks", "inputs/masks",
        "--seed", "0", "--name", "it", "--workers", "1",
    )  # fmt: skip
    words, place = ("vary", "background", data, "out", "-q", *odd), (data, "inputs/masks")
    out.append(Command(name="ladder words", words=words, place=place, dest="out", aside=place, weight=2))
    odd = ("--detector", "py:models.py:blobs", "--segment", "onnx:weights/salient.onnx", "--device", "cpu", "-q")
    words, place = ("vary", "background", data, "out", *odd), (data, "models.py", "weights/salient.onnx")
    out.append(Command(name="ladder estimates words", words=words, place=place, dest="out", aside=place))
    return out


def _searching() -> list[Command]:
    """Return attacks, and searches in a generator."""
    words: tuple[str, ...] = ("vary", "attack", "datasets/video", "out", "-m", "py:net.py:make", *_ATTACK)
    place: tuple[str, ...] = ("datasets/video", "net.py")
    out = [Command(name="attack", words=words, place=place, dest="out", aside=("net.py",))]
    own = ("--generator", "py:generator.py:make", "-m", "py:net.py:make")
    words, place = ("vary", "generator", "out", *own, *_SEARCH), ("net.py", "generator.py")
    out.append(Command(name="generator", words=words, place=place, dest="out", weight=0.3))
    words = ("vary", "generator", "datasets/changed", *own, *_SEARCH)
    again = (*place, "datasets/changed")
    out.append(Command(name="generator again", words=words, place=again, dest=again[2], aside=place, weight=0.5))
    for name, odd in (
        ("minimal", ("--granularity", "coarse,pixel", "--classes", "red,green", "--aim", "untargeted", "--most", "2",
                     "--restarts", "0", "--margin", "0.01", "--search", "minimal", "--seed", "0", "--engine", "local")),
        ("budget", ("--search", "budget", "--budget", "0.5,1", "--aim", "runner-up", "--no-changes", "--name", "it")),
    ):  # fmt: skip
        words = ("vary", "generator", "out", *own, *_SEARCH, *odd)
        out.append(
            Command(name=f"generator {name} words", words=words, place=place, dest="out", aside=place, weight=0.7)
        )
    few = (
        "--images=1",
        "--scale-images=4",
        "--steps",
        "3",
        "--restarts",
        "0",
        "--strips",
        "1",
        "--device",
        "cpu",
        "-q",
    )
    words = ("vary", "generator", "out", "--generator", "strobe-ae", "--photos", "datasets/masked", "-m")
    words = (*words, "strobe-world-linf", *few, "--granularity", "coarse")
    out.append(Command(name="generator photos", words=words, place=("datasets/masked",), dest="out", weight=0.5))
    return out
