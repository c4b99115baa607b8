"""Small detectors of every library, their weights made and saved here."""

from strobe.core.labels import LabelSpace
from strobe.models.options import LoadOptions

THREE = LabelSpace.of_names("three", ["red", "green", "blue"])


def torchvision_weights(folder, architecture, n_classes):
    """Random weights whose class scores differ enough for boxes to come out, as safetensors."""
    import torch
    from safetensors.torch import save_file
    from torchvision.models import get_model

    torch.manual_seed(1)
    state = get_model(architecture, weights=None, weights_backbone=None, num_classes=n_classes).state_dict()
    for key in state:
        if ("cls_score" in key or "cls_logits" in key) and key.endswith("weight"):
            state[key] = torch.randn_like(state[key])
        elif "cls_logits" in key:
            state[key] = torch.zeros_like(state[key])
    path = folder / f"{architecture}.safetensors"
    save_file({key: value.contiguous() for key, value in state.items()}, str(path))
    return path


def timm_weights(folder, name, head):
    """A network of timm with a head, random weights whose class scores differ enough, as `strobe train` writes it."""
    import torch

    from strobe.models.detectors.trainable import StartOptions, detector_start

    options = LoadOptions(device="cpu", pretrained=False, image_size=96)
    start = detector_start(f"timm:{name}", THREE, options, seed=1, how=StartOptions(head=head, pyramid=16))
    for key, value in start.module.state_dict().items():
        if ("cls_score" in key or "cls_logits" in key) and key.endswith("weight"):
            value.copy_(torch.randn_like(value))
        elif "cls_logits" in key:
            value.zero_()
    path = folder / f"{name}-{head}.safetensors"
    start.write(path, start.module, {})
    return path


def hf_folder(folder, kind):
    """A small DETR or RT-DETR with random weights, saved as transformers saves them."""
    import torch
    import transformers as tf

    torch.manual_seed(2)
    names = {0: "red", 1: "green", 2: "blue"}
    common = {"id2label": names, "label2id": {name: place for place, name in names.items()}}
    if kind == "detr":
        config = tf.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=tf.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic",
                out_features=["stage4"],
            ),
            d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16,
            encoder_attention_heads=2, decoder_attention_heads=2, num_queries=9, **common,
        )  # fmt: skip
        model = tf.DetrForObjectDetection(config)
        processor = tf.DetrImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    else:
        config = tf.RTDetrConfig(
            backbone_config=tf.RTDetrResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
                out_features=["stage2", "stage3", "stage4"],
            ),
            use_pretrained_backbone=False, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 16],
            feat_strides=[8, 16, 32],
            encoder_ffn_dim=16, encoder_attention_heads=2, d_model=16, num_queries=11, decoder_in_channels=[16, 16, 16],
            decoder_ffn_dim=16, decoder_layers=1, decoder_attention_heads=2, num_denoising=0, **common,
        )  # fmt: skip
        model = tf.RTDetrForObjectDetection(config)
        processor = tf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    model.save_pretrained(folder / kind)
    processor.save_pretrained(folder / kind)
    return folder / kind


PLUGIN = '''
import numpy as np
from strobe.models.detectors.py import detector

def find(images):
    """The bright rectangle."""
    out = []
    for image in images:
        rows, columns = np.nonzero(image.max(axis=2) > 200)
        if len(rows):
            box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            out.append(([box, [0, 0, 1, 1]], [0, 2], [0.7, 0.9]))
        else:
            out.append((np.zeros((0, 4)), [], []))
    return out

def make():
    return detector(find, ["red", "green", "blue"], name="bright")
'''


def py_detector(folder, real):
    from strobe.models.registry import load_model

    (folder / "mine.py").write_text(PLUGIN)
    return load_model(f"py:{folder / 'mine.py'}:make", LoadOptions(device="cpu"))


def run(detector, images):
    return detector.forward([detector.prepare(image) for image in images])
