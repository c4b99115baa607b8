"""Python files that travel: what goes along, what stays, and that what arrives is what was sent."""

import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.models import travel
from strobe.models.options import LoadOptions
from strobe.models.registry import sendable
from strobe.models.travel import pack, unpack

PETS = LabelSpace.of_names("pets", ["cat", "dog"])
FILES = {
    "mine.py": """\
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from kit import half
import late_one

NAMES = Path(__file__).with_name("names.txt").read_text().split()

def make(options):
    matrix = np.load(options.weights) * half() + late_one.added()
    return (lambda images: np.stack([image.reshape(-1, 3).mean(axis=0) @ matrix for image in images])), NAMES
""",
    "kit/__init__.py": "from .deep.number import half\n",
    "kit/deep/__init__.py": "",
    "kit/deep/number.py": "def half():\n    return 0.5\n",
    "late_one.py": "import importlib\n\ndef added():\n    return importlib.import_module('later').ADDED\n",
    "later.py": "ADDED = 1\n",
    "names.txt": "cat dog",
    "unrelated.py": "raise SystemExit\n",
    "large.bin": "x" * 100,
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    np.save(tmp_path / "w.npy", np.arange(6.0).reshape(3, 2))
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


CHILD = """
import pickle, sys
import numpy as np
from strobe.models.registry import load_model
text, options = pickle.load(sys.stdin.buffer)
model = load_model(text, options)
image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
sys.stdout.buffer.write(pickle.dumps((model.spec.weights, dict(model.spec.preprocessing),
                                      np.asarray(model.forward([model.prepare(image)])), str(model._path.parent))))
"""


def there(text: str, options: LoadOptions, cwd: Path) -> Any:
    """What another process makes of it, in another folder."""
    sent = pickle.dumps((text, options))
    done = subprocess.run([sys.executable, "-c", CHILD], input=sent, capture_output=True, check=True, cwd=cwd)
    return pickle.loads(done.stdout)


def test_a_machine_without_the_file_gets_the_same_model_under_the_same_key(home: Path, tmp_path: Path) -> None:
    text, options = sendable("py:mine.py:make@../w.npy", LoadOptions(label_space=PETS, device="cpu"))
    assert text == f"py:mine.py:make@{home / '../w.npy'}"  # as it was written, as models are named by it
    assert set(options.code["mine.py"].files) == FILES.keys() - {"unrelated.py", "large.bin"}
    near = there(text, options, tmp_path)
    assert near[3] == str(home)  # the very bytes lie there: the file is run where it is
    here = there("py:mine.py:make@../w.npy", LoadOptions(label_space=PETS, device="cpu"), home)
    shutil.rmtree(home)
    home.mkdir()
    far = there(text, options, tmp_path)
    cached = tmp_path / "cache/code" / options.code["mine.py"].digest
    assert far[3] == str(cached)
    assert near[:2] == far[:2] == here[:2]
    assert near[2].tobytes() == far[2].tobytes() == here[2].tobytes()
    # Somebody else's file of that name there is not run, and what was spoiled in the cache is put right.
    (home / "mine.py").write_text("raise SystemExit\n")
    (cached / "later.py").write_text("ADDED = 2\n")
    assert there(text, options, tmp_path)[2].tobytes() == near[2].tobytes()
    assert (cached / "later.py").read_text() == FILES["later.py"]


def test_many_that_unpack_at_once_leave_one_whole_folder(home: Path, tmp_path: Path) -> None:
    parcel = replace(pack(home / "mine.py"), home=tmp_path / "nowhere")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(unpack, [parcel] * 16))
    (path,) = found
    names = {
        one.relative_to(path.parent).as_posix(): one.read_bytes() for one in path.parent.rglob("*") if one.is_file()
    }
    assert names == dict(parcel.files)


def test_the_digest_is_of_what_travels_alone(home: Path, tmp_path: Path) -> None:
    before = pack(home / "mine.py").digest
    (home / "unrelated.py").write_text("")
    shutil.copytree(home, tmp_path / "elsewhere")
    assert pack(tmp_path / "elsewhere/mine.py").digest == before
    (home / "later.py").write_text("ADDED = 3\n")
    assert pack(home / "mine.py").digest != before


def test_what_is_too_large_has_to_be_there(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(travel, "_LARGE", 99)
    (home / "big.py").write_text("def make():\n    return open('large.bin')\n")
    parcel = pack(home / "big.py")
    assert (list(parcel.files), dict(parcel.left)) == (["big.py"], {"large.bin": 100})
    assert unpack(parcel) == home / "big.py"
    with pytest.raises(ModelFailed, match=r"large\.bin next to it \(0 MiB\) is too large to send, and this machine"):
        unpack(replace(parcel, home=tmp_path / "nowhere"))
    monkeypatch.setattr(travel, "_MOST", 10)
    with pytest.raises(ModelFailed, match="too large to send"):
        pack(home / "mine.py")


def test_nothing_outside_the_folder_goes_along(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("no")
    (home / "odd.py").write_text(
        f"from .. import secret\nA = ['../secret.txt', {str(tmp_path / 'secret.txt')!r}, 'x\\0y']\n"
    )
    assert list(pack(home / "odd.py").files) == ["odd.py"]
    (home / "broken.py").write_text("def (\n")
    assert list(pack(home / "broken.py").files) == ["broken.py"]  # running it says where


def test_other_files_are_named_by_whole_paths(home: Path) -> None:
    plain = LoadOptions(settings=Path("s.json"))
    (home / "net.onnx").touch()
    assert sendable("onnx:net.onnx", plain)[0] == f"onnx:{home / 'net.onnx'}"
    assert sendable("timm:resnet50@w.pt", plain)[0] == f"timm:resnet50@{home / 'w.pt'}"
    assert sendable("hf:microsoft/resnet-50", plain)[0] == "hf:microsoft/resnet-50"  # of a hub, no folder here
    text, options = sendable("efficientnet-lite0", plain)
    assert (text, options.settings, options.code) == ("efficientnet-lite0", home / "s.json", {})
    with pytest.raises(ModelFailed, match="no such file"):
        sendable("py:gone.py:make", plain)
