"""A torch.export program, `pt2:model.pt2`, with an optional JSON file next to it as for ONNX."""

import pickle
from dataclasses import replace
from typing import Any

from strobe.core.errors import InvalidFile, ModelFailed, printable
from strobe.core.files import sha256_of_file
from strobe.core.late import require
from strobe.core.readers import check_archive
from strobe.models.file_settings import classifier_settings, plan_of
from strobe.models.kinds import kind_on_probes
from strobe.models.naming import labels_of
from strobe.models.options import LoadOptions, ModelName, default_batch, file_of, torch_setup
from strobe.models.providers import FILE_SETTINGS, Provider
from strobe.models.pt2_files import only_arithmetic
from strobe.models.torch_classifier import TorchClassifier, classifier_of
from strobe.models.weights import no_code, would_run_code


def load(model: ModelName, options: LoadOptions) -> TorchClassifier:
    """Load the program as a classifier. A program that could run code other than arithmetic needs `trust`."""
    torch, name = require("torch", what=model.plain, extra="models"), printable(model.plain)
    path = file_of(model)
    settings = classifier_settings(model, path, options, own=())
    if options.precision not in ("auto", "float32"):
        raise ModelFailed(f"{name}: a program keeps the precision it was exported in; remove <<precision>>")
    if options.trust:
        check_archive(path)
    else:
        only_arithmetic(path)
    try:
        with no_code(unless=options.trust):
            program = torch.export.load(str(path))
    except pickle.UnpicklingError as error:
        raise would_run_code(path) from error
    except Exception as error:  # torch raises arbitrary exceptions, depending on the damaged part of the archive
        raise InvalidFile(path, f"not a program torch can read ({printable(error, limit=140)})") from error
    nodes = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    inputs = [nodes[user_input] for user_input in program.graph_signature.user_inputs]
    if len(inputs) != 1 or inputs[0].ndim != 4:
        raise ModelFailed(f"{name}: expected a program with one input of four dimensions (a batch of images)")
    fixed, _, height, width = (one if isinstance(one, int) else None for one in inputs[0].shape)
    device, dtype = torch_setup(options).device, inputs[0].dtype
    n_parameters = sum(parameter.numel() for parameter in program.parameters())
    batch_size = fixed or options.batch_size or default_batch(n_parameters, device=device)
    run = require("torch.export.passes", what=name, extra="models").move_to_device_pass(program, device).module()

    def call(pixels: Any) -> Any:
        # A program with a fixed batch size gets full batches, filled up with blank images.
        size = fixed or len(pixels)
        blank = pixels.new_zeros((-len(pixels) % size, *pixels.shape[1:]))
        parts = torch.cat([pixels, blank]).contiguous().to(dtype).split(size)
        return torch.cat([run(part) for part in parts])[: len(pixels)]

    classifier = classifier_of(
        torch.nn.Identity(),
        model,
        plan=plan_of(model, settings, options, height=height, width=width),
        call=call,
        label_space=labels_of(model.plain, settings["labels"], options.label_space),
        digest=sha256_of_file(path),
        options=replace(options, batch_size=batch_size),
        facts={"precision": "as exported"},
        kind=settings.get("kind", "logits"),
    )
    kind_on_probes(classifier, settings.get("kind"))
    return classifier


PROVIDER = Provider(
    load=load,
    what="a torch.export program and the same JSON file as for ONNX",
    example="pt2:model.pt2",
    package="torch",
    extra="models",
    settings=FILE_SETTINGS,
    model_settings=True,
    is_file=True,
    gradients="most",
)
