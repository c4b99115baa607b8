"""The chapter of a ladder of backgrounds: sentences that say what was set and no more, images with every answer."""

import re
from dataclasses import replace

import made_background as made
import pytest

from strobe.annexes.backgrounds.study import figures as figures_background
from strobe.annexes.backgrounds.study.chapter import KINDS, ladder_strips
from strobe.annexes.backgrounds.study.words import by_class, intro, ladder, verdict
from strobe.core.answers import ClassAnswers
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.report.headline import headline
from strobe.report.story import lead
from strobe.report.view import View
from strobe.report.wording import join

N = 80


@pytest.fixture(scope="module")
def whole():
    data = made.ladder(N, estimated=True, absent={"same": 8})
    answers = made.answers(data)
    return data, answers, View(results=made.results(data, answers))


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
    (table,) = by_class(ladder(view))
    assert "every class has fewer than ten images" in table.sentence
    assert table.few == "4 classes of fewer than ten images each"
    one = view.results.models["object-net"]
    first, *others = one.added["background"].per_class
    background = replace(one.added["background"], per_class=(first, *(replace(row, small=False) for row in others)))
    models = {"object-net": replace(one, added={"background": background})}
    (mixed,) = by_class(ladder(View(results=replace(view.results, models=models))))
    assert [row.small for row, _ in mixed.rows] == [False, False, False, True]
    assert not mixed.few
    assert [one.name for one in headline(view, Task.CLASSIFICATION).columns] == ["accuracy"]


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


def test_strips_show_what_decides_and_every_answer(whole) -> None:
    data, answers, view = whole
    found = ladder(view)
    strips = ladder_strips(data, found, made.LadderSource(data), answers)
    assert [one.kind for one in strips][:3] == [KINDS["ground"]] * 3
    assert len({one.truth for one in strips[:3]}) == 3  # of different classes
    assert len({one.name for one in strips}) == len(strips)
    place = {key: row for row, key in enumerate(data.frames.key)}
    for strip in strips:
        right = {card.step.name: [said.right for said in card.said] for card in strip.cards}
        anchor = place[strip.name]
        assert [said.right for said in strip.cards[0].said] == [
            int(answers[name].label[anchor]) in data.labels_of(anchor) for name in found.models
        ]
        for card in strip.cards:
            assert card.image.startswith("data:image/webp;base64,")
            assert [said.model for said in card.said] == list(found.models)
            assert card.step.is_estimated == (card.step.variant in made.MASKED)
        same = [value for card in strip.cards if not card.step.is_control for value in right[card.step.name]]
        if strip.kind == KINDS["calm"]:
            assert all(same)
        if strip.kind == KINDS["ground"]:
            changed = [
                right[name]
                for name in right
                if name.startswith(("background", "object alone")) and name != "background alone"
            ]
            lost = [name for place, name in enumerate(found.models)
                    if right["the whole image"][place] and not all(row[place] for row in changed)]  # fmt: skip
            assert lost
            assert strip.models == join(lost)
    outside = [said for strip in strips for card in strip.cards for said in card.said if said.name == "no class"]
    assert all(not said.right and not said.sure for said in outside)
    assert ladder_strips(data, found, None, answers) == []
    labels = {name: ClassAnswers.from_labels(name, one.label) for name, one in answers.items()}
    bare = ladder_strips(data, found, made.LadderSource(data), labels)
    assert all(not said.sure for strip in bare for card in strip.cards for said in card.said)
