"""strobe measures whether vision models flicker: right on one frame, wrong on the next that looks the same."""

from strobe.api.datasets import example_dataset, load_dataset, save_dataset
from strobe.api.scoring import compare, load_predictions, report, results, score
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.answers import ClassAnswers as Predictions
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.estimate import Estimate
from strobe.core.labels import LabelSpace, Projection, projection, space
from strobe.core.ports import Classifier, Detector
from strobe.core.records import Detections, Frame, ModelSpec, PerturbationSet

__all__ = [
    "BoxAnswers",
    "ClassAnswers",
    "Classifier",
    "Dataset",
    "DatasetInfo",
    "Detections",
    "Detector",
    "Estimate",
    "Frame",
    "LabelSpace",
    "ModelSpec",
    "PerturbationSet",
    "Predictions",
    "Projection",
    "StrobeError",
    "compare",
    "example_dataset",
    "load_dataset",
    "load_predictions",
    "projection",
    "report",
    "results",
    "save_dataset",
    "score",
    "space",
]
