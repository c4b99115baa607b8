"""How far votes can be trusted goes with them: into status, the export, results.json, the terminal and the report."""

import html
import json
import random
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from strobe.analyses.voting import asked, review_results, too_quick, warnings
from strobe.annexes.web.review import workflow as review
from strobe.cli.main import cli
from strobe.core.records import DECISIONS, Verdict
from strobe.store import dataset_folder as folders


def votes_of(data, who, *, seconds, choose, page="1f0c", controls=10):
    """One person's votes on every pair and on some controls, `choose(is_control, must_be_similar)` each."""
    pairs = [(set_id, frame, None) for set_id, frame in sorted(data.candidates())]
    for number in range(controls):
        one, other = number % data.n_sets, (number + 1) % data.n_sets
        same = number % 2 == 0
        pairs.append((f"set{one}", f"vid{one if same else other}:2", same))
    out = []
    for number, (set_id, frame, same) in enumerate(pairs):
        decision = choose(same)
        out.append(
            Verdict(
                verdict_id=f"{who}-{number:04}", annotator=who, at=f"2026-01-01T00:00:00.{number:06}Z", stage="pair",
                set_id=set_id, frame_id=frame, decision=decision, label_right=True, page_version=page,
                reason="motion" if decision == "dissimilar" else "",
                seconds=seconds[number % len(seconds)] if seconds else None,
            )
        )  # fmt: skip
    return out


def careful(same):
    return "dissimilar" if same is False else "similar"


@pytest.fixture
def data(helpers, tmp_path):
    return helpers.make_dataset(tmp_path / "data", n_sets=12, k=2)


def scored(data, tmp_path, votes):
    """`strobe score` on those votes: what it says on the terminal, results.json, and the words of the report."""
    folders.append_verdicts(data.root, votes)
    preds, out = tmp_path / "preds.json", tmp_path / "run"
    preds.write_text(json.dumps({name: [1.0, 0.0, 0.0, 0.0] for name in data.frames.key}))
    done = CliRunner().invoke(
        cli, ["score", str(data.root), "-m", f"preds:{preds}", "-o", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    done_too = CliRunner().invoke(cli, ["report", str(out)], catch_exceptions=False)
    assert done_too.exit_code == 0, done_too.output
    page = next(out.rglob("*.html")).read_text("utf-8")
    words = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", "", words)).split())
    return done.output, json.loads((out / "results.json").read_text())["review"], words


def test_random_votes_at_a_tenth_of_a_second_are_nobodys_judgement(data, tmp_path):
    rng = random.Random(0)
    noise = votes_of(data, "Bo", seconds=[0.1], choose=lambda _: rng.choice(DECISIONS[:2]))
    terminal, results, words = scored(data, tmp_path, noise)
    controls, pace = results["warnings"]
    assert re.fullmatch(r"Bo got \d of 10 control pairs right: their answers may be guesses", controls)
    assert pace == "58 of 58 answers by Bo came faster than pairs can be viewed (less than 0.4 s)"
    assert "look the same to people" not in words
    assert "which look the same" not in words
    assert "that doubtful votes kept (see the notes)" in words
    for said in results["warnings"]:
        assert said in words
        assert said in " ".join(terminal.split())
    figures = review.export(data.root)
    assert figures["warnings"] == results["warnings"]
    status = CliRunner().invoke(cli, ["review", "status", str(data.root)], catch_exceptions=False).output
    assert f"warning: {controls}" in status
    assert f"warning: {pace}" in status


def test_careful_votes_are_peoples_word_and_their_figures_go_with_them(data, tmp_path):
    votes = votes_of(data, "Ann", seconds=[1.2, 2.4, 0.3] + [1.5] * 50, choose=careful)
    votes += votes_of(data, "Cy", seconds=None, choose=careful)
    votes[0] = replace(votes[0], decision="unsure")
    terminal, results, words = scored(data, tmp_path, votes)
    assert results["warnings"] == [], "one quick vote is no pace"
    assert (results["n_people"], results["n_votes"], results["n_pairs"], results["n_pairs_twice"]) == (2, 96, 48, 48)
    assert (results["controls"]["count"], results["controls"]["n"]) == (20, 20)
    assert results["seconds"] == 1.5
    assert [(one["person"], one["n_votes"], one["too_quick"]) for one in results["people"]] == [
        ("Ann", 58, 2), ("Cy", 58, 0),
    ]  # fmt: skip
    assert "look the same to people" in words
    assert "96 votes of 2 people on 48 pairs; Fleiss’ κ" in words
    assert "20 of 20 control pairs right; 1.5 s a pair (median)" in words
    assert "warning" not in terminal
    summary = review.status(data.root)
    assert summary["warnings"] == []
    assert summary["agreement"]["fleiss_kappa"] == results["fleiss_kappa"], "one figure, wherever it stands"
    assert summary["controls"]["all"] == results["controls"]


def test_a_set_at_a_time_has_a_pace_of_its_own(data):
    quick = votes_of(data, "Ann", seconds=[0.3], choose=careful, page="1f0c.set20")
    assert not any(map(too_quick, quick)), "six seconds for twenty images"
    assert warnings(asked(data, quick)) == ()
    rushed = votes_of(data, "Ann", seconds=[0.1], choose=careful, page="1f0c.set20")
    assert all(map(too_quick, rushed)), "two seconds are not enough"
    assert [replace(quick[0], page_version=page).at_once for page in ("", "1f0c", "1f.set0", "x.set7")] == [1, 1, 1, 7]


def test_one_slip_is_no_failure_and_no_votes_are_no_review(data):
    slips = iter([True] + [False] * 99)
    votes = votes_of(
        data, "Ann", seconds=[1.0], choose=lambda same: "unsure" if same and next(slips) else careful(same)
    )
    assert warnings(asked(data, votes)) == ()
    assert review_results(data) is None


def test_names_given_too_quickly_are_said_too(data):
    from strobe.annexes.web.review.name_summary import summarise
    from strobe.core.people import NameAnswer

    def answers(seconds, label):
        return [
            NameAnswer(
                answer_id=f"a{place}", annotator="Bo", at=f"2026-01-01T00:00:00.{place:06}Z", frame_id=f"vid{place}:2",
                said="class", label=label or f"n0{place % 4 + 1}", condition="control" if place < 4 else "anchor",
                seconds=seconds,
            )
            for place in range(10)
        ]  # fmt: skip

    shown = {f"vid{place}:2": "anchor" for place in range(4, 10)}
    assert summarise(data, answers(2.0, ""), None, shown)["warnings"] == []
    assert summarise(data, answers(0.2, "n01"), None, shown)["warnings"] == [
        "Bo got 1 of 4 control images right: their answers may be guesses",
        "10 of 10 answers by Bo came faster than images can be viewed (less than 0.4 s)",
    ]
