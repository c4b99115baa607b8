"""What a user reads of the golden runs stays: pages, the terminal and the files of models (tests/golden/snapshots).

After a change of texts that is meant, `python scripts/make_golden.py --snapshots` writes them again.
"""

import difflib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "golden_snapshots.py"
AGAIN = "if the change is meant, run: python scripts/make_golden.py --snapshots"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_snapshots", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = _script()


def _differences(name: str, after: str) -> list[str]:
    """A unified diff of a snapshot and what is there now."""
    path = maker.SNAPSHOTS / name
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), name, "now", n=1, lineterm=""))


@pytest.mark.parametrize("part", maker.PARTS)
def test_texts_are_those_of_the_snapshot(part: str) -> None:
    lines = [line for name, text in maker.snapshots(part).items() for line in _differences(name, text)]
    more = f"\n… and {len(lines) - 80} more lines" if len(lines) > 80 else ""
    assert not lines, "\n".join(lines[:80]) + f"{more}\n{AGAIN} {part}"


def test_every_snapshot_belongs_to_a_part() -> None:
    names = {path.name.partition(".")[0] for path in maker.SNAPSHOTS.iterdir()}
    assert set(maker.PARTS) <= names <= {*maker.PARTS, *(f"study-{name}" for name in maker.OF_ANNEXES)}


def test_snapshots_hold_nothing_of_the_machine_or_the_hour() -> None:
    here = (str(Path.home()), sys.prefix, str(SCRIPT.parents[1]), "/tmp/", sys.version.split()[0], "UTC 20")
    for path in maker.SNAPSHOTS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not [word for word in here if word in text], path.name


PAGE = """<head><title>A page</title><style>p {}</style></head><body><h2>Two &amp; three</h2>
<p>One <b>bold</b>, word.</p><p hidden>By Friday.</p><img alt="a cat">
<table><tr><th title="why">a</th><th>b</th></tr><tr><td>1.5</td><td>2</td></tr></table>
<figure><svg><text>ball</text><text>20</text><title>ball: 20</title></svg><figcaption>How many?</figcaption></figure>
<script type="application/json" id="gallery-data">{"sets": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
"pictures": ["data:image/png;base64,AA"]}</script><script>run()</script></body>"""


def test_the_text_of_a_page_is_what_is_read_in_order() -> None:
    digest = maker.page_text(PAGE, Path("nowhere")).splitlines()[-1]
    assert maker.page_text(PAGE, Path("nowhere")).splitlines() == [
        "A page",
        "## Two & three",
        "One bold, word.",
        "By Friday.",
        "[alt: a cat]",
        "| [title: why] a | b",
        "| 1.5 | 2",
        "ball",
        "ball: 20",
        "Caption: How many?",
        ': {"pictures": 1}',
        'sets[0]: {"id": "a"}',
        'sets[1]: {"id": "b"}',
        digest,
    ]
    assert digest.startswith("digest of further sets: ")
    assert maker.page_text(PAGE.replace('"c"', '"d"'), Path("nowhere")).splitlines()[-1] != digest


def test_a_changed_word_is_shown_as_a_diff() -> None:
    name = "video-py.terminal.txt"
    text = (maker.SNAPSHOTS / name).read_text(encoding="utf-8")
    assert _differences(name, text) == []
    changed = _differences(name, text.replace("acc_orig", "accuracy", 1))
    assert [line[0] for line in changed[3:] if line[0] in "-+"] == ["-", "+"]
