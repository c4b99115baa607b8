"""Write an int8 ONNX file of a classifier with ONNX Runtime's own static quantiser.

The quantiser measures the range of every activation on frames of a dataset, drawn by seed. The JSON file next to the
result has the preprocessing and the classes, and declares which model the file is a form of.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.forms import declared
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, expect, printable
from strobe.core.files import replacing, write_json
from strobe.core.labels import shipped_spaces
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.models.onnx import OnnxClassifier
from strobe.models.onnx_files import external_files
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store.opening import frame_source


def drawn_frames(dataset: Dataset, *, frames: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of frames drawn at random from the frames of the sets, ascending.

    If there are fewer, all are returned.
    """
    used = np.unique(dataset.sets.frame)
    chosen = np.random.default_rng(seed).choice(used, size=min(frames, len(used)), replace=False)
    return np.sort(chosen).astype(np.int64)


def quantise(
    model: str, dataset: Dataset, out: Path, *, frames: int, seed: int, load: LoadOptions, progress: Progress
) -> Path:
    """Write the int8 form of a bundled classifier or an ONNX file to `out`, with a JSON file next to it."""
    expect(out.suffix == ".onnx", "out", "a name that ends in .onnx", out.name)
    expect(frames >= 1, "frames", "at least 1", frames)
    require("onnx", what="strobe.quantise", extra="models")
    made = load_model(model, load)
    if not isinstance(made, OnnxClassifier):
        raise ModelFailed(
            f"{printable(model)}: only ONNX files and bundled classifiers can be quantised; export it to ONNX first"
        )
    rows, source = drawn_frames(dataset, frames=frames, seed=seed), frame_source(dataset)
    with replacing(out) as temporary, progress.task("calibrating", len(rows)) as advance:

        def pixels() -> Iterator[NDArray[Any]]:
            for row in rows.tolist():
                yield made.pixels_of([made.prepare(source.read(row))])
                advance(1)

        _quantised(made, pixels(), temporary)
    plan, labels = made.plan.to_json(), made.spec.label_space
    calibration = f"{len(rows)} frames of {dataset.name}, seed {seed}"
    settings = {
        **{name: value for name, value in plan.items() if value is not None},
        "layout": made.layout,
        "labels": labels.name if labels.name in shipped_spaces() else list(labels.ids),
        "kind": made.spec.kind,
        "form_of": made.spec.form.get("form_of", made.spec.name),
        "form": {**declared(made.spec.form), "precision": "int8", "calibration": calibration},
    }
    write_json(out.with_suffix(".json"), settings)
    return out


def _quantised(made: OnnxClassifier, pixels: Iterator[NDArray[Any]], out: Path) -> None:
    """Write the quantised network: weights per channel, activations by the smallest and largest value seen."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Frames(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def get_next(self) -> dict[str, NDArray[Any]] | None:
            one = next(pixels, None)
            return None if one is None else {made.input_name: one}

    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "network.onnx"
        if isinstance(made.exported, Path):
            expect(not external_files(made.exported), "model", "one file without external data", made.exported.name)
            network.write_bytes(made.exported.read_bytes())
        else:
            network.write_bytes(made.exported())
        prepared = Path(folder) / "prepared.onnx"
        try:
            quant_pre_process(str(network), str(prepared), skip_symbolic_shape=True)
            quantize_static(
                str(prepared),
                str(out),
                Frames(),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
            )
        except Exception as error:  # the quantiser raises exceptions of many kinds
            raise ModelFailed(
                f"{printable(made.spec.name)}: ONNX Runtime cannot quantise it ({printable(error, limit=160)})"
            ) from error
