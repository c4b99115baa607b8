"""Run strobe's command line as on a machine without PyTorch: `python absent.py WORDS…`."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

ABSENT = (
    "torch", "torchvision", "timm", "safetensors", "transformers", "open_clip", "onnx", "onnxscript", "ultralytics",
    "efficientnet_lite_pytorch", "diffusers", "pytorch_pretrained_biggan", "triton",
)  # fmt: skip


class _Others(MetaPathFinder):
    """The finders of this Python, except for the absent packages."""

    def __init__(self, finders: list[Any]) -> None:
        self._finders = finders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where a module is; None if it is absent."""
        if name.partition(".")[0] in ABSENT:
            return None
        found = (finder.find_spec(name, path, target) for finder in self._finders if hasattr(finder, "find_spec"))
        return next((spec for spec in found if spec is not None), None)

    def find_distributions(self, *context: Any) -> Any:
        """Return the installed packages, except for the absent ones."""
        for finder in self._finders:
            for one in finder.find_distributions(*context) if hasattr(finder, "find_distributions") else ():
                if one.name.lower().replace("-", "_") not in ABSENT:
                    yield one


def hide() -> None:
    """Make the packages impossible to find from now on. None of them may be loaded already."""
    sys.meta_path[:] = [_Others(list(sys.meta_path))]


if __name__ == "__main__":
    hide()
    from strobe.cli.main import main

    sys.argv[0] = "strobe"
    main()
