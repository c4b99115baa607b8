"""strobe measures whether vision models flicker: right on one frame, wrong on the next that looks the same."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strobe.api.datasets import example_dataset, load_dataset, save_dataset
    from strobe.api.faces import ClassifierScore, ClipVerdicts, Comparisons, DetectorScore, Evaluated
    from strobe.api.gates import Checkpoints, Gated, GatePlans, gate, history, plan_gate
    from strobe.api.making import build, quantise, simulate, synthesize
    from strobe.api.running import evaluate, load_model, predict
    from strobe.api.scoring import compare, load_predictions, report, results, score
    from strobe.core.answers import BoxAnswers, ClassAnswers
    from strobe.core.answers import ClassAnswers as Predictions
    from strobe.core.dataset import Dataset, DatasetInfo
    from strobe.core.errors import StrobeError
    from strobe.core.estimate import Estimate
    from strobe.core.labels import LabelSpace, Projection, projection, space
    from strobe.core.ports import Classifier, Detector
    from strobe.core.records import Detections, Frame, ModelSpec, PerturbationSet
    from strobe.engine.running import Running
    from strobe.models.plan import ImagePlan

__all__ = [
    "BoxAnswers",
    "Checkpoints",
    "ClassAnswers",
    "Classifier",
    "ClassifierScore",
    "ClipVerdicts",
    "Comparisons",
    "Dataset",
    "DatasetInfo",
    "Detections",
    "Detector",
    "DetectorScore",
    "Estimate",
    "Evaluated",
    "Frame",
    "GatePlans",
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
    "plan_gate",
    "predict",
    "projection",
    "quantise",
    "report",
    "results",
    "save_dataset",
    "score",
    "simulate",
    "space",
    "synthesize",
]

_LATE = {
    "api.datasets": ("example_dataset", "load_dataset", "save_dataset"),
    "api.faces": ("ClassifierScore", "ClipVerdicts", "Comparisons", "DetectorScore", "Evaluated"),
    "api.gates": ("Checkpoints", "GatePlans", "Gated", "gate", "history", "plan_gate"),
    "api.making": ("build", "quantise", "simulate", "synthesize"),
    "api.running": ("evaluate", "load_model", "predict"),
    "api.scoring": ("compare", "load_predictions", "report", "results", "score"),
    "core.answers": ("BoxAnswers", "ClassAnswers"),
    "core.dataset": ("Dataset", "DatasetInfo"),
    "core.errors": ("StrobeError",),
    "core.estimate": ("Estimate",),
    "core.labels": ("LabelSpace", "Projection", "projection", "space"),
    "core.ports": ("Classifier", "Detector"),
    "core.records": ("Detections", "Frame", "ModelSpec", "PerturbationSet"),
    "engine.running": ("Running",),
    "models.plan": ("ImagePlan",),
}
"""The module of each name. A name is imported on first use, so that `import strobe` stays fast."""

_HOME = {name: (module, name) for module, names in _LATE.items() for name in names}
_HOME["Predictions"] = ("core.answers", "ClassAnswers")

# These packages share their name with a function. Python binds a package's name in its parent on the first import.
# Import them here and delete the binding, so that the name always refers to the function (ADR 18).
for _room in ("build", "report"):
    import_module(f"strobe.{_room}")
    del globals()[_room]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'strobe' has no attribute {name!r}")
    module, inner = _HOME[name]
    found = globals()[name] = getattr(import_module(f"strobe.{module}"), inner)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
