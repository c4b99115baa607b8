"""A training folder from somebody else: a link at every place, and nothing outside is read or written."""

from pathlib import Path

import pytest

from strobe.core.errors import InvalidFile, StrobeError
from strobe.train.folder import Point, TrainFolder

POINT = Point(step=1, epoch=0.1, seconds=1.0, learning_rate=0.1, loss=1.0, acc_orig=0.5, acc_pmk=0.4)


@pytest.mark.parametrize("name", ["training.json", "checkpoint.pt", "curves.csv", "recipe.toml"])
def test_a_link_in_a_training_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "training", {"seed": 1})
    with folder.held():
        folder.begin({"recipe.toml": "seed = 1\n"})
        folder.save({"step": 1}, [POINT])
    outside = tmp_path / "outside"
    (folder.path / name).rename(outside)
    (folder.path / name).symlink_to(outside)
    before = outside.read_bytes()
    with folder.held():
        try:
            folder.is_done()
            folder.load(device="cpu")
        except InvalidFile as error:
            assert "leads out of the folder" in str(error)  # noqa: PT017 (which of the two reads it depends on the file)
        else:
            assert name in ("curves.csv", "recipe.toml"), "what is read must be refused"
            folder.save({"step": 2}, [POINT])
    assert outside.read_bytes() == before


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "training", {"seed": 1})
    (tmp_path / "training").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "training/.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(StrobeError), folder.held():
        pytest.fail("held")
    assert (tmp_path / "mine").read_text() == "mine"
