"""What CONTRIBUTING.md shows runs as it stands there: a metric with its test, and a model of one's own."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from strobe.core.errors import InvalidValue
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
METRIC, TEST, MODEL = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_add_a_metric() -> None:
    names: dict[str, object] = {"__name__": "contributing"}
    exec(compile(METRIC + TEST, "<CONTRIBUTING.md>", "exec"), names)
    share_right, check = names["share_right"], names["test_share_right_counts"]
    assert callable(share_right)
    assert callable(check)
    check()
    with pytest.raises(InvalidValue, match="at least one answer"):
        share_right(np.zeros(0, dtype=bool))
    example = doctest.DocTestParser().get_doctest(str(share_right.__doc__), names, "share_right", "CONTRIBUTING.md", 0)
    assert doctest.DocTestRunner().run(example) == doctest.TestResults(failed=0, attempted=1)


def test_add_a_model(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(MODEL)
    model = load_model(f"py:{tmp_path}/my_model.py:make", LoadOptions())
    blue = np.zeros((4, 6, 3), dtype=np.uint8)
    blue[:, :, 2] = 200
    assert model.spec.label_space.names == ("red", "green", "blue")
    scores = model.forward([model.prepare(blue)])
    assert np.asarray(scores).argmax(axis=1).tolist() == [2]
