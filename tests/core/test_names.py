"""Short names: unique where the names are, no folder that is not needed, never a path."""

from hypothesis import given
from hypothesis import strategies as st

from strobe.core.names import short_models, short_names

PARTS = st.sampled_from(["val", "clip1", "clip2", "000010", "000010.JPEG", "000010.png", "a b", "dog@7"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8)


@given(NAMES)
def test_names_are_told_apart_and_are_no_paths(names):
    found = short_names(names)
    assert all("/" not in name and name for name in found)
    for a, short_a in zip(names, found, strict=True):
        for b, short_b in zip(names, found, strict=True):
            assert (short_a == short_b) == (a == b), (a, b)


def test_a_name_keeps_only_what_tells_it_apart():
    assert short_names(["/data/x/run", "/data/y/run", "/data/third"]) == ["x·run", "y·run", "third"]
    assert short_names(["a/b.png", "a/b.jpg"]) == ["a·b.png", "a·b.jpg"]
    assert short_names(["photos\\dog.png", "/"]) == ["dog", "/"]
    assert short_names([]) == []


MODELS = st.tuples(
    st.sampled_from(["py:", "onnx:", "hf:", "crop:truth:onnx:", "timm:"]),
    NAMES,
    st.sampled_from(["", ".onnx", ".py:make", ".pt2", ".npz"]),
    st.sampled_from(["", "@w", "@x/w"]),
)


@given(st.lists(MODELS.map(lambda one: one[0] + one[1][0] + one[2] + one[3]), max_size=8))
def test_models_are_told_apart(names):
    found = short_models(names)
    assert len(set(found)) == len(set(names))
    ends = (".onnx", ".py:make", ".pt2", ".npz")
    assert all("/" not in short for short in found if ":" in short and short.partition("@")[0].endswith(ends))


def test_a_model_of_a_file_is_called_by_the_file():
    assert short_models(["py:/tmp/deep/er/finder.py:make"]) == ["py:finder.py:make"]
    assert short_models(["py:finder.py:make", "py:/tmp/finder.py:make"]) == [
        "py:finder.py:make",
        "py:tmp·finder.py:make",
    ]
    assert short_models(["py:C:\\nets\\f.py:make@w/a.bin", "x"]) == ["py:f.py:make@a.bin", "x"]
    assert short_models(["hf:/data/vit", "hf:vit", "openclip:ViT-L-14/openai"])[1:] == [
        "hf:vit",
        "openclip:ViT-L-14/openai",
    ]
    assert short_models([]) == []
