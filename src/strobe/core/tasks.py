"""The tasks of a model."""

from enum import StrEnum


class Task(StrEnum):
    """The task of a model: classify the image, or detect the objects in it."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
