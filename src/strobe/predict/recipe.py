"""What a worker is made of, as plain data: any process that sees the dataset's folder makes the same worker of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strobe.core.errors import expect
from strobe.predict.engine import EngineOptions

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The dataset (its folder, and the digest of the frames that are meant), the models, and how they are run.

    `models` are specs by name; `load` holds the options they are loaded with by name, the device among them. `cores` is
    how many threads the models share, None for all there are. It pickles, and says nothing of who runs it.
    """

    dataset: Path
    frames_digest: str
    models: Mapping[str, str]
    load: Mapping[str, Any]
    merge: str
    engine: EngineOptions
    cores: int | None = None

    def __post_init__(self) -> None:
        expect(len(self.models) > 0, "recipe", "at least one model", 0)
        expect(self.cores is None or self.cores >= 1, "cores", ">= 1", self.cores)
