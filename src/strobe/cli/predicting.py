"""The options of all commands that run models, passed as one record."""

from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import click_option, options, progress
from strobe.core.options import options_of
from strobe.engine.running import Running

if TYPE_CHECKING:
    from strobe.engine.running import Running
    from strobe.models.options import LoadOptions

_MODEL = (
    "[NAME=]provider:model[@FILE], a glob in quotes, boxes:DETECTOR, crop:FROM:MODEL, preds:FILE, @testbed or "
    "@LIST.toml. May be repeated. strobe models lists the names."
)

model_option = click.option("-m", "--model", "models", multiple=True, required=True, metavar="MODEL", help=_MODEL)
model_or_people_option = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help=f"{_MODEL} Optional if people named the images.",
)

_FLAGS = {name: click_option(option) for name, option in options_of(Running).items()}
_DEVICE = ("device", "batch_size", "precision", "image_size", "settings")
_SPEED = ("workers", "decode", "models_at_once", "backend", "compile", "stop_early", "repeat")
_REMOTE = ("limits", "max_requests", "max_cost", "prompt")
_TRUST = ("deterministic", "trust", "offline")
_ENGINE = ("engine", "actors", "actor_cores", "actor_gpus")

merge_option = _FLAGS["merge"]


def _running(**values: Any) -> Running:
    from strobe.models.cores import share_one_heap

    share_one_heap(values["device"])
    return Running(**values)


def _loading(**values: Any) -> "LoadOptions":
    params = click.get_current_context().params
    return _running(**values).loading(None if params.get("quiet") or params.get("as_json") else progress())


predicting_options = options(
    "prediction",
    "Running models",
    _running,
    *(_FLAGS[name] for name in (*_DEVICE, *_SPEED, *_REMOTE, *_TRUST, "retry_errors")),
    common=("device", "batch_size", "precision", "stop_early", "offline"),
)
"""The options of a command that runs models, passed as `prediction`. `--merge` is declared separately."""

loading_options = options(
    "load",
    "Running models",
    _loading,
    *(_FLAGS[name] for name in (*_DEVICE, *_TRUST)),
    common=("device", "batch_size", "offline"),
)
"""The options of a command that loads models for a purpose other than prediction, passed as `load`."""

engine_options = options(
    "engine",
    "On a cluster",
    lambda **values: Running(**values).executor(),
    *(_FLAGS[name] for name in _ENGINE),
    common=(),
)
"""Where the long work of a command runs, passed as `engine`."""
