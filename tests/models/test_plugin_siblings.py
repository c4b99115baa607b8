"""What lies beside somebody's file: its own modules for each, and answers that follow what it read."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

PETS = LabelSpace.of_names("pets", ["cat", "dog"])
IMAGE = np.zeros((4, 4, 3), dtype=np.uint8)

MODEL = """\
import numpy as np
{imports}

def make():
    return (lambda images: np.full((len(images), 2), {value})), ["cat", "dog"]
"""


class Notes(Silent):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """One line."""
        self.lines.append(text)


def _load(path: Path, **options: Any) -> Any:
    return load_model(f"py:{path}:make", LoadOptions(device="cpu", label_space=PETS, **options))


def _value(model: Any) -> float:
    return float(model.forward([model.prepare(IMAGE)])[0, 0])


def _two(root: Path, files: dict[str, str]) -> list[Path]:
    """Two folders a and b with these files; @N in them is 1 and 2."""
    for number, name in enumerate("ab", start=1):
        for file, text in files.items():
            path = root / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("@N", str(number)))
    return [root / "a/model.py", root / "b/model.py"]


@pytest.mark.parametrize(
    ("imports", "value", "files"),
    [
        ("import net", "net.VALUE", {"net.py": "VALUE = @N\n"}),
        ("from net import VALUE", "VALUE", {"net.py": "from deeper import VALUE\n", "deeper.py": "VALUE = @N\n"}),
        ("import kit.net", "kit.net.VALUE", {"kit/__init__.py": "", "kit/net.py": "from .low import VALUE\n",
                                             "kit/low.py": "VALUE = @N\n"}),
        ("from kit import net", "net.VALUE", {"kit/net.py": "VALUE = @N\n"}),
        ("import importlib", "NET", {"net.py": "VALUE = @N\n"}),
        ("import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'src'))\nimport deepkit",
         "deepkit.VALUE", {"src/deepkit.py": "VALUE = @N\n"}),
        ("import net", "net.value()", {"net.py": "import model\nOWN = @N\ndef value():\n    return model.net.OWN\n"}),
    ],
    ids=["module", "module of a module", "package", "namespace", "import_module", "own sys.path", "circle"],
)  # fmt: skip
def test_each_file_has_its_own_modules(imports: str, value: str, files: dict[str, str], tmp_path: Path) -> None:
    """Before, `import net` failed, or gave every model the first one's."""
    text = MODEL.format(imports=imports, value=value)
    if value == "NET":
        text = text.replace("def make():", "def make():\n    NET = importlib.import_module('net').VALUE")
    before = list(sys.path), set(sys.modules)
    models = [_load(path) for path in _two(tmp_path, {"model.py": text, **files})]
    assert [_value(model) for model in models] == [1, 2]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(_value, models * 4)) == [1, 2] * 4
    assert sys.path == before[0]
    new = {name.partition(".")[0] for name in set(sys.modules) - before[1]}
    assert not new & {"net", "kit", "deepkit", "deeper", "model"}


def test_installed_packages_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of cv2: it imports itself again by name, from a folder that the file puts on `sys.path`."""
    package = tmp_path / "installed" / "fakecv"
    package.mkdir(parents=True)
    (package.parent / "fakecv-1.0.dist-info").mkdir()
    (package / "__init__.py").write_text("import sys\nVALUE = 7 if sys.modules['fakecv'].__name__ == 'fakecv' else 0\n")
    (package / "late.py").write_text("VALUE = 1\n")
    imports = f"import sys\nsys.path.append({str(package.parent)!r})\nimport fakecv\n"
    imports += "def late():\n    from fakecv.late import VALUE\n    return VALUE + fakecv.VALUE"
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(imports=imports, value="late()"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert _value(_load(path)) == 8
    assert sys.path[-1] == str(package.parent)
    for name in ("fakecv", "fakecv.late"):
        monkeypatch.delitem(sys.modules, name)


def test_a_file_loaded_again_has_its_modules_as_they_are_now(tmp_path: Path) -> None:
    path, _ = _two(
        tmp_path, {"model.py": MODEL.format(imports="import net", value="net.VALUE"), "net.py": "VALUE = @N"}
    )
    first = _load(path)
    path.with_name("net.py").write_text("VALUE = 5")  # in the same second, of the same size
    second = _load(path)
    assert [_value(first), _value(second)] == [1, 5]
    assert first.spec.weights != second.spec.weights


READS = {
    "text": "Path(PLACE + 'w.txt').read_text()",
    "numpy": "np.load(PLACE + 'w.npy')",
    "torch": "__import__('torch').load(PLACE + 'w.pt')",
}


@pytest.mark.parametrize("when", ["at import", "in the factory", "at the first forward", "in a thread"])
@pytest.mark.parametrize("how", ["text", "numpy", "torch"])
def test_a_file_that_was_read_is_part_of_the_key(how: str, when: str, tmp_path: Path) -> None:
    """Before, a function whose weights file changed was not predicted again: 65.0 shown, 55.0 true."""
    import torch

    # The names of the files stand in no string, so that nothing but the reading of them shows.
    code = READS[how].replace("'w.", "'w' + '.' + '")
    lines = [
        "import os, threading",
        "from pathlib import Path",
        "import numpy as np",
        "PLACE = os.path.dirname(__file__) + '/'",
        "VALUE = None",
    ]
    lines += ["def read():", "    global VALUE", f"    VALUE = float({code})"]
    lines += ["read()"] if when == "at import" else []
    lines += ["def make():"]
    lines += ["    read()"] if when == "in the factory" else []
    lines += ["    one = threading.Thread(target=read); one.start(); one.join()"] if when == "in a thread" else []
    lines += ["    return scores, ['cat', 'dog']", "def scores(images):"]
    lines += ["    VALUE or read()", "    return np.full((len(images), 2), VALUE)"]
    path = tmp_path / "mine.py"
    path.write_text("\n".join(lines))
    keys = []
    for value in (1.0, 2.0, 1.0):
        (tmp_path / "w.txt").write_text(str(value))
        np.save(tmp_path / "w.npy", value)
        torch.save(torch.tensor(value), tmp_path / "w.pt")
        model = _load(path)
        keys.append(model.spec.weights)
        assert _value(model) == value
    assert keys[0] == keys[2] != keys[1]


def test_a_relative_path_that_misses_the_file_beside_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/ci.md: base/model.py read the pull request's weights, and both models had the same figures."""
    text = MODEL.format(imports="", value="np.load('w.npy')")
    paths = [tmp_path / "model.py", tmp_path / "base/model.py"]
    for value, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        np.save(path.with_name("w.npy"), value)
    monkeypatch.chdir(tmp_path)
    notes = Notes()
    _load(Path("model.py"), progress=notes)
    assert notes.lines == []
    _load(Path("base/model.py"), progress=notes)
    assert notes.lines == [
        f"{tmp_path}/base/model.py: it read {tmp_path}/w.npy from the working directory, not the file of that name in "
        "its own folder; use Path(__file__).parent, or give the file after @"
    ]


GENERATOR = """\
from parts import LEVEL

def make():
    raise RuntimeError(f"level {LEVEL}")
"""


def test_generators_have_their_own_modules_too(tmp_path: Path) -> None:
    load_generator = pytest.importorskip("strobe.annexes.generators.providers").load_generator
    for number, path in enumerate(_two(tmp_path, {"model.py": GENERATOR, "parts.py": "LEVEL = @N\n"}), start=1):
        with pytest.raises(ModelFailed, match=f"level {number}"):
            load_generator(f"py:{path}:make", LoadOptions(device="cpu"))
