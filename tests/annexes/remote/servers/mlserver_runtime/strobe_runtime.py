"""An MLServer runtime that runs an ONNX file. It is imported by MLServer, in an environment without strobe."""

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    """The ONNX file at the model's uri."""

    async def load(self) -> bool:
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = {one.name: self.decode(one, default_codec=NumpyCodec) for one in payload.inputs}
        names = [one.name for one in payload.outputs or self._session.get_outputs()]
        arrays = self._session.run(names, inputs)
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output(name, array) for name, array in zip(names, arrays, strict=True)],
        )
