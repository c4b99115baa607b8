"""A saliency network in an ONNX file, which maps one image to one saliency map, with U²-Net's preprocessing."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, ModelFailed, printable
from strobe.core.ports import Image
from strobe.models.onnx_files import digest_of_onnx, open_session
from strobe.models.options import LoadOptions

_SIDE = 320
"""The input's side length if the file does not fix it."""

_MEAN, _STD = np.array([0.485, 0.456, 0.406], dtype=np.float32), np.array([0.229, 0.224, 0.225], dtype=np.float32)
_SLACK = 1e-3


class Saliency:
    """An onnxruntime session whose first output is a map in 0–1. Pixels above 0.5 are the object."""

    def __init__(self, path: Path, options: LoadOptions) -> None:
        self._path = path
        self._session, self.device = open_session(path, options)
        self._input = self._session.get_inputs()[0]
        self.digest = digest_of_onnx(path)
        shape = self._input.shape
        if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
            raise InvalidFile(path, f"its input has shape {printable(shape)}, expected an image (1, 3, height, width)")
        high, wide = (side if isinstance(side, int) and side > 0 else _SIDE for side in shape[2:])
        self._size_wh = (wide, high)

    def map(self, image: Image) -> NDArray[np.float32]:
        """Return the saliency of each pixel of the image, (height, width), 0–1."""
        from PIL import Image as Pillow

        resized = Pillow.fromarray(image).resize(self._size_wh, Pillow.Resampling.BILINEAR)
        small = np.asarray(resized, dtype=np.float32)
        pixels = small / max(1.0, float(small.max()))  # the network was trained on images scaled to a maximum of one
        batch = ((pixels - _MEAN) / _STD).transpose(2, 0, 1)[None].astype(np.float32)
        try:
            saliency = np.asarray(self._session.run(None, {self._input.name: batch})[0], dtype=np.float32).squeeze()
        except Exception as error:  # onnxruntime raises its own classes
            raise ModelFailed(f"{printable(self._path.name)}: {printable(error, limit=160)}") from error
        if (
            saliency.ndim != 2
            or not np.isfinite(saliency).all()
            or saliency.min() < -_SLACK
            or saliency.max() > 1 + _SLACK
        ):
            raise ModelFailed(
                f"{printable(self._path.name)}: its first output, of shape {saliency.shape}, is not a map of values "
                "0–1; use a saliency network such as u2netp"
            )
        whole = Pillow.fromarray(saliency).resize((image.shape[1], image.shape[0]), Pillow.Resampling.BILINEAR)
        return np.asarray(np.clip(np.asarray(whole), 0, 1), dtype=np.float32)

    def mask(self, image: Image) -> NDArray[np.bool_]:
        """Return a mask of the object's pixels."""
        return np.asarray(self.map(image) > 0.5)
