"""Files of answers that cannot be: each is refused in one line that names its place, and nothing is taken."""

import re

import pytest

from strobe.annexes.web.review import workflow as review
from strobe.cli.main import main

VOTE, NAME = "set,frame,decision,", "frame,label,annotator,said"
BOX = "frame,label,x0,y0,x1,y1,reason,annotator"
GIANT = "x" * 200_000
"""More than one CSV field may hold."""


def vote(column: str, line: str) -> str:
    return f"{VOTE}{column}\nset0,vid0:3,similar,\nset0,vid0:1,{line}\n"


def one(ask: str, line: str) -> str:
    head = {"name": NAME, "box": BOX}[ask]
    good = {"name": "vid0:1,dog,Ann,", "box": "clip1/frame2,dog,,,,,absent,Ann"}[ask]
    return f"{head}\n{good}\n{line}\n"


SECONDS = r"line 3: seconds: expected a number from 0 to 86400, or nothing"
REFUSED = [
    ("pairs", "a.csv", "set,decision\n", "the column frame is missing"),
    ("pairs", "a.csv", "set,frame,decision\nset9,x,similar\n", "none of its 1 lines"),
    ("pairs", "a.json", "{", "not JSON"),
    ("pairs", "a.json", "{}", "expected"),
    ("pairs", "a.txt", "x", r"expected a \.json file"),
    ("pairs", "none.csv", None, "no such file"),
    ("pairs", "a.csv", f"set,frame,decision,{GIANT}\na,b,similar,\n", "not a CSV file"),
    ("pairs", "a.csv", f"set,frame,decision\n{GIANT},b,similar\n", "not a CSV file"),
    ("pairs", "a.csv", vote("note", "perhaps,"), "line 3: decision: expected similar"),
    ("pairs", "a.csv", vote("label_right", "similar,maybe"), "line 3: label_right: expected yes or no"),
    ("pairs", "a.csv", vote("at", "similar,2999-01-01"), "line 3: .*is in the future"),
    ("pairs", "a.csv", vote("at", "similar,yesterday"), "line 3: at: expected a time"),
    ("pairs", "a.csv", vote("at", "similar,0001-01-01T00:00:00+14:00"), "line 3: at: expected a time like"),
    ("pairs", "a.csv", vote("at", "similar,0500-01-01"), "line 3: .*is before 1970; leave it empty"),
    *[("pairs", "a.csv", vote("seconds", f"similar,{bad}"), SECONDS) for bad in ("nan", "-5", "inf", "soon")],
    ("pairs", "a.csv", vote("reason", "similar,blur"), "line 3: reason: only a dissimilar pair has a reason"),
    ("pairs", "a.csv", vote("stage", "similar,anchor"), "line 3: stage: vid0:1 is not the anchor of set0; leave the"),
    ("pairs", "a.csv", vote("stage", "similar,someday"), "line 3: .*pair, verify, joint or anchor"),
    ("pairs", "a.csv", vote("note", "similar,\x07"), "line 3: note: expected"),
    ("pairs", "a.csv", vote("annotator", "similar,<b>"), "line 3: name: expected"),
    ("name", "a.csv", one("name", "vid0:0,fish,,"), "line 3: .*unknown class of pets 'fish'"),
    ("name", "a.csv", one("name", "vid0:0,,,"), "line 3: .*said: expected class, none, unsure, late"),
    (
        "name",
        "a.csv",
        one("name", "vid0:0,cat,,none"),
        "line 3: NameAnswer.label: expected empty if the answer is none",
    ),
    ("name", "a.csv", one("name", "vid0:0,cat,ann,"), "line 3: .*if it is the same person, or choose another"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,1,2,1,40,,Bo"), "line 3: .*no area"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,1,2,321,40,,Bo"), "line 3: .*not inside the image of 320×200"),
    ("box", "a.csv", one("box", "clip0/frame2,zebra,1,2,30,40,,Bo"), "line 3: .*zebra"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,1,2,x,40,,Bo"), "line 3: .*expected four numbers"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,1,2,,40,,Bo"), "line 3: .*expected four numbers"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,,,,,,Bo"), "line 3: .*a reason, because the image is discarded"),
    ("box", "a.csv", one("box", "clip0/frame2,cat,1,2,30,40,,ANN"), "line 3: .*Ann"),
]


