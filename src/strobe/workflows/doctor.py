"""Report installed and missing packages, the commands that install them, and the devices with their speed."""

import os
import platform
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import StrobeError, install_line, printable
from strobe.core.late import Registry, installed_version, require, too_old
from strobe.models.providers import declared

_PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("numpy", "", "everything"),
    ("pyarrow", "", "everything"),
    ("Pillow", "", "images"),
    ("matplotlib", "report", "figures of the report"),
    ("jinja2", "report", "the report"),
    ("av", "video", "strobe build, strobe simulate --h264"),
    ("onnxruntime", "onnx", "bundled models, onnx:, masks of --segment"),
    ("openvino", "openvino", "--backend openvino"),
    ("torch", "models", "GPUs, training, gradients (attacks, searches), --backend torch, other models"),
    ("onnx", "models", "--backend onnxruntime of a torch model"),
    ("efficientnet_lite_pytorch", "models", "efficientnet-lite with PyTorch: --backend torch, training, gradients"),
    ("safetensors", "models", "weights that cannot run code"),
    ("fastapi", "review", "strobe review serve"),
    ("sqlalchemy", "review", "the database of votes"),
    ("psycopg", "postgres", "votes in PostgreSQL"),
    ("ray", "ray", "--engine ray"),
    ("tritonclient", "kserve-grpc", "kserve: with an address that begins with grpc://"),
)


REGISTRIES: Registry[Registry[Any]] = Registry(
    "registries",
    Registry,
    "list",
    {
        "providers": "strobe.models.providers:PROVIDERS",
        "import_formats": "strobe.formats.registry:IMPORT_FORMATS",
        "export_formats": "strobe.formats.registry:EXPORT_FORMATS",
        "studies": "strobe.report.study:STUDIES",
    },
    closed=True,
)
"""Every registry that packages can add members to."""


def _packages() -> list[tuple[str, str, str]]:
    """Return every package with its extra and purpose, from the table above and from the declarations of providers."""
    packages = {package: (package, extra, what) for package, extra, what in _PACKAGES}
    for _, entry in declared():
        for package, what in ((entry.pip or entry.package, entry.what), *entry.also):
            packages.setdefault(package, (package, entry.extra, what))
    return list(packages.values())


def examine(*, speed: bool = True) -> dict[str, Any]:
    """Return everything that `strobe doctor` prints, as plain data."""
    return {
        "strobe": installed_version() or "not installed (running from source)",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": [
            {
                "package": package,
                "version": installed_version(package),
                "for": what,
                "get": install_line(extra),
            }
            for package, extra, what in _packages()
        ],
        "too_old": [
            {
                "package": name,
                "version": installed_version(name),
                "needs": least,
                "get": f"pip install '{name}>={least}'",
            }
            for name, least in too_old().items()
        ],
        "plugins": _plugins(),
        "devices": _devices(speed=speed),
        "places": _places(),
    }


def _plugins() -> list[dict[str, str]]:
    """Return the members that installed packages add to strobe's registries, and a line for each unusable member."""
    members: list[dict[str, str]] = []
    for registry in REGISTRIES.own_members().values():
        rows = [(name, plugin.package, "") for name, plugin in registry.plugins.items()]
        known = {member["problem"] for member in members}
        rows += [("", "", line) for line in registry.problems() if line not in known]
        members += [
            {"group": registry.group or "", "name": name, "package": package, "problem": problem}
            for name, package, problem in rows
        ]
    return members


def _devices(*, speed: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"device": "cpu", "name": platform.processor() or platform.machine(), "note": ""}]
    if find_spec("torch") is None:
        rows[0]["note"] = "torch is missing, so GPUs are not listed"
    else:
        try:
            rows += _accelerators()
        except StrobeError as error:
            rows[0]["note"] = printable(error)
    if speed:
        for row in rows:
            row |= _speed(row["device"])
    return rows


def _accelerators() -> list[dict[str, Any]]:
    torch = require("torch", what="the list of devices", extra="models")
    rows: list[dict[str, Any]] = []
    for place in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(place)
        name = f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB"
        rows.append({"device": f"cuda:{place}", "name": name, "note": ""})
    if torch.backends.mps.is_available():
        rows.append({"device": "mps", "name": "Apple GPU", "note": ""})
    return rows


def _speed(device: str) -> dict[str, Any]:
    """Return images per second of a bundled model, or of a small network if none is installed."""
    from strobe.models.cores import sharing_cores
    from strobe.models.options import LoadOptions
    from strobe.models.registry import load_model

    try:
        model: Any = load_model("efficientnet-lite0", LoadOptions(device=device))
        image = np.zeros((256, 256, 3), dtype=np.uint8)
        batch = [model.prepare(image)] * model.spec.batch_size
        with sharing_cores([model]), ThreadPoolExecutor(model.lanes) as lanes:
            list(lanes.map(model.forward, [batch] * model.lanes))
            begin, n = time.perf_counter(), 0
            while time.perf_counter() - begin < 1.0:
                list(lanes.map(model.forward, [batch] * model.lanes))
                n += len(batch) * model.lanes
            return {"images_per_s": n / (time.perf_counter() - begin), "network": "efficientnet-lite0"}
    except StrobeError as error:
        return {"note": f"not timed: {error}"}


def _places() -> list[dict[str, str]]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    from strobe.models.downloads import hub_reachable

    return [
        {"what": "free space here", "state": f"{free:.1f} GiB"},
        {"what": "temporary files", "state": tempfile.gettempdir()},
        {
            "what": "model hub",
            "state": "reachable"
            if hub_reachable(timeout_s=2.0)
            else "not reachable; use bundled models or local weights (@FILE)",
        },
    ]
