"""`transformers serve` in an environment of its own, and a tiny vision-language model for it.

    python scripts/servers_transformers.py install            # .servers/transformers; not part of the repository
    python scripts/servers_transformers.py model FOLDER       # needs transformers and torch
    python scripts/servers_transformers.py serve FOLDER PORT  # runs until it is interrupted

The model has random weights and answers with a letter that depends on the image and on the question. It downloads
nothing.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".servers" / "transformers"
PACKAGES = ("transformers[serving]==5.23.0", "torch>=2.6", "torchvision>=0.21", "pillow>=10.1")
LETTERS = "ABCDE"
"""The first tokens that the tiny model can answer with."""

TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}\n{% endif %}"
)


def python_of(place: Path = PLACE) -> Path:
    """Return the interpreter of the environment, whether it exists or not."""
    return place / "bin" / "python"


def install() -> None:
    """Make the environment. An environment that exists is completed."""
    if not python_of().exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    subprocess.run([str(python_of()), "-m", "pip", "install", "-q", *PACKAGES], check=True)


def make_model(folder: Path, *, seed: int = 2) -> None:
    """Write a LLaVA of about 30,000 weights with its processor and its tokenizer, one token per byte."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(_byte_tokenizer()))
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=["<image>"], extra_special_tokens={"image_token": "<image>"},
    )  # fmt: skip
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = transformers.LlavaProcessor(
        image_processor=images, tokenizer=fast, patch_size=8, vision_feature_select_strategy="default",
        chat_template=TEMPLATE, num_additional_image_tokens=1,
    )  # fmt: skip
    torch.manual_seed(seed)
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        projection_dim=16,
    )  # fmt: skip
    text = transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=fast.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(config).eval()
    _limit_to_letters(model, fast)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _byte_tokenizer() -> dict[str, Any]:
    """Return a tokenizer file with one token for each byte, written as GPT-2 writes bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = sorted(map(chr, [*shown, *range(256, 512 - len(shown))]))
    special = ["<pad>", "<s>", "</s>", "<image>"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": place, "content": word, **plain} for place, word in enumerate(special)],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {word: at for at, word in enumerate([*special, *alphabet])}, "merges": []},
    }


def _limit_to_letters(model: Any, tokenizer: Any) -> None:
    """Let only letters be likely, and let the image decide: random networks ignore most of their input."""
    import torch

    letters = tokenizer.convert_tokens_to_ids(list(LETTERS))
    with torch.no_grad():
        head = model.lm_head.weight
        head.zero_()
        head[letters] = torch.randn(len(letters), head.shape[1])
        inner = model.model
        for part, scale in (
            (inner.multi_modal_projector, 8.0),
            (inner.vision_tower, 8.0),
            (inner.language_model, 30.0),
        ):
            for weight in part.parameters():
                if weight.ndim > 1:
                    weight.mul_(scale)


def serve_command(folder: Path, port: int) -> list[str]:
    """Return the command of the server for this model."""
    return [
        str(python_of().parent / "transformers"), "serve", str(folder), "--host", "127.0.0.1", "--port", str(port),
        "--device", "cpu", "--dtype", "float32", "--log-level", "error",
    ]  # fmt: skip


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    commands.add_parser("model").add_argument("folder", type=Path)
    serve = commands.add_parser("serve")
    serve.add_argument("folder", type=Path)
    serve.add_argument("port", type=int)
    given = parser.parse_args()
    if given.command == "install":
        install()
    elif given.command == "model":
        make_model(given.folder)
    else:
        command = serve_command(given.folder, given.port)
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
