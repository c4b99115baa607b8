"""Write the graphs of the bundled networks, without weights, to src/strobe/models/data.

    .venv/bin/python scripts/make_graphs.py [--check]

It needs the extra models. The graphs contain the names of a network's tensors, and no tensors. With --check, it writes
nothing and fails if a shipped graph differs.
"""

import argparse
import io
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import torch
from efficientnet_lite_pytorch import EfficientNet

from strobe.models import strobe_net_layers
from strobe.models.detectors import tiny
from strobe.models.graphs import graph_file
from strobe.models.lite import SIZES

OPSET = 17


def networks() -> Iterator[tuple[str, Any, int, tuple[str, ...]]]:
    """Yield each network's name, module, input size and outputs. The number of classes is free."""
    for name, size in SIZES.items():
        yield name, EfficientNet.from_name(name), size, ("scores",)
    for name in ("strobe-net-small", "strobe-plain"):
        yield name, strobe_net_layers.network(name, 5), 64, ("scores",)
    for name in tiny.NETWORKS:
        module = tiny.network(name, 5)
        yield name, module, module.side, ("logits", "distances")


def graph_of(module: Any, size: int, outputs: tuple[str, ...]) -> bytes:
    """Return the module's graph as an ONNX file without its tensors, for any batch and any number of classes."""
    file, state = io.BytesIO(), module.state_dict()
    for number, tensor in enumerate(state.values()):
        tensor.fill_(number + 1)  # the exporter merges equal tensors, as norms have them before any training
    axes = {"pixels": {0: "n", 2: "height", 3: "width"}, **{name: {0: "n"} for name in outputs}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # deprecation, and values traced as constants
        torch.onnx.export(
            module.eval(),
            (torch.zeros(1, 3, size, size),),
            file,
            input_names=["pixels"],
            output_names=list(outputs),
            dynamic_axes=axes,
            dynamo=False,
            opset_version=OPSET,
            training=torch.onnx.TrainingMode.PRESERVE,  # otherwise the norms are folded into the convolutions
        )
    model = onnx.load_from_string(file.getvalue())
    graph, names = model.graph, set(state)
    _pad_in_convolutions(graph)
    _drop_unused(graph)
    _keep(graph.initializer, [one for one in graph.initializer if one.name not in names])
    del graph.value_info[:]
    for output in graph.output:
        for number, axis in enumerate(output.type.tensor_type.shape.dim):
            axis.dim_param = f"{output.name}_{number}"
    for node in graph.node:
        node.name = node.doc_string = ""
    model.producer_version = ""
    graph.name = "graph"
    return bytes(model.SerializeToString(deterministic=True))


def _pad_in_convolutions(graph: Any) -> None:
    """Replace TensorFlow's padding, a node of its own for one size of input, by the attribute for every size."""
    made_by = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        before = made_by.get(node.input[0]) if node.op_type == "Conv" else None
        if before is not None and before.op_type == "Pad":
            node.input[0] = before.input[0]
            _keep(node.attribute, [one for one in node.attribute if one.name != "pads"])
            node.attribute.append(onnx.helper.make_attribute("auto_pad", "SAME_UPPER"))


def _drop_unused(graph: Any) -> None:
    """Remove nodes and tensors that nothing reads."""
    n_before = -1
    while n_before != len(graph.node):
        n_before = len(graph.node)
        read = {name for node in graph.node for name in node.input} | {one.name for one in graph.output}
        _keep(graph.node, [node for node in graph.node if read.intersection(node.output)])
    _keep(graph.initializer, [one for one in graph.initializer if one.name in read])


def _keep(field: Any, kept: list[Any]) -> None:
    copies = [type(one).FromString(one.SerializeToString()) for one in kept]
    del field[:]
    field.extend(copies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    differing = []
    for name, module, size, outputs in networks():
        content, path = graph_of(module, size, outputs), graph_file(name)
        if check and path.read_bytes() != content:
            differing.append(name)
        if not check:
            Path(path).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")
    if differing:
        sys.exit(f"these graphs differ: {', '.join(differing)}; run scripts/make_graphs.py")


if __name__ == "__main__":
    main()