@pytest.mark.parametrize(("ask", "name", "content", "says"), REFUSED, ids=range(len(REFUSED)))
def test_a_file_that_cannot_be_is_one_line(small, tmp_path, capsys, ask, name, content, says):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["review", "import", str(small.root), str(tmp_path / name), "--ask", ask])
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1), error
    assert re.search(f"{re.escape(name)}.*{says}|{says}", error), error
    assert "line 3" not in says or f"{name}: line 3: " in error
    assert not (small.root / "review.sqlite").exists()


OTHERS = [
    (["export"], "no votes to export yet"),
    (["export", "--ask", "name"], "no answers to --ask name"),
    (["export", "--ask", "box"], "no answers to --ask box to export yet"),
    (["export", "--crops", "c"], "--crops crops images"),
    (["export", "--ask", "name", "-o", "c"], "--out writes sets, which only votes on pairs or boxes change"),
    (["export", "--ask", "box", "--unreviewed", "keep"], "--unreviewed"),
    (["serve", "--limit", "3"], "--limit only works with --ask"),
    (["serve", "--ask", "name", "--labels"], "--labels only works with --ask pairs"),
    (["serve", "--ask", "name", "--at-once", "set"], "--at-once only works with --ask pairs"),
    (["serve", "--ask", "box", "--hints", "before"], "--hints only works with --ask pairs"),
    (["serve", "--ask", "name", "--examples", "no.csv"], "--examples only works with --ask pairs"),
    (["serve", "--suggest", "run"], "--suggest only works with --ask box"),
    (["serve", "--agree", "0.5"], "--agree only works with --ask box"),
    (["serve", "--ask", "box", "--agree", "1.5"], "--agree"),
    (["serve", "--ask", "box", "--suggest", "no"], "no such run folder"),
    (["serve", "--ask", "box", "--suggest", "preds:no.json"], "no such file"),
    (["serve", "--votes", "0"], "--votes"),
    (["serve", "--guidelines", "none.md"], "no such file"),
    (["serve", "--guidelines", "empty.md"], "expected Markdown text"),
    (["serve", "--guidelines", "bytes.md"], "not UTF-8 text"),
    (["serve", "--host", "0.0.0.0"], "needs --token"),
    (["serve", "--public-url", "https://review.example.org"], "needs --token"),
    (["serve", "--host", "0.0.0.0", "--token", "long-enough-token"], "needs --public-url"),
    (["serve", "--token", "short"], "at least 12 characters"),
    (["serve", "--public-url", "https://x/path", "--token", "long-enough-token"], "--public-url: expected"),
    (["serve", "--invite", "<b>"], "name: expected"),
]


@pytest.mark.parametrize(("words", "says"), OTHERS, ids=[" ".join(words) for words, _ in OTHERS])
def test_what_cannot_be_done_is_one_line_before_anything_is_made(small, tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr("strobe.annexes.web.serve.run", lambda *_, **__: pytest.fail("it serves"))
    more = ["--no-open", "--port", "0"] if words[0] == "serve" else []
    with pytest.raises(SystemExit) as ended:
        main(["review", words[0], str(small.root), *words[1:], *more])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
    if words[0] == "export" or {"--at-once", "--hints", "--examples", "--guidelines"} & {*words}:
        assert not (small.root / "review.sqlite").exists()


def test_looking_makes_no_store(small):
    figures = review.status(small.root)
    assert (figures["table"]["pairs_pending"], figures["agreement"]["raw"]["value"]) == (12, None)
    assert not (small.root / "review.sqlite").exists()
