"""The page as a file: self-contained, escaped, small, whole; figures and tables beside it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from made_results import detected, scored

from strobe.core.answers import ClassAnswers, State
from strobe.core.errors import CannotWrite, InvalidValue, StrobeError
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.report import headline
from strobe.report.drawing import FigureSpec
from strobe.report.gallery import as_script
from strobe.report.page import PageOptions, write_report
from strobe.report.study import studies


def _questions() -> list[FigureSpec]:
    return [one for study in studies() for one in study.drawings]


class Page(HTMLParser):
    """What the page asks for, and whether its elements close."""

    VOID = frozenset({"meta", "link", "img", "input", "br", "wbr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.open: list[str] = []
        self.scripts: dict[str, str] = {}
        self.text: list[str] = []
        self.ids: list[str] = []
        self._script = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[name] for name in ("src", "href", "xlink:href") if found.get(name)]
        self.handlers += [name for name in found if name.startswith("on")]
        if found.get("id"):
            self.ids.append(found["id"])
        if tag == "script":
            self._script = found.get("type", "text/javascript")
            self.scripts[self._script] = ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self._script] += data
        elif self.open and self.open[-1] != "style":
            self.text.append(data)


@pytest.fixture(scope="module")
def lean(painted):
    """Results without what figures are drawn from: enough for the gallery, and quick."""
    results = painted[2]
    models = {name: scored(mean_frame=one.mean_frame) for name, one in results.models.items()}
    return replace(results, models=models, comparison=(), trend=Missing("lean"))


@pytest.fixture(scope="module")
def written(painted, tmp_path_factory):
    dataset, predictions, results, source = painted
    run = tmp_path_factory.mktemp("run")
    path = write_report(run, results, dataset, predictions, source)
    return run, path.read_text(encoding="utf-8")


def test_nothing_is_fetched_and_no_handler_is_inline(written):
    _, text = written
    page = Page(text)
    assert page.open == []
    assert page.handlers == []
    outside = [link for link in page.links if not link.startswith(("#", "data:", "figures/"))]
    assert outside == []
    # Namespaces are names, not requests; anything else with a scheme would be one.
    urls = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text))
    assert urls <= {"http://www.w3.org"}
    assert len(text) < 3_000_000


def test_figure_ids_never_clash(written):
    _, text = written
    ids = Page(text).ids
    assert len(ids) == len(set(ids))


def test_names_are_text_never_markup(written):
    _, text = written
    assert "<b>snake</b>" not in text
    assert "jitter-net</script>" not in text
    assert "lizard & <b>snake</b>" in " ".join(Page(text).text)
    data = json.loads(Page(text).scripts["application/json"])
    assert "jitter-net</script>" in data["models"]


def test_the_policy_names_the_only_script(written):
    import base64
    import hashlib

    _, text = written
    script = Page(text).scripts["text/javascript"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_figures_lie_beside_the_page_and_are_drawings(written):
    run, text = written
    names = sorted(path.stem for path in (run / "figures").glob("*.svg"))
    assert {"trend", "curve", "time_curve", "per_class_1", "per_offset", "comparison"} <= set(names)
    for name in names:
        assert (run / "figures" / f"{name}.svg").read_text().startswith("<svg")
        assert (run / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert f'id="fig-{name}"' in text
    assert 'href="figures/' not in text, "the page may be mailed alone"


def test_what_an_earlier_report_left_is_taken_away_and_nothing_else(written, lean, painted, tmp_path):
    import shutil

    run, _ = written
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "figures" / "mine.svg").write_text("<svg/>")
    write_report(copy, lean, painted[0], {}, None)
    assert [path.name for path in (copy / "figures").iterdir()] == ["mine.svg"]
    every = {path.stem for path in (run / "figures").iterdir()}
    assert all(any(one.owns(name) for one in _questions()) for name in every)
    assert not any(one.owns(name) for one in _questions() for name in ("mine", "curve_mine", "detection_"))


def test_headline_numbers_are_on_the_page(written, painted):
    _, text = written
    words = " ".join("".join(Page(text).text).split())
    for model in painted[2].models.values():
        for one in model.headline:
            assert f"{100 * one.value:.1f}{100 * one.low:.1f} to {100 * one.high:.1f}" in words


def test_the_same_input_gives_the_same_page(written, painted, tmp_path):
    dataset, predictions, results, source = painted
    again = write_report(tmp_path, results, dataset, predictions, source).read_text(encoding="utf-8")
    assert again == written[1]


def test_gallery_data_is_what_the_models_said(written, painted):
    dataset, predictions, _, _ = painted
    data = json.loads(Page(written[1]).scripts["application/json"])
    rows = {key: row for row, key in enumerate(dataset.frames.key)}
    for one in data["sets"]:
        anchor = one["f"][one["a"]]
        assert anchor["d"] == 0
        first = rows[f"{one['v']}/000005.png"]
        for place, name in enumerate(data["models"]):
            said = one["m"][place]
            for i, frame in enumerate(one["f"]):
                row = first + frame["d"]
                assert said["l"][i] == predictions[name].label[row]
                assert said["r"][i] == (predictions[name].label[row] == dataset.labels_of(row)[0])
                assert said["c"][i] == pytest.approx(predictions[name].confidence[row], abs=1e-4)
                assert data["pictures"][frame["i"]].startswith("data:image/webp;base64,")


def test_size_is_bounded_and_what_is_left_out_is_said(lean, painted, tmp_path):
    dataset, predictions, _, source = painted
    path = write_report(tmp_path, lean, dataset, predictions, source, PageOptions(max_megabytes=0.05))
    text = path.read_text(encoding="utf-8")
    data = json.loads(Page(text).scripts["application/json"])
    assert 1 <= len(data["sets"]) < 6
    assert "more sets are omitted to keep the file small" in text


def test_without_pictures_without_predictions_without_gallery(lean, painted, tmp_path):
    dataset, predictions, _, _ = painted
    bare = write_report(tmp_path / "a", lean, dataset, predictions, None).read_text(encoding="utf-8")
    assert all(
        frame["i"] == -1 for one in json.loads(Page(bare).scripts["application/json"])["sets"] for frame in one["f"]
    )
    none = write_report(tmp_path / "b", lean, dataset, {}, None).read_text(encoding="utf-8")
    assert "no predictions are available" in none
    off = write_report(tmp_path / "c", lean, dataset, predictions, None, PageOptions(gallery_sets=0))
    assert "The gallery was switched off" in off.read_text(encoding="utf-8")


def test_unreadable_frames_are_counted_and_do_not_sink_the_page(lean, painted, tmp_path):
    dataset, predictions, _, source = painted

    class Torn:
        def read(self, row):
            if row % 5 == 0:
                raise StrobeError(f"frame {row} is torn <here>")
            return source.read(row)

        def read_encoded(self, row):
            return None

    text = write_report(tmp_path, lean, dataset, predictions, Torn()).read_text(encoding="utf-8")
    assert re.search(r"\d+ frames could not be read; the first: frame \d+ is torn &lt;here&gt;", text)


@pytest.mark.parametrize(("models", "left_out"), [({}, 11), ({"m": scored()}, 11), ({"m": detected()}, 5)])
def test_missing_findings_leave_figures_out_with_a_sentence(models, left_out, painted, tmp_path):
    dataset, _, results, _ = painted
    nothing = replace(results, models=models, comparison=(), offset_error_all_models=())
    text = write_report(tmp_path, nothing, dataset, {}, None).read_text("utf-8")
    assert "Nothing was scored." in text
    assert not list((tmp_path / "figures").glob("*"))
    assert text.count("<li>") >= left_out
    assert "Not shown, because the data is missing" in text


def test_labels_only_and_one_model(painted, tmp_path, make_results):
    dataset, predictions, _, source = painted
    name, one = next(iter(predictions.items()))
    plain = {name: ClassAnswers.from_labels(name, one.label)}
    text = write_report(tmp_path, make_results(dataset, plain), dataset, plain, source).read_text("utf-8")
    data = json.loads(Page(text).scripts["application/json"])
    assert set(data["sets"][0]["m"][0]["p"]) == {None}
    assert 'id="compare"' not in text, "one model alone is compared with nothing"
    assert "How does it compare with published models?" in text


def test_a_smaller_k_hides_what_lies_beyond(lean, painted, tmp_path):
    dataset, predictions, _, _ = painted
    small = replace(lean, dataset=replace(lean.dataset, k=2))
    text = write_report(tmp_path, small, dataset, predictions, None).read_text(encoding="utf-8")
    data = json.loads(Page(text).scripts["application/json"])
    assert max(abs(frame["d"]) for one in data["sets"] for frame in one["f"]) == 2


def test_unscored_frames_are_not_wrong(lean, painted, tmp_path):
    dataset, predictions, _, _ = painted
    name, one = next(iter(predictions.items()))
    scored = np.arange(len(one.label)) % 7 != 0
    gappy = {
        name: replace(
            one,
            state=np.where(scored, State.ANSWERED, State.MISSING).astype(np.uint8),
            label=np.where(scored, one.label, -1),
        )
    }
    text = write_report(tmp_path, lean, dataset, gappy, None, PageOptions(gallery_sets=500)).read_text("utf-8")
    data = json.loads(Page(text).scripts["application/json"])
    for entry in data["sets"]:
        assert (None in entry["m"][0]["r"]) == (entry["m"][0]["s"] == "unscored")


def test_nothing_can_close_the_script_element():
    text = as_script({"a": "</script><!--<script>\u2028&"})
    assert "<" not in text
    assert json.loads(text)["a"] == "</script><!--<script>\u2028&"


def test_bad_options_and_places_are_one_line(lean, painted, tmp_path):
    dataset, predictions, _, _ = painted
    with pytest.raises(InvalidValue, match="--image-px: expected 32 to 2000, got 3"):
        PageOptions(picture_px=3)
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite, match=r"not a folder|already exists"):
        write_report(tmp_path / "file" / "run", lean, dataset, predictions, None)


def test_every_task_has_its_part_of_the_page_and_every_figure_one_name():
    assert {study.task for study in studies()} - {None} == set(headline._OF) == set(headline._ALONE) == set(Task)
    names = [one.name for one in _questions()]
    assert len(set(names)) == len(names)
    assert not [(one.name, name) for one in _questions() for name in names if one.owns(name) and one.name != name]
