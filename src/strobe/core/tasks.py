"""What a model is asked to do."""

from enum import StrEnum

__all__ = ["Task"]


class Task(StrEnum):
    """What a model is asked to do: name the image, or find the things in it."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
