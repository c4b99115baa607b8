"""The classes that a model lacks, as its run or its file of predictions records them."""

import pytest

import strobe
from strobe.analyses.ceilings import Ceilings
from strobe.core.errors import InvalidValue

DATASET = strobe.example_dataset(n_videos=2, k=2)


def test_a_file_lists_the_classes_that_it_lacks() -> None:
    own = DATASET.info.label_space
    found = Ceilings(DATASET).of({"space": own.name, "childless": '["dog"]'})
    assert found is not None
    assert found.source == "the file's list of classes"
    assert found.childless == ("dog",)


@pytest.mark.parametrize("kept", ["2", "{}", "[2]", '"a', "null", '"text"'])
def test_another_list_is_refused(kept: str) -> None:
    for ceiling in (Ceilings(DATASET).of, Ceilings(DATASET).of_detector):
        with pytest.raises(InvalidValue, match="childless: expected a list of the dataset's classes"):
            ceiling({"space": DATASET.info.label_space.name, "childless": kept})
