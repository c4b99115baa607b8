"""The chapter of a ladder of backgrounds: sentences that say what was set and no more, images with every answer."""

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import made_background as made
import pytest

from strobe.annexes.backgrounds.ladders import CALLED
from strobe.annexes.backgrounds.study import figures as figures_background
from strobe.annexes.backgrounds.study.chapter import KINDS, ladder_strips
from strobe.annexes.backgrounds.study.words import class_lines, intro, ladder, verdict
from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.report.gallery import level_words
from strobe.report.headline import headline, headline_lines
from strobe.report.story import glossary, lead
from strobe.report.view import View
from strobe.report.wording import fields_of, join
from strobe.studies.variants.tables import change_lines
from strobe.studies.variants.words import sided

N = 80


@pytest.fixture(scope="module")
def whole():
    data = made.ladder(N, estimated=True, absent={"same": 8})
    answers = made.answers(data)
    return data, answers, View(results=made.results(data, answers))


def test_a_crop_of_one_context_is_called_by_it() -> None:
    data = made.ladder(12, contexts=(1.5,))
    view = View(results=made.results(data, made.answers(data, ("ground-net",))))
    assert [one.name for one in headline(view, Task.CLASSIFICATION).columns] == ["accuracy"], "it always names a class"
    found = ladder(view)
    names = [step.name for step in found.steps]
    assert "the box, 1.5 × as wide" in names
    assert "the box" not in names


def text(value: str) -> str:
    return value.replace("\N{NO-BREAK SPACE}", " ")


