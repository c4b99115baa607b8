"""A lawful folder to break."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_folder import edit_info, example, searched

from strobe.store import dataset_folder as folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lawful folder whose tables may be edited: the recorded hashes are taken out."""
    folder.write(example(), tmp_path / "set")
    edit_info(tmp_path / "set", files={})
    return tmp_path / "set"


@pytest.fixture
def searched_place(tmp_path: Path) -> Path:
    """The same of format 2."""
    folder.write(searched(), tmp_path / "set")
    edit_info(tmp_path / "set", files={})
    return tmp_path / "set"
