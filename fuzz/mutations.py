"""Damage one file or the command line, at random from a seed."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

from fuzz.damage_data import cut, edit_table, flip, other_array, other_picture, swell_table, tree
from fuzz.damage_text import edit_csv, edit_json, edit_jsonl, edit_xml, raw_json

__all__ = ["NEAR_WORDS", "ODD_WORDS", "mutate", "mutate_words"]

ODD_WORDS = [
    "",
    " ",
    "-1",
    "0",
    "1",
    "2",
    "7",
    "1000000",
    "99999999999999999999",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "0.5",
    "x",
    "é",
    "\x1b[31m",
    "x" * 300,
    "..",
    "/etc/passwd",
    "/dev/null",
    "/dev/zero",
    "a\nb",
    "1-5",
    "5-1",
    "1,3",
    "a,b",
    "1/0",
    "0/0",
    "30000/1001",
    "@",
    "@x",
    "preds:",
    "py:",
    "onnx:",
    "py:models.py",
    "py:models.py:nothing",
    "=",
    "a=",
    "=a",
    "auto",
    "coco-91",
    "ilsvrc-2012",
    "imagenet-vid",
    "0.5:0.95",
    "--",
    "-h",
    "*",
    "[",
    "*:*",
    "preds:inputs",
    "nowhere/x",
]

NEAR_WORDS = {
    "--aim": ["runner-up", "purple", "red", "Red", "targeted"],
    "--backend": ["onnx", "openvino", "tensorrt", "ONNXRUNTIME", "onnxruntime"],
    "--boxes": ["thruth", "truth", "people", "inputs", "inputs/masks"],
    "--budget": ["1,0.5", "0,1", "1,1", "-1", "1,", "1e308", ","],
    "--classes": ["red,red", "purple", "red,", "0", "Red,GREEN", ","],
    "--context": ["0.5", "1,1", "2,1", "1,", "1e9", "1;2", "1.00001,1.00002"],
    "--decode": ["device", "gpu", "cuda"],
    "--detector": ["blobs", "py:models.py:logits", "preds:none.json", "crop:truth:x", "boxes:x", "a=py:models.py:x"],
    "--device": ["cuda", "cuda:7", "cuda:x", "mps", "gpu", "cpu:0", "CPU"],
    "--engine": ["ray=", "local=x", "Ray", "dask", "ray://127.0.0.1:1", "ray=ray://127.0.0.1:1", "ray=127.0.0.1:1",
                 "ray=127.0.0.1:99999", "ray=127.0.0.1:x", "ray=[::1]:1", "ray=:1", "ray=127.0.0.1:", "ray = auto"],
    "--fit": ["crop", "Pad", "squash"],
    "--granularity": ["latent,latent", "layer:", "layer:-1", "layer:99", "coarse,", "each,all", "finest", "each", ","],
    "--masks": ["inputs", "datasets", "models.py"],
    "--most": ["1/3", "-0", "1e-9", "1e308"],
    "--rungs": ["zoom,zoom", "same,other", "whole", "grey", "usual", "zoom,", ","],
    "--search": ["budget", "reference", "minimal", "maximal"],
    "--segment": ["u2net", "onnx:", "onnx:nowhere.onnx", "onnx:weights", "onnx:models.py"],
}  # fmt: skip
"""Values close to valid values, as after a typing error."""

_CHECKED = re.compile(r',\s*"checked": \{[^{}]*\}')
Mutator = Callable[[Path, random.Random], str]


def mutate(root: Path, files: list[Path], rng: random.Random) -> str:
    """Damage one of the files below root. Return a description of the damage that starts with its kind."""
    by_kind: dict[str, list[Path]] = {}
    for path in files:
        if os.path.lexists(path):
            by_kind.setdefault(_kind(path), []).append(path)
    if not by_kind:
        return "nothing"
    kinds = sorted(by_kind)
    # There are many images, but little code reads them, so tables and texts are damaged more often.
    weights = [1 if kind in ("image", "other") else 3 for kind in kinds]
    kind = rng.choices(kinds, weights)[0]
    path = rng.choice(by_kind[kind])
    general: list[Mutator] = [flip, cut, tree]
    own = _OWN.get(kind, [flip])
    how = rng.choice(general) if rng.random() < 0.25 else rng.choice(own)
    if not path.is_file() or path.is_symlink():
        how = tree
    try:
        description = how(path, rng)
    except Exception as error:  # earlier damage made the file unreadable for this mutator
        description = (
            f"{flip(path, rng)} ({type(error).__name__})" if path.is_file() and not path.is_symlink() else "none"
        )
    if rng.random() < 0.9:
        _forget_digest(path)
    return f"{kind}.{how.__name__} {path.relative_to(root).as_posix()}: {description}"


def _forget_digest(path: Path) -> None:
    """Remove the digests of a table and of dataset.json, so that the fuzzer also reaches the checks behind them."""
    about = path.parent / "dataset.json"
    if (path == about or path.suffix == ".parquet") and about.is_file() and not about.is_symlink():
        try:
            text = _CHECKED.sub("", about.read_text(encoding="utf-8"))
            about.write_text(text, encoding="utf-8")
            if path != about:
                content = json.loads(text)
                content["files"].pop(path.name, None)
                about.write_text(json.dumps(content), encoding="utf-8")
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            return


def mutate_words(words: list[str], rng: random.Random) -> tuple[list[str], str]:
    """Return the command line with one word replaced, repeated or removed. Paths stay."""
    out = list(words)
    places = [place for place, word in enumerate(out) if place and out[place - 1].startswith("--")]
    if not places:
        return out, "nothing"
    place, how = rng.choice(places), rng.randrange(3)
    near = NEAR_WORDS.get(out[place - 1], ODD_WORDS)
    word = rng.choice(near if rng.random() < 0.5 else ODD_WORDS)
    if how == 0 or out[place].startswith("-"):
        out[place] = word
    elif how == 1:
        out += [out[place - 1], word]
    else:
        del out[place]
    return out, f"words.{('odd', 'again', 'gone')[how]} {words[place - 1]}: {out}"


def _kind(path: Path) -> str:
    kinds = {
        ".json": "json",
        ".jsonl": "jsonl",
        ".parquet": "table",
        ".csv": "csv",
        ".txt": "csv",
        ".toml": "csv",
        ".xml": "xml",
        ".png": "image",
        ".jpg": "image",
        ".jpeg": "image",
        ".webp": "image",
        ".mp4": "video",
        ".mkv": "video",
        ".avi": "video",
        ".npy": "npy",
        ".sqlite": "sqlite",
        ".onnx": "weights",
        ".safetensors": "weights",
    }
    return kinds.get(path.suffix.lower(), "other")


_OWN: dict[str, list[Mutator]] = {
    "json": [edit_json, edit_json, edit_json, edit_json, raw_json],
    "jsonl": [edit_jsonl],
    "table": [*[edit_table] * 24, swell_table],
    "csv": [edit_csv],
    "xml": [edit_xml],
    "image": [other_picture, flip],
    "video": [flip, cut],
    "npy": [other_array, flip],
}
