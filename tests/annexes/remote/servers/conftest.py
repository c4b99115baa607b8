"""Models that strobe ships, as ONNX files, behind real servers."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# MLServer imports the first, in another environment. The second needs the extra kserve-grpc.
collect_ignore = ["mlserver_runtime", "v2_grpc.py"]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with world.onnx and tiny.onnx and their settings."""
    from served_models import write_models

    folder = tmp_path_factory.mktemp("served")
    write_models(folder)
    return folder
