"""strobe measures whether vision models flicker: right on one frame, wrong on the next that looks the same."""

from typing import TYPE_CHECKING, Any

from strobe.api.datasets import example_dataset, load_dataset, save_dataset
from strobe.api.making import build, simulate, synthesize
from strobe.api.running import Running, evaluate, load_model, predict
from strobe.api.scoring import compare, load_predictions, report, results, score
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.answers import ClassAnswers as Predictions
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.estimate import Estimate
from strobe.core.labels import LabelSpace, Projection, projection, space
from strobe.core.late import load
from strobe.core.ports import Classifier, Detector
from strobe.core.records import Detections, Frame, ModelSpec, PerturbationSet

if TYPE_CHECKING:
    from strobe.api.faces import ClassifierScore, Comparisons, DetectorScore, Evaluated
    from strobe.api.gates import Checkpoints, Gated, gate, history
    from strobe.models.plan import ImagePlan

_LATE = {
    "ClassifierScore": "strobe.api.faces:ClassifierScore",
    "Checkpoints": "strobe.api.gates:Checkpoints",
    "Comparisons": "strobe.api.faces:Comparisons",
    "DetectorScore": "strobe.api.faces:DetectorScore",
    "Evaluated": "strobe.api.faces:Evaluated",
    "Gated": "strobe.api.gates:Gated",
    "ImagePlan": "strobe.models.plan:ImagePlan",
    "gate": "strobe.api.gates:gate",
    "history": "strobe.api.gates:history",
}
"""Names that are imported when they are asked for, so that `import strobe` stays quick."""

__all__ = [
    "BoxAnswers",
    "Checkpoints",
    "ClassAnswers",
    "Classifier",
    "ClassifierScore",
    "Comparisons",
    "Dataset",
    "DatasetInfo",
    "Detections",
    "Detector",
    "DetectorScore",
    "Estimate",
    "Evaluated",
    "Frame",
    "Gated",
    "ImagePlan",
    "LabelSpace",
    "ModelSpec",
    "PerturbationSet",
    "Predictions",
    "Projection",
    "Running",
    "StrobeError",
    "build",
    "compare",
    "evaluate",
    "example_dataset",
    "gate",
    "history",
    "load_dataset",
    "load_model",
    "load_predictions",
    "predict",
    "projection",
    "report",
    "results",
    "save_dataset",
    "score",
    "simulate",
    "space",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return load(_LATE[name])
    raise AttributeError(f"module 'strobe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
