"""Networks shipped as ONNX graphs without weights. ONNX Runtime runs them on the CPU, without PyTorch.

The graphs are in `data`; scripts/make_graphs.py makes them. The weights come from another file. Protocol buffers define
that two messages written one after the other are one message with the fields of both. So the tensors are written behind
the graph, and no library for ONNX files is needed.
"""

import hashlib
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.records import ModelSpec
from strobe.models.cores import cpu_lanes, keep_freed_memory
from strobe.models.exported import ScoreTensors
from strobe.models.onnx import OnnxClassifier
from strobe.models.options import LoadOptions, ModelName, default_batch
from strobe.models.plan import ImagePlan
from strobe.models.runtimes import runtime_facts, session_of
from strobe.models.tensor_files import Tensors

_GRAPH, _INITIALIZER = 7, 5
"""The numbers of the fields in onnx.proto: the graph of a model, and the tensors of a graph."""


def in_torch(model: ModelName, options: LoadOptions) -> bool:
    """Return whether PyTorch runs a bundled network: if it is requested, or if only PyTorch can do what is requested.

    The answer does not depend on the installed packages, so that figures do not depend on them.

    >>> lite = ModelName("bundled", "efficientnet-lite0")
    >>> in_torch(lite, LoadOptions()), in_torch(lite, LoadOptions(device="cuda"))
    (False, True)
    """
    other_weights = model.weights is not None or not options.pretrained
    able = ("auto", "float32", "bfloat16") if options.backend == "openvino" else ("auto", "float32")
    other_runs = options.compile or options.precision not in able or options.device not in ("auto", "cpu")
    return options.backend == "torch" or other_weights or other_runs


def graph_file(network: str) -> Path:
    """Return the path of a shipped graph."""
    return Path(str(resources.files("strobe.models") / "data" / f"{network}.onnx"))


def graph_content(network: str, tensors: Tensors) -> bytes:
    """Return a shipped graph with these tensors as an ONNX file."""
    used = {name: tensor for name, tensor in tensors.items() if not name.endswith("num_batches_tracked")}
    weights = b"".join(_field(_INITIALIZER, _tensor(name, one)) for name, one in used.items())
    return graph_file(network).read_bytes() + _field(_GRAPH, weights)


def graph_session(network: str, tensors: Tensors, *, what: str, options: LoadOptions, extra: str = "onnx") -> Any:
    """Return a session of a shipped graph with these tensors."""
    if options.backend != "openvino":
        require("onnxruntime", what=what, extra=extra)
    content = graph_content(network, tensors)
    return session_of(content, name=what, backend=options.backend, precision=options.precision)


def graph_classifier(
    model: ModelName, options: LoadOptions, *, network: str, tensors: Tensors, weights: Path, plan: ImagePlan,
    labels: LabelSpace, extra: str = "onnx",
) -> OnnxClassifier:  # fmt: skip
    """Return a classifier of a shipped graph. `weights` is the file of its tensors."""
    session = graph_session(network, tensors, what=model.text, options=options, extra=extra)
    precision = "bfloat16" if options.precision == "bfloat16" else "float32"
    n_parameters = sum(tensor.size for tensor in tensors.values())
    spec = ModelSpec(
        name=model.text,
        provider=model.provider,
        task="classification",
        label_space=labels,
        weights=graph_digest(network, weights),
        kind="logits",
        preprocessing={**plan.to_json(), "precision": precision, **runtime_facts(options.backend)},
        batch_size=options.batch_size or default_batch(n_parameters, device="cpu"),
        size=sum(tensor.nbytes for tensor in tensors.values()),
    )
    scores = ScoreTensors(
        plan=plan, layout="nchw", output="scores", labels=labels, kind="logits", dtype="float32", batch=None
    )
    classifier = OnnxClassifier(session, spec=spec, tensors=scores, device="cpu")
    classifier.exported = partial(graph_content, network, tensors)
    if options.backend != "openvino":
        classifier.lanes = cpu_lanes()
    keep_freed_memory(one_arena=True)
    return classifier


def graph_digest(network: str, weights: Path) -> str:
    """Return the digest of a graph's file and of the file of its tensors."""
    return hashlib.sha256((sha256_of_file(graph_file(network)) + sha256_of_file(weights)).encode()).hexdigest()


def _tensor(name: str, values: NDArray[Any]) -> bytes:
    """Return the message TensorProto of a tensor in float32."""
    dims = b"".join(_varint(1 << 3) + _varint(size) for size in values.shape)
    is_float32 = _varint(2 << 3) + _varint(1)
    return dims + is_float32 + _field(8, name.encode()) + _field(9, values.astype("<f4").tobytes())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a whole number as protocol buffers write it.

    >>> _varint(300).hex()
    'ac02'
    """
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
