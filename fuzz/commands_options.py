"""Commands with options for running models: another engine, backend, compiler or decoder, and early stopping."""

from fuzz.command import Command

__all__ = ["running"]

_VIDEO = "datasets/video"
_LATE = ("--no-report", "--bootstrap", "100", "-q", "--workers", "1")
_NET = ("-m", "py:net.py:make", "--device", "cpu", "-q", "--workers", "1", "-o", "runs/x")


def running() -> list[Command]:
    """Return all these commands, in a fixed order."""
    return [*_elsewhere(), *_otherwise(), *_early()]


def _elsewhere() -> list[Command]:
    """Return commands with --engine: invalid values, and clusters that are not running."""
    place, model = (_VIDEO, "models.py"), ("-m", "py:models.py:logits", "-o", "runs/x", "-q")
    away = ("--actors", "2", "--actor-cores", "1", "--actor-gpus", "0", "--device", "cpu")
    table: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
        ("engine words", ("predict", _VIDEO, *model, "--engine", "local"), place, "runs/x"),
        ("engine nobody", ("predict", _VIDEO, *model, "--engine", "ray=127.0.0.1:1", *away), place, "runs/x"),
        ("engine build", ("build", "clips/a.mp4", "out", "--label", "dog", "--k", "1", "-q", "--engine", "local"),
         ("clips/a.mp4",), "out"),
        ("engine attack", ("vary", "attack", _VIDEO, "out", "-m", "py:net.py:make", "-q", "--engine",
                           "ray=127.0.0.1:1", "--actors", "2"), (_VIDEO, "net.py"), "out"),
    )  # fmt: skip
    return [
        Command(name=name, words=words, place=laid, dest=dest, aside=laid, weight=1.0 if "words" in name else 0.5,
                refused="local" not in words)
        for name, words, laid, dest in table
    ]  # fmt: skip


def _otherwise() -> list[Command]:
    """Return commands with --backend, --compile and --decode, for models that support them and models that do not."""
    place, plain = (_VIDEO, "net.py"), ("-m", "py:models.py:logits", "-o", "runs/x", "-q")
    return [
        Command(name="backend", words=("predict", _VIDEO, *_NET, "--backend", "onnxruntime"), place=place,
               dest="runs/x", aside=("net.py",), weight=0.3),
        Command(name="backend words", words=("predict", _VIDEO, *plain, "--backend", "torch", "--decode", "cpu"),
               place=(_VIDEO, "models.py"), dest="runs/x", aside=(_VIDEO, "models.py")),
        Command(name="backend of none", words=("predict", _VIDEO, *plain, "--backend", "onnxruntime"),
               place=(_VIDEO, "models.py"), dest="runs/x", aside=("models.py",), weight=0.5, refused=True),
        Command(name="compile of none", words=("predict", _VIDEO, *plain, "--compile", "--workers", "1"),
               place=(_VIDEO, "models.py"), dest="runs/x", aside=("models.py",), weight=0.5),
        Command(name="compile and backend", words=("predict", _VIDEO, *_NET, "--compile", "--backend", "onnxruntime"),
               place=place, dest="runs/x", aside=place, weight=0.5, refused=True),
        Command(name="decode", words=("predict", "datasets/photos", *_NET, "--decode", "device"),
               place=("datasets/photos", "net.py"), dest="runs/x", aside=("net.py",), weight=0.5, refused=True),
    ]  # fmt: skip


def _early() -> list[Command]:
    """Return commands with --stop-early, which write to a new, a full or a stopped run or use unsupported models."""
    words: tuple[str, ...]
    place: tuple[str, ...]
    two = ("-m", "py:models.py:logits", "-m", "py:models.py:shares", "--stop-early", *_LATE)
    out = [
        Command(name="early", words=("eval", _VIDEO, *two, "-o", "runs/x"), place=(_VIDEO, "models.py"), dest="runs/x",
               aside=("models.py",), weight=1.5),
    ]  # fmt: skip
    for held in ("new-early", "new-video"):
        run = f"runs/{held}"
        words, place = ("eval", _VIDEO, *two, "-o", run), (_VIDEO, "models.py", run)
        out.append(Command(name=f"early into {held}", words=words, place=place, dest=run, aside=place[:2]))
    for data, model in (("boxes", "blobs"), ("varied", "logits")):
        words = ("eval", f"datasets/{data}", "-m", f"py:models.py:{model}", "--stop-early", *_LATE, "-o", "runs/x")
        place = (f"datasets/{data}", "models.py")
        out.append(
            Command(name=f"early {data}", words=words, place=place, dest="runs/x", aside=("models.py",), weight=0.5,
                    refused=True)
        )  # fmt: skip
    words = ("eval", _VIDEO, *two, "-o", "runs/x", "--k", "1", "--models-at-once", "1", "--merge", "max")
    return [*out, Command(name="early words", words=words, place=(_VIDEO, "models.py"), dest="runs/x",
                         aside=(_VIDEO, "models.py"))]  # fmt: skip
