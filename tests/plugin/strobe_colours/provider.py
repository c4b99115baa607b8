"""A provider with one model, `colours:mean`: the strongest colour of an image."""

import hashlib

import numpy as np

from strobe.core.errors import UnknownName
from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import Provider


class MeanColour:
    """A classifier: the mean of each channel is the score of its colour."""

    def __init__(self, model: ModelName, options: LoadOptions) -> None:
        self.spec = ModelSpec(
            name=model.text,
            provider=model.provider,
            task="classification",
            label_space=LabelSpace.of_names("colours", ["red", "green", "blue"]),
            weights=hashlib.sha256(b"mean colour 1").hexdigest(),  # another digest is another model
            preprocessing={"resize": None},
            batch_size=options.batch_size or 8,
        )

    def prepare(self, image):
        """Prepare one image (height, width, 3) of 8 bits; it runs on several threads."""
        return image.reshape(-1, 3).mean(axis=0)

    def forward(self, prepared):
        """Return the scores (N, 3) of a batch."""
        return np.stack(prepared).astype(np.float32)


def load(model: ModelName, options: LoadOptions) -> MeanColour:
    """Load a model by its name."""
    if model.name not in names():
        raise UnknownName("model of colours", model.name, names())
    return MeanColour(model, options)


def names() -> list[str]:
    """Return the models that `strobe models 'colours:*'` lists."""
    return ["mean"]


PROVIDER = Provider(
    load=load,
    what="the strongest colour of an image",
    example="colours:mean",
    names=names,
    settings=("batch_size",),
)
