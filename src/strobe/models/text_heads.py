"""What a CLIP model's text tower makes of class names, kept in the cache folder."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import CannotWrite
from strobe.core.files import cache_folder, replacing
from strobe.core.late import require
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions

__all__ = ["Prompts", "text_head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What the text tower of a model reads. `key` says everything else that decides what it makes of it."""

    words: list[str]
    templates: Any
    model: str
    key: str

    @property
    def lines(self) -> list[str]:
        """The class names, and the templates around them."""
        return [*self.words, *(template("x") for template in self.templates)]

    @property
    def file(self) -> Path:
        """Where the head made of them is kept."""
        digest = hashlib.sha256("\n".join([self.key, *self.lines]).encode()).hexdigest()
        return cache_folder() / "text-heads" / f"{digest[:32]}.npy"


def text_head(library: Any, model: Any, tokenizer: Any, prompts: Prompts, options: LoadOptions, device: str) -> Any:
    """One unit vector per class: the mean over the prompt ensemble, (width, classes)."""
    torch = require("torch", what="CLIP models", extra="openclip")
    words = prompts.words
    with suppress(OSError, ValueError, EOFError):  # not there, or cut off
        kept = np.load(prompts.file, allow_pickle=False)
        if kept.dtype == np.float32 and kept.ndim == 2 and kept.shape[1] == len(words) and np.isfinite(kept).all():
            return torch.from_numpy(kept).to(device)
    step = 2 if device == "cpu" else 10  # classes at once, with all their prompts
    parts = []
    label = f"{prompts.model}: reading class names, {len(prompts.templates)} prompts each"
    with torch.inference_mode(), (options.progress or Silent()).task(label, len(words)) as advance:
        for start in range(0, len(words), step):
            some = words[start : start + step]
            parts.append(
                library.build_zero_shot_classifier(
                    model, tokenizer=tokenizer, classnames=some, templates=prompts.templates, device=device
                )
            )
            advance(len(some))
        head = torch.cat(parts, dim=1).float()
    with suppress(CannotWrite), replacing(prompts.file) as temporary, temporary.open("wb") as file:
        np.save(file, head.cpu().numpy())
    return head
