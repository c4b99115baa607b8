"""Display names: short, unique, and never a path."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence


def short_names(names: Sequence[str], *, even: bool = False) -> list[str]:
    """Return each name without unneeded folders and without its image suffix; equal names stay equal.

    A name keeps the last parts that make it unique, joined by a middle dot. With `even`, all names keep equally many.

    >>> short_names(["val/clip1/000010.JPEG", "val/clip1/000020.JPEG", "dog@7"])
    ['000010', '000020', 'dog@7']
    >>> short_names(["val/clip1/000010.JPEG", "val/clip2/000010.JPEG"])
    ['clip1·000010', 'clip2·000010']
    """
    if not any(mark in name for name in names for mark in "/\\."):  # fast: there may be a million short names
        return list(names)
    distinct = list(dict.fromkeys(names))
    parts = {name: _parts(name) for name in distinct}
    taken = dict.fromkeys(distinct, 1)
    while True:
        shown = {name: "·".join(parts[name][-taken[name] :]) for name in distinct}
        uses = Counter(shown.values())
        unclear = [name for name in distinct if uses[shown[name]] > 1 and taken[name] < len(parts[name])]
        if not unclear:
            break
        for name in unclear:
            taken[name] += 1
    if even:
        taken = dict.fromkeys(distinct, max(taken.values(), default=1))
        shown = {name: "·".join(parts[name][-taken[name] :]) for name in distinct}
        uses = Counter(shown.values())
    # Names that no folder distinguishes (`a.png` and `a.jpg`) keep their suffix.
    return [shown[name] if uses[shown[name]] == 1 else "·".join(_split(name)[-taken[name] :]) for name in names]


def short_models(names: Sequence[str]) -> list[str]:
    """Return the models' names; names that are file paths lose unneeded folders.

    >>> short_models(["py:/data/nets/mine.py:make", "timm:resnet18@tuned/model.pt", "hf:microsoft/resnet-50"])
    ['py:mine.py:make', 'timm:resnet18@model.pt', 'hf:microsoft/resnet-50']
    >>> short_models(["py:a/mine.py:make", "py:b/mine.py:make"])
    ['py:a·mine.py:make', 'py:b·mine.py:make']
    >>> short_models(["mine:nets/weights.npz"])
    ['mine:weights.npz']
    >>> short_models(["boxes:py:/data/mine.py:make", "crop:truth,fit=pad:onnx:nets/a.onnx"])
    ['boxes:py:mine.py:make', 'crop:truth,fit=pad:onnx:a.onnx']
    """
    heads, marks, weights = zip(*(_at_weights(name) for name in names), strict=True) if names else ((), (), ())
    fronts = [_TWO.match(head) for head in heads]
    apart = [
        (head if front is None else head[front.end() :]).partition(":")
        for head, front in zip(heads, fronts, strict=True)
    ]
    is_file = [bool(mark) and (rest[:1] in tuple("/\\.~") or _FILE.search(rest) is not None) for _, mark, rest in apart]
    files = iter(short_names([rest for (*_, rest), one in zip(apart, is_file, strict=True) if one]))
    shown = [
        (f"{front[0] if front else ''}{scheme}:{next(files)}" if one else head) + mark + file
        for head, front, (scheme, *_), one, mark, file in zip(
            heads, fronts, apart, is_file, marks, short_names(weights), strict=True
        )
    ]
    many = Counter(dict(zip(names, shown, strict=True)).values())
    return [short if many[short] == 1 else name for name, short in zip(names, shown, strict=True)]


def shown_models(names: Iterable[str]) -> dict[str, str]:
    """Return each name with its display name.

    >>> shown_models(["lite0", "py:/data/nets/mine.py:make"])
    {'lite0': 'lite0', 'py:/data/nets/mine.py:make': 'py:mine.py:make'}
    """
    every = list(dict.fromkeys(names))
    return dict(zip(every, short_models(every), strict=True))


_END = (
    r"\.(?:py:\w+|onnx|pt2?|pth|safetensors|bin|ckpt|tar|npz|npy|pkl|h5|keras|tflite|engine|plan|xml|mlmodel|mlpackage|"
    r"torchscript|gguf|json|toml)$"
)
"""The end of a model string that names a file. A hub's names may have a dot as well, so not every suffix is one."""

_FILE = re.compile(_END)
_TWO = re.compile(rf"(?:boxes[a-z-]*|crop):(?:.*:)?(?=[\w.-]+:[^:]*{_END})")
"""Prefixes that a name can have in front of a model file, as in `boxes:py:mine.py:make`."""


def _at_weights(name: str) -> tuple[str, str, str]:
    """Return the model, the separator, and the weights file after the separator, if any."""
    head, mark, file = name.rpartition("@")
    return (head, mark, file) if head else (name, "", "")


def _split(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part] or [name]


def _parts(name: str) -> list[str]:
    *folders, last = _split(name)
    stem, _, suffix = last.rpartition(".")
    return [*folders, stem if stem and f".{suffix.lower()}" in _PICTURES else last]


_PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
