"""Models behind an address for the contracts of classifiers and detectors (tests/contracts), with services of ours."""

import sys
from pathlib import Path
from typing import Any

import pytest
from made_cases import SERVERS, Case, onnx

from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

sys.path.insert(0, str(Path(__file__).parent / "servers"))


def _behind(folder: Path, *, binary: bool) -> Case:
    from v2_server import V2Server

    onnx(folder)
    server = SERVERS.enter_context(V2Server({"net": folder / "net.onnx"}, binary=binary))
    return Case(f"kserve:net@{server.url}", None, 4, settings=folder / "net.json")


def kserve_binary(folder: Path) -> Case:
    return _behind(folder, binary=True)


def kserve_json(folder: Path) -> Case:
    return _behind(folder, binary=False)


def kserve_grpc(folder: Path) -> Case:
    pytest.importorskip("tritonclient.grpc", reason="the extra kserve-grpc")
    from v2_grpc import GrpcServer

    onnx(folder)
    server = SERVERS.enter_context(GrpcServer({"net": folder / "net.onnx"}))
    return Case(f"kserve:net@{server.url}", None, 4, settings=folder / "net.json")


def kserve_detector(folder: Path, real: Any) -> Any:
    from v2_server import V2Server

    path = real.export(folder / "m.onnx", "yolov8", settings={"task": "detection", "labels": ["red", "green", "blue"]})
    server = SERVERS.enter_context(V2Server({"m": path}))
    return load_model(f"kserve:m@{server.url}", LoadOptions(settings=path.with_suffix(".json")))


CLASSIFIERS = {maker.__name__: maker for maker in (kserve_binary, kserve_json, kserve_grpc)}
DETECTORS = {"kserve": kserve_detector}
