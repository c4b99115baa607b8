"""Masks that a user gives for images."""

from pathlib import Path

import pytest

from strobe.annexes.backgrounds.object_files import mask_files
from strobe.core.errors import StrobeError


def test_a_folder_with_the_name_of_an_image_is_not_its_mask(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(StrobeError, match="no PNG file"):
        mask_files(tmp_path, ["a.png", "b.png"])
    (tmp_path / "b.png").touch()
    assert mask_files(tmp_path, ["a.png", "b.png"]) == {"b.png": tmp_path / "b.png"}
