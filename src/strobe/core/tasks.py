"""The tasks of a model."""

from enum import StrEnum

__all__ = ["WITHOUT_TRUTH", "Task"]


class Task(StrEnum):
    """The task of a model: classify the image, or detect the objects in it."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"


WITHOUT_TRUTH = frozenset({Task.CLASSIFICATION})
"""The tasks whose models can be scored on video frames that have neither labels nor boxes."""