def test_the_sentences_say_what_was_set_and_no_more_than_their_intervals(whole) -> None:
    _, _, view = whole
    found = ladder(view)
    said = {name: text(verdict(found, name)) for name in found.models}
    number = r"(−?[\d.]+) points \[(−?[\d.]+), (−?[\d.]+)\]"
    looks = re.fullmatch(
        rf"ground-net depends on the background: it loses {number} when only the background is replaced by one of "
        rf"another class \(with estimated masks\)\. "
        rf"Magnifying only the object has no significant effect \({number}\)\.",
        said["ground-net"],
    )  # fmt: skip
    assert looks, said["ground-net"]
    loss, low, high, grown, small, large = (float(one.replace("−", "-")) for one in looks.groups())
    assert 0 < low < loss < high
    assert small <= 0 <= large
    gap = found.contrasts["ground-net", "bg-gap"]
    assert (gap.n, loss) == (N - N // 8, round(100 * gap.value.value, 1))
    assert grown == round(100 * found.contrasts["ground-net", "magnification"].value.value, 1)
    assert said["object-net"].startswith("object-net does not depend significantly on the background: it loses ")
    assert re.search(rf"\. Magnifying only the object adds {number}\.$", said["object-net"])
    few = {step.variant: found.fewer(step) for step in found.steps}
    assert few == {variant: f"n {N - N // 8}" if variant == "same" else "" for variant in few}
    head, lede = lead(view)
    assert text(head).startswith("ground-net depends on the background: it loses")
    assert text(lede).startswith("For ground-net, magnifying only the object has no significant effect (")
    assert "object-net does not depend significantly" in lede
    # The other way round: what gains from another ground, and what magnifying costs.
    turned = {
        key: replace(row, value=replace(row.value, value=-row.value.value, low=-row.value.high, high=-row.value.low))
        for key, row in found.contrasts.items()
    }
    other = replace(found, contrasts=turned)
    assert verdict(other, "ground-net").startswith("ground-net gains ")
    assert "Magnifying only the object costs " in verdict(other, "object-net")
    assert re.search(rf"significantly on .*: it gains {number} when only [^;]* \(with estimated masks\)\.", text(
        verdict(other if found.contrasts["object-net", "bg-gap"].value.value > 0 else found, "object-net")
    ))  # fmt: skip
    none = replace(found, contrasts={})
    assert verdict(none, "object-net") == "This ladder cannot separate background from magnification for object-net."


def test_without_masks_cropping_is_called_what_it_is() -> None:
    data = made.ladder(24, masks=False)
    answers = made.answers(data, ("object-net",))
    view = View(results=made.results(data, answers, sized=False))
    found = ladder(view)
    assert found.main() is None
    assert verdict(found, "object-net").startswith("For object-net, cropping to the object, which also magnifies it,")
    assert intro(found).endswith("cannot be separated. That needs masks.")
    assert isinstance(figures_background.background_area.answer(view), Missing)
    assert isinstance(figures_background.background_models.answer(view), Missing)
    assert not found.has_estimates
    assert lead(view)[1]


def test_small_classes_are_not_counted_and_no_column_is_empty() -> None:
    data = made.ladder(24)
    view = View(results=made.results(data, made.answers(data, ("object-net",)), sized=False))
    ((_, _, rows, notes),) = class_lines(ladder(view))
    assert "every class has fewer than ten images" in notes[0]
    assert all(row[0].endswith(" (few)") for row in rows)
    one = view.results.models["object-net"]
    first, *others = one.added["background"].per_class
    background = replace(one.added["background"], per_class=(first, *(replace(row, small=False) for row in others)))
    models = {"object-net": replace(one, added={"background": background})}
    ((_, _, rows, _),) = class_lines(ladder(View(results=replace(view.results, models=models))))
    assert [row[0].endswith(" (few)") for row in rows] == [False, False, False, True]
    assert [one.name for one in headline(view, Task.CLASSIFICATION).columns] == ["accuracy"]


def test_a_rung_has_one_name_in_chapter_tables_gallery_and_terminal(whole) -> None:
    data, _, view = whole
    found = ladder(view)
    names = {(step.variant, step.level): step.name for step in found.steps}
    assert names["crop", 1.5] == "the box, 1.5 × as wide"
    _, columns, rows, (note,) = change_lines(view)
    assert {row[0].partition(" (")[0] for row in rows} >= {
        CALLED[variant].partition(" (")[0] for variant in view.variants
    }
    assert rows[0][columns.index("settings")] == "rung zoom"
    assert "All variants share these settings: fit squash, boxes true. n is the number of images" in note
    hashed = replace(next(iter(view.variants.values())), fields={"weights_of": "ab" * 32, "layers": "['a', 'b']"})
    assert fields_of(hashed) == ["weights of abababababab…", "layers a, b"]
    told = {(row.b, row.level): sided(view, row, row.b) for row in view.results.contrasts if row.a == "anchor"}
    told = {key: name for key, name in told.items() if key in names}
    assert len(told) == 16
    assert told == {(step.variant, step.level): step.label for step in found.steps[1:]}
    row = next(row for row in view.results.contrasts if row.a == "anchor")
    assert sided(view, row, row.a) == names["anchor", None]
    variants = data.variants.variant[data.sets.variant].tolist()
    assert {level_words(data, variants.index(one), level or 0.0) for one, level in names if level} == {
        name for (_, level), name in names.items() if level
    }
    assert "Shares use Clopper–Pearson. Means use the bootstrap over photos" in dict(glossary(view))["interval"]
    files = dict(glossary(view))["rungs in the files"]
    assert all(f"{CALLED[variant]}: {variant}" in files for variant in view.variants)


def test_pictures_are_called_what_they_are(whole) -> None:
    _, _, view = whole

    def said(**changes: object) -> tuple[str, str, str]:
        new = View(results=replace(view.results, dataset=replace(view.results.dataset, **changes)))
        return new.size, headline(new, Task.CLASSIFICATION).caption, headline_lines(new.results)[0][3][0]

    assert said()[0] == "80 photos · 13 variants"
    alone, caption, line = said(kinds=("image",))
    assert alone == "80 images · 13 variants"
    assert caption.startswith("80 images under 13 variants: ")
    assert line == "% [95 % interval], 80 images under 13 variants, each image counted once"
    several, _, line = said(kinds=None, n_videos=4)
    assert several == "80 images from 4 videos · 13 variants"
    assert "80 images from 4 videos under 13 variants, each image counted once" in line
    assert said(kinds=("image",), n_videos=90)[0] == "80 of 90 images · 13 variants"


def test_few_donors_do_not_lead(whole) -> None:
    """Where hardly any image has another of its class, whether there is a background leads, not whose it is."""
    _, _, view = whole
    found = ladder(view)
    few = {key: replace(row, n=3) if key[1] == "bg-gap" else row for key, row in found.contrasts.items()}
    assert found.main() == "bg-gap"
    assert replace(found, contrasts=few).main() == "background"
    assert "when only the background is removed (with estimated masks)" in verdict(
        replace(found, contrasts=few), "ground-net"
    )


def test_every_figure_has_a_sentence_and_names_its_estimates(whole) -> None:
    _, _, view = whole
    rungs = figures_background.background_rungs.answer(view)
    assert "on “background of another class”." in rungs.sentence
    assert "Hollow points marked ≈ use estimated boxes or masks." in rungs.how
    assert "object-net does not depend significantly" in figures_background.background_contrasts.answer(view).sentence
    context = text(figures_background.background_context.answer(view).sentence)
    assert re.search(r"ground-net goes from [\d.]+ % \(1×\) to [\d.]+ % \(2×\)", context)
    pairs = figures_background.background_models.answer(view)
    assert {one.choice for one in pairs[:2]} == {"boxes:strobe-tiny − ground-net", "boxes:strobe-tiny − object-net"}
    assert "boxes:strobe-tiny names a class for" in pairs[0].sentence
    assert "names a class" not in pairs[2].sentence
    assert "4 bins of 20 images or more" in figures_background.background_area.answer(view).how


def test_strips_show_what_decides_and_every_answer(whole) -> None:
    data, answers, view = whole
    found = ladder(view)
    strips = ladder_strips(data, found, made.LadderSource(data), answers)
    assert [one["kind"] for one in strips][:3] == [KINDS["ground"]] * 3
    assert len({one["truth"] for one in strips[:3]}) == 3  # of different classes
    assert len({one["name"] for one in strips}) == len(strips)
    place = {key: row for row, key in enumerate(data.frames.key)}
    for strip in strips:
        right = {card["step"].name: [said["right"] for said in card["said"]] for card in strip["cards"]}
        anchor = place[strip["name"]]
        assert [said["right"] for said in strip["cards"][0]["said"]] == [
            int(answers[name].label[anchor]) in data.labels_of(anchor) for name in found.models
        ]
        for card in strip["cards"]:
            assert card["image"].startswith("data:image/webp;base64,")
            assert [said["model"] for said in card["said"]] == list(found.models)
            assert card["step"].is_estimated == (card["step"].variant in made.MASKED)
        same = [value for card in strip["cards"] if not card["step"].is_control for value in right[card["step"].name]]
        if strip["kind"] == KINDS["calm"]:
            assert all(same)
        if strip["kind"] == KINDS["ground"]:
            changed = [
                right[name]
                for name in right
                if name.startswith(("background", "object alone")) and name != "background alone"
            ]
            lost = [name for place, name in enumerate(found.models)
                    if right["the whole image"][place] and not all(row[place] for row in changed)]  # fmt: skip
            assert lost
            assert strip["models"] == join(lost)
    outside = [
        said for strip in strips for card in strip["cards"] for said in card["said"] if said["name"] == "no class"
    ]
    assert all(not said["right"] and not said["sure"] for said in outside)
    assert ladder_strips(data, found, None, answers) == []
    labels = {name: ClassAnswers.from_labels(name, one.label) for name, one in answers.items()}
    bare = ladder_strips(data, found, made.LadderSource(data), labels)
    assert all(not said["sure"] for strip in bare for card in strip["cards"] for said in card["said"])


class _Chapter(HTMLParser):
    """The ids of sections, in order, and how many rung cards there are."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.guessed = self.rungs = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag == "section" and about.get("id"):
            self.ids.append(str(about["id"]))
        self.rungs += tag == "figure" and "rung" in str(about.get("class")).split()
        self.guessed += "guess" in str(about.get("class")).split()


def test_the_page_its_tables_and_the_terminal(tmp_path: Path) -> None:
    data = made.ladder(40, estimated=True)
    page = made.report(tmp_path, data).read_text(encoding="utf-8")
    chapter = _Chapter()
    chapter.feed(page)
    wanted = ["background", "q-ladder", "q-background_contrasts", "q-background_rungs", "q-background_context",
              "q-background_models", "q-background_area"]  # fmt: skip
    assert [one for one in chapter.ids if one in wanted] == wanted
    for title in ("How much do background and object matter?", "Would the right crop be enough?"):
        assert f"<h3>{title}</h3>" in page
    assert "q-variant_rungs" not in chapter.ids  # what the chapter tells is not told twice
    assert chapter.rungs % 17 == 0
    assert chapter.guessed == chapter.rungs // 17 * 9
    assert "how much do models rely on the background? · strobe</title>" in page
    tables = {
        path.stem: list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        for path in (tmp_path / "tables").glob("*.csv")
    }
    assert {row["model"] for row in tables["background"]} == set(made.RATES)
    assert {row["zoom_tries"] for row in tables["background"]} == {"6"}
    assert {row["model"] for row in tables["background_coverage"]} == {"boxes:strobe-tiny"}
    assert len(tables["background_area"]) == 3 * 2 * 17
    assert len(tables["background_classes"]) == 3 * 4
    assert sum(bool(row["isolates"]) for row in tables["contrasts"]) == 3 * 7
    guessed = {row["variant"]: row["estimated"] for row in tables["variants"]}
    assert guessed == {one.variant: str(one.estimated) for one in made.variants(estimated=True)}
    sides = {(row["isolates"], row["estimated"]) for row in tables["contrasts"]}
    assert {("background", "True"), ("magnification-with-ground", "False"), ("place", "False")} < sides
    told = made.results(data, made.answers(data)).contrasts
    assert [str(bool(one.estimated)) for one in told] == [row["estimated"] for row in tables["contrasts"]]
    assert {row["estimated"] for row in tables["background"] + tables["background_classes"]} == {"True"}
    for head in ("lost without background ≈", "lost without object ≈", "object vs. background ≈", "best crop",
                 "Background class (BG-Gap) ≈", "Magnification alone ≈"):  # fmt: skip
        assert f">{head}</th>" in page
    answers = made.answers(data)
    said = {title: (rows, notes) for title, _, rows, notes in headline_lines(made.results(data, answers))}
    rows, _ = said["shapes-ladder: accuracy by rung"]
    assert [row[0] for row in rows][:2] == ["the whole image", "centre, as large as the box"]
    assert rows[-3][0] == "object removed (control, estimated)"
    rows, notes = said["shapes-ladder: isolated effects"]
    assert rows[0][0] == "Background class (BG-Gap): own class − another (n 40, estimated)"
    assert rows[0][1].endswith(" *")
    assert any(note.startswith("ground-net depends on the background") for note in notes)
