"""Chat models behind an address: the question, every form of an answer, boxes, and whole runs."""

import base64
import csv
import json
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_endpoint import Asked, completion
from faulty_proxy import FaultyProxy

from strobe.annexes.remote.chat_images import ImageEncoding
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import RemoteModel
from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store import dataset_folder
from strobe.store.opening import frame_source

PETS = LabelSpace.of_names("pets", ["cat", "dog", "giant_panda", "red fox"])
SECRET = "sk-very-secret"


def picture(height: int = 36, width: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def ask(model: Any, image: np.ndarray | None = None, source: str = "clip") -> Any:
    return model.ask([model.prepare(picture() if image is None else image)], sources=[source])


def chosen(model: Any, **options: Any) -> str | None:
    answer = ask(model, **options).answers[0]
    return None if answer.scores is None else model.spec.label_space.names[int(answer.scores.argmax())]


# -- the question --------------------------------------------------------------------------------------------------


def test_the_request_is_a_chat_completion_with_the_image(serve: Any, load: Any) -> None:
    service = serve("A")
    model = load(service.url, {"encoding": "png", "detail": "low", "extra": {"top_p": 0.5, "seed": None}})
    assert isinstance(model, RemoteModel)
    used = ask(model).used
    body = service.asked[-1].body
    assert (body["model"], body["temperature"], body["max_tokens"], body["top_p"]) == ("tiny", 0.0, 16, 0.5)
    assert "seed" not in body, "null in extra removes a field"
    assert body["messages"][0]["content"][0]["image_url"]["detail"] == "low"
    assert (service.asked[-1].image == picture()).all(), "PNG is exact"
    assert service.asked[-1].url.startswith("data:image/png;base64,")
    assert (used.requests, used.input_tokens, used.output_tokens) == (1, 90, 2)
    assert used.sent_bytes > len(service.asked[-1].url)


def test_images_are_made_smaller_and_never_larger(serve: Any, load: Any) -> None:
    service = serve("A")
    model = load(service.url, image_size=32)
    assert model.prepare(picture(36, 64)).sent_wh == (32, 18)
    assert model.prepare(picture(20, 10)).sent_wh == (10, 20)
    assert model.prepare(picture()) == model.prepare(picture()), "the same pixels give the same bytes"
    plain = load(service.url)
    assert plain.prepare(picture()).url.startswith("data:image/jpeg;base64,/9j/")
    smaller = load(service.url, {"quality": 10}).prepare(picture())
    assert len(base64.b64decode(smaller.url.partition(",")[2])) < len(plain.prepare(picture()).url) / 2


def test_the_order_is_drawn_per_source_and_fixed_within_it(serve: Any, load: Any) -> None:
    service = serve("A")
    model = load(service.url)
    for source in ("one", "one", "two", "three", "four", "five"):
        ask(model, source=source)
    texts = [one.text for one in service.asked[1:]]
    assert texts[0] == texts[1]
    assert len(set(texts[1:])) > 1
    for one in service.asked:
        assert sorted(one.choices.values()) == ["cat", "dog", "giant panda", "none of these", "red fox"]
        assert one.choices["E"] == "none of these"
    other = load(service.url, {"order": 1})
    for source in ("one", "two", "three", "four", "five"):
        ask(other, source=source)
    assert [one.text for one in service.asked[-5:]] != [texts[0], *texts[2:]]
    fixed = load(service.url, {"order": None})
    ask(fixed, source="one")
    assert list(service.asked[-1].choices.values())[:2] == ["cat", "dog"]


def test_the_prompt_is_the_users(serve: Any, load: Any) -> None:
    service = serve("A")
    ask(load(service.url, prompt='Pick a {symbol}:\n{choices}\nlike {"x": 1}'))
    assert service.asked[-1].text.startswith("Pick a letter:\nA. ")
    assert service.asked[-1].text.endswith('like {"x": 1}')
    for prompt, problem in (
        ("Pick: {choicez}", r"unknown placeholder .*'choicez'; did you mean choices\?"),
        ("What is it?", r"does not list the choices; write \{choices\}"),
        (" ", r"the prompt is empty|does not list"),
    ):
        with pytest.raises(StrobeError, match=problem):
            load(service.url, prompt=prompt)


def test_everything_that_changes_an_answer_is_in_the_key(serve: Any, load: Any) -> None:
    service = serve("A")

    def key(*args: Any, **options: Any) -> str:
        spec = load(service.url, *args, **options).spec
        return json.dumps([spec.weights, dict(spec.preprocessing), spec.label_space.digest])

    forms: list[dict[str, Any]] = [
        {"answer": "free"}, {"answer": "constrained"}, {"order": 1}, {"none": "other"}, {"encoding": "png"},
        {"quality": 90}, {"detail": "high"}, {"temperature": 0.5}, {"seed": 1}, {"max_tokens": 3}, {"version": "2"},
        {"extra": {"top_p": 0.5}}, {"labels": ["cat", "dog"]}, {"task": "detection"},
        {"task": "detection", "boxes": "thousand"}, {"task": "detection", "box_order": "yxyx"},
    ]  # fmt: skip
    keys = [key(), *(key(form) for form in forms), key(prompt="{choices}?"), key(image_size=32)]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]
    assert key(limits={"concurrency": 2, "price_input": 1.0}) == keys[0], "limits and prices change no answer"
    service.answer = lambda _: completion("A", model="tiny-2027")
    assert key() != keys[0], "the service answers with another version of the model"


# -- answers of a classifier ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["{s}", "{s}.", "({s})", "**{s}**", " {s}\n", "{s}) {n}", "{s}. {n}", "{s} {n}", "Answer: {s}",
             "The answer is {s}.", "The correct answer is: **{s}**", "{n}", "The {n}.", "It is a {n}.", "{n}s",
             "{s}\n\nBecause of its ears."]
)  # fmt: skip
def test_a_choice_in_any_usual_form(serve: Any, load: Any, form: str) -> None:
    model = load(serve(lambda asked: form.format(s=asked.symbol("dog"), n="dog")).url)
    assert [chosen(model, source=source) for source in "abcde"] == ["dog"] * 5
    answer = ask(model).answers[0]
    assert answer.scores.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert answer.scores.dtype == np.float32


def test_an_article_is_no_letter(serve: Any, load: Any) -> None:
    model = load(serve("A dog").url)
    assert {chosen(model, source=source) for source in "abcdefgh"} == {"dog"}
    outside = ask(load(serve("A spaceship").url)).answers[0]
    assert (outside.scores, outside.said) == (None, "A spaceship")


@pytest.mark.parametrize(
    ("text", "said"),
    [("none of these", "none of these"), ("None of these.", "none of these"), ("a spaceship", "a spaceship"),
     ("", "(no text)"), ("not a dog", "not a dog"), ("Z", "Z"),
     ("I'm sorry, I can't help.", "I'm sorry, I can't help.")],
)  # fmt: skip
def test_anything_else_is_outside_with_its_text(serve: Any, load: Any, text: str, said: str) -> None:
    answer = ask(load(serve(text).url)).answers[0]
    assert (answer.scores, answer.found, answer.said) == (None, None, said)


@pytest.mark.parametrize("n", [26, 30, 51, 52, 80, 1000])
def test_many_classes_have_letters_or_numbers(serve: Any, load: Any, n: int) -> None:
    classes = LabelSpace.of_names("many", [f"class of number {place}" for place in range(n)])
    service = serve(lambda asked: asked.symbol(classes.names[n - 3]))
    model = load(service.url, label_space=classes)
    assert [chosen(model, source=source) for source in "abc"] == [classes.names[n - 3]] * 3
    symbols = list(service.asked[-1].choices)
    assert len(set(symbols)) == n + 1
    assert symbols[-1].isdecimal() == (n > 51)
    assert "logprobs" in service.asked[0].body or n > 51, "numbers have no single token"


def test_ilsvrc_has_a_different_choice_for_each_class(serve: Any, load: Any) -> None:
    service = serve(lambda asked: asked.symbol("crane (n03126707)"))
    model = load(service.url, label_space=space("ilsvrc-2012"))
    assert model.spec.label_space.ids[int(ask(model).answers[0].scores.argmax())] == "n03126707"
    assert len(set(service.asked[-1].choices.values())) == 1001


def test_a_free_answer_is_mapped_by_name_synonym_and_children(serve: Any, load: Any) -> None:
    answers = {"dogs": "dog", "a tabby": "domestic cat", "motorbike": "motorcycle", "an Airplane.": "airplane",
               "The image shows a golden retriever.": "dog", "ship": None, "Tree": None}  # fmt: skip
    for text, name in answers.items():
        service = serve(text)
        model = load(service.url, {"answer": "free"}, label_space=space("imagenet-vid"))
        assert chosen(model) == name, text
        assert "domestic cat" not in service.asked[-1].text, "the default question lists no choices"


def test_constrained_output_has_the_choices_as_a_schema(serve: Any, load: Any) -> None:
    def by_schema(asked: Asked) -> str:
        given = asked.body["response_format"]["json_schema"]
        assert given["strict"] is True
        names = given["schema"]["properties"]["class"]["enum"]
        assert names == asked.listed, "the schema has the choices in the order of the question"
        assert names[-1] == "none of these"
        return json.dumps({"class": "red fox"})

    model = load(serve(by_schema).url, {"answer": "constrained"})
    assert [chosen(model, source=source) for source in "abc"] == ["red fox"] * 3
    assert model.spec.preprocessing["scores"] == "the choice"
    for ignored, name in (("dog", "dog"), ('```json\n{"class": "cat"}\n```', "cat"), ('{"class": "tree"}', None)):
        assert chosen(load(serve(ignored).url, {"answer": "constrained"})) == name


# -- log-probabilities, as recorded in the documented format -----------------------------------------------------------


def test_log_probabilities_are_the_scores(serve: Any, load: Any) -> None:
    shares = {"cat": 0.2, "dog": 0.5, "giant panda": 0.04, "none of these": 0.06}

    def by_share(asked: Asked) -> dict[str, Any]:
        tokens = {asked.symbol(name): math.log(share) for name, share in shares.items()}
        tokens[" " + asked.symbol("cat")] = math.log(0.1)  # a second spelling of the same letter
        tokens["The"], tokens["~"] = math.log(0.05), -9999.0
        return completion(asked.symbol("dog"), logprobs=[tokens, {"<|end|>": 0.0}])

    service = serve(by_share)
    model = load(service.url)
    assert model.spec.preprocessing["scores"] == "log-probabilities of the letters"
    assert (service.asked[-1].body["logprobs"], service.asked[-1].body["top_logprobs"]) == (True, 20)
    for source in "abcd":
        scores = ask(model, source=source).answers[0].scores
        np.testing.assert_allclose(scores, np.array([0.3, 0.5, 0.04, 0.0]) / 0.9, rtol=1e-6)


def test_log_probabilities_after_an_opening_and_for_none(serve: Any, load: Any) -> None:
    opened = load(serve(lambda a: completion("(B)", logprobs=[{"(": -0.1, "B": -3.0}, {"B": -0.2, "C": -2.0}])).url)
    assert ask(opened).answers[0].scores.max() == pytest.approx(1 / (1 + math.exp(-1.8)))
    none = load(serve(lambda a: completion("E", logprobs=[{"E": math.log(0.6), "A": math.log(0.4)}])).url)
    assert ask(none).answers[0].said == "none of these"
    word = load(serve(lambda a: completion("A dog", logprobs=[{"A": -0.1}, {" dog": -0.1}])).url)
    assert {chosen(word, source=source) for source in "abcdef"} == {"dog"}, "the article is no letter"
    late = load(serve(lambda a: completion("The answer is B", logprobs=[{"The": 0.0}, {" B": -0.2, " C": -2.0}])).url)
    assert ask(late).answers[0].scores.max() == pytest.approx(1 / (1 + math.exp(-1.8)))


def test_scores_are_what_the_settings_ask_for(serve: Any, load: Any) -> None:
    service = serve(lambda a: completion("A", logprobs=[{"A": -0.1, "B": -2.5}]))
    assert load(service.url, {"scores": "choice"}).spec.preprocessing["scores"] == "the choice"
    assert "logprobs" not in service.asked[-1].body
    assert set(ask(load(service.url, {"scores": "choice"})).answers[0].scores) == {0.0, 1.0}
    with pytest.raises(StrobeError, match=r"returns no log-probabilities; use \"scores\": \"choice\""):
        load(serve("A").url, {"scores": "logprobs"})
    with pytest.raises(StrobeError, match="more than 52 letters"):
        load(service.url, {"scores": "logprobs"}, label_space=space("coco-80"))
    model = load(service.url)
    service.answer = lambda _: "A"
    with pytest.raises(RequestFailed, match="has no log-probabilities, but the first one had them") as caught:
        ask(model)
    assert caught.value.blame == "frame"


# -- answers that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "blame", "text"),
    [("429", "again", "status 429"), ("503", "again", "status 503"), ("drop", "again", "the connection was lost"),
     ("cut", "again", "the connection was lost"), ("slow:60", "again", "no complete reply within 3 s"),
     ("json", "frame", "the reply is not JSON"), ("other", "frame", "no chat completion"),
     ("length", "frame", 'cut off .*raise "max_tokens" in --model-settings'), ("filter", "frame", "content filter"),
     ("400", "frame", "status 400"), ("404", "model", "status 404")],
)  # fmt: skip
def test_each_fault_has_its_blame(serve: Any, load: Any, fault: str, blame: str, text: str) -> None:
    service = serve("B")
    with FaultyProxy(service.root, ["ok", fault]) as proxy:
        model = load(f"{proxy.url}/v1", limits={"timeout": 3 if fault == "slow:60" else 60})
        with pytest.raises(RequestFailed, match=text) as caught:
            ask(model)
    assert caught.value.blame == blame
    assert caught.value.used.requests == 1
    assert "\n" not in str(caught.value)
    if fault == "429":
        assert caught.value.after == 0.0
    if fault in ("length", "filter"):
        assert caught.value.used.input_tokens == 90, "a spoilt answer is paid for"


def test_refusals_and_empty_answers_are_outside(serve: Any, load: Any) -> None:
    service = serve("B")
    with FaultyProxy(service.root, ["ok", "refusal", "empty"]) as proxy:
        model = load(f"{proxy.url}/v1")
        assert ask(model).answers[0].said == "I'm sorry, I can't help with that."
        assert ask(model).answers[0].said == "(no text)"


def test_an_error_with_status_200_fails_the_frame_or_is_asked_again(serve: Any, load: Any) -> None:
    service = serve("A")
    model = load(service.url)
    for code, blame in ((400, "frame"), (503, "again")):
        service.answer = lambda _, code=code: {"error": {"message": "no room", "code": code}}
        with pytest.raises(RequestFailed, match="answers with an error: no room") as caught:
            ask(model)
        assert caught.value.blame == blame


def test_another_version_ends_the_model(serve: Any, load: Any) -> None:
    service = serve("A")
    model, loose = load(service.url), load(service.url, {"version": "mine"})
    service.answer = lambda _: completion("A", model="tiny-2027")
    with pytest.raises(RequestFailed, match="'tiny-2026-11-18' and now answers as 'tiny-2027'; run the same") as caught:
        ask(model)
    assert caught.value.blame == "model"
    assert caught.value.used.input_tokens == 90
    assert ask(loose).answers[0].scores is not None
    assert load(service.url, {"version": "mine"}).spec == loose.spec


def test_thoughts_are_no_answer(serve: Any, load: Any) -> None:
    model = load(serve(lambda a: f"<think>\nA cat? No.\n</think>\n\n{a.symbol('dog')}").url)
    assert chosen(model) == "dog"
    with pytest.raises(RequestFailed, match="cut off"):
        ask(load(serve(lambda a: completion("<think>Hmm", finish="length")).url))


# -- bad input -----------------------------------------------------------------------------------------------------


def test_what_cannot_work_is_one_line(serve: Any, load: Any, tmp_path: Path) -> None:
    service = serve("A")
    one, none = LabelSpace.of_names("one", ["cat"]), LabelSpace.of_names("none", ["cat", "none of these"])
    many = LabelSpace.of_names("many", [f"n{place}" for place in range(2001)])
    cases: list[tuple[str, Callable[[], Any]]] = [
        (r"expected openai:MODEL@URL", lambda: load_model("openai:tiny", LoadOptions(label_space=PETS))),
        (r"expected openai:MODEL@URL", lambda: load_model("openai:tiny@w.pt", LoadOptions(label_space=PETS))),
        (r"status 404", lambda: load(service.root)),
        (r"the address contains a password", lambda: load(service.url.replace("http://", "http://me:pw@"))),
        (r"expected an address such as", lambda: load("ftp://host/v1")),
        (r"its choices are the classes of a dataset; give them with --label-space FILE, or as \"labels\"",
         lambda: load(service.url, label_space=None)),
        (r"has one class \(cat\), and a choice needs two", lambda: load(service.url, label_space=one)),
        (r"none of these is a class of the dataset", lambda: load(service.url, label_space=none)),
        (r"2,001 classes, and a prompt lists at most 2,000", lambda: load(service.url, label_space=many)),
        (r"unknown setting in .*'answerz'; did you mean answer\?", lambda: load(service.url, {"answerz": "free"})),
        (r"answer: expected one of letters, constrained, free, got 'word'",
         lambda: load(service.url, {"answer": "word"})),
        (r"answer: expected one of constrained, free",
         lambda: load(service.url, {"task": "detection", "answer": "letters"})),
        (r"quality: expected 1 to 100, got 0", lambda: load(service.url, {"quality": 0})),
        (r"max_tokens: expected 1 to 1,000,000, got True", lambda: load(service.url, {"max_tokens": True})),
        (r"temperature: expected 0 to 2, or null", lambda: load(service.url, {"temperature": "hot"})),
        (r"extra: expected none of model, messages", lambda: load(service.url, {"extra": {"messages": []}})),
        (r"needs \"answer\": \"letters\"", lambda: load(service.url, {"answer": "free", "scores": "logprobs"})),
        (r"unknown limit 'speed'", lambda: load(service.url, limits={"speed": 1.0})),
        (r"expected a JSON object of settings", lambda: load(service.url, [1])),
    ]  # fmt: skip
    for problem, case in cases:
        with pytest.raises(StrobeError, match=problem) as caught:
            case()
        assert "\n" not in str(caught.value)


def test_loading_asks_again_if_the_service_fails_for_a_moment(serve: Any, load: Any) -> None:
    with FaultyProxy(serve("A").root, ["429", "drop", "ok"]) as proxy:
        load(f"{proxy.url}/v1")
        assert proxy.used == ["429", "drop", "ok"]


def boxes(*rows: Any) -> str:
    return json.dumps([dict(zip(("label", "box", "score"), row, strict=False)) for row in rows])


def test_boxes_are_read_in_pixels_of_the_frame(serve: Any, load: Any) -> None:
    text = boxes(("dog", [8, 4, 16, 12], 0.6), ("Cat", [0, 0, 99, 99], 0.9), ("tree", [1, 1, 2, 2]))
    service = serve(text)
    model = load(service.url, {"task": "detection"}, image_size=32)
    answer = ask(model).answers[0]
    assert "which is 32 wide and 18 high" in service.asked[-1].text
    assert answer.found.label.tolist() == [4, 0, 1], "best first; tree is no class of the dataset"
    assert answer.found.xyxy.tolist() == [[2.0, 2.0, 4.0, 4.0], [0.0, 0.0, 64.0, 36.0], [16.0, 8.0, 32.0, 24.0]]
    assert answer.found.score.tolist() == [1.0, 0.9, 0.6]
    assert answer.said == "tree"
    assert (model.spec.task, len(model.spec.label_space)) == ("detection", 5)
    assert len(ask(load(serve("[]").url, {"task": "detection"})).answers[0].found) == 0


def test_boxes_on_a_scale_of_a_thousand_in_either_order(serve: Any, load: Any) -> None:
    for order, box in (("xyxy", [250, 500, 500, 1000]), ("yxyx", [500, 250, 1000, 500])):
        text = "```json\n" + json.dumps([{"label": "dog", "box_2d": box}]) + "\n```"
        service = serve(text)
        model = load(service.url, {"task": "detection", "boxes": "thousand", "box_order": order})
        assert ask(model).answers[0].found.xyxy.tolist() == [[16.0, 18.0, 32.0, 36.0]]
        assert "from 0 to 1000" in service.asked[-1].text


def test_constrained_boxes_have_a_schema(serve: Any, load: Any) -> None:
    def by_schema(asked: Asked) -> str:
        schema = asked.body["response_format"]["json_schema"]["schema"]
        names = schema["properties"]["boxes"]["items"]["properties"]["label"]["enum"]
        return json.dumps({"boxes": [{"label": names[3], "box": [1, 2, 3, 4], "score": 0.5}]})

    found = ask(load(serve(by_schema).url, {"task": "detection", "answer": "constrained"})).answers[0].found
    assert found.label.tolist() == [3]


@pytest.mark.parametrize(
    "text",
    ["no boxes here", '{"a": 1, "b": 2}', '[{"label": "dog"}]', '[["dog", 1, 2, 3, 4]]', boxes(("dog", [1, 2, 3])),
     boxes(("dog", [1, 2, 3, "4"])), boxes(("dog", [9, 2, 3, 4])), boxes(("dog", [1, 2, 3, 4], 7)),
     '[{"label": 3, "box": [1, 2, 3, 4]}]', '[{"label": "dog", "box": [1, 2, NaN, 4]}]', '[{"label": "dog", "box"'],
)  # fmt: skip
def test_boxes_in_another_form_fail_the_frame(serve: Any, load: Any, text: str) -> None:
    model = load(serve(text).url, {"task": "detection"})
    with pytest.raises(RequestFailed, match="expected") as caught:
        ask(model)
    assert caught.value.blame == "frame"
    assert "\n" not in str(caught.value)


Command = Callable[..., tuple[int, str, str]]


class Clips:
    """A rendered dataset, and the class and number of each frame by the image that is sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        dataset = dataset_folder.read(path)
        source, encoding = frame_source(dataset), ImageEncoding(encoding="png")
        self.names = dataset.info.label_space.names
        self.n_frames, self.n_sets = len(dataset.frames), len(dataset.sets.set_id)
        label = dict(zip(dataset.labels.frame.tolist(), dataset.labels.label.tolist(), strict=True))
        urls = [encoding.encode(source.read(row)).url for row in range(self.n_frames)]
        self.row = {url: row for row, url in enumerate(urls)}
        self.name = {url: self.names[label[row]] for url, row in self.row.items()}
        self.video = {url: int(dataset.frames.video[row]) for url, row in self.row.items()}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    from strobe.cli.main import main

    path = tmp_path_factory.mktemp("chat") / "clips"
    with pytest.raises(SystemExit):
        main(["synthesize", str(path), "--videos", "26", "--k", "2", "--size", "48", "-q"])
    return Clips(path)


def settings(folder: Path, name: str = "settings.json", **given: Any) -> Path:
    file = folder / name
    file.write_text(json.dumps({"encoding": "png", **given}))
    return file


def results(run: Path) -> Any:
    return json.loads((run / "results.json").read_text())


def test_from_the_question_to_the_tables(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """A model that is right on the first half, and sees a spaceship in one clip."""

    def answer(asked: Asked) -> str:
        if asked.url not in clips.row:
            return "A"  # the test image
        return "A spaceship!" if clips.video[asked.url] == 0 else asked.symbol(clips.name[asked.url])

    service, run = serve(answer), tmp_path / "run"
    words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{service.url}", "--model-settings", settings(tmp_path))
    code, _, err = command(*words, "-o", run, "--no-report")
    assert code == 0, err
    assert "scores=the choice" in err, "the source of the scores is printed"
    assert len(service.asked) == clips.n_frames + 1
    score = results(run)["models"]["vlm"]
    wrong = sum(video == 0 for video in clips.video.values())
    assert wrong == 5
    assert score["acc_orig"]["count"] == 25
    rows = list(csv.DictReader((run / "tables" / "outside.csv").read_text().splitlines()))
    assert [(row["said"], int(row["frames"])) for row in rows] == [("A spaceship!", 5)]
    again = command(*words, "-o", run, "--no-report")
    assert again[0] == 0
    assert len(service.asked) == clips.n_frames + 2, "only the question of loading is asked again"


def test_what_the_order_of_the_choices_does(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """A model that hesitates between two classes takes the choice that comes first. Frames of a set agree."""

    def answer(asked: Asked) -> str:
        right = clips.name.get(asked.url)
        if right is None:
            return "A"
        rival = clips.names[(clips.names.index(right) + 1) % len(clips.names)]
        return next(symbol for symbol, name in asked.choices.items() if name in (right, rival))

    service, run = serve(answer), tmp_path / "run"
    rows = "\n".join(
        f'[[model]]\nmodel = "openai:tiny@{service.url}"\nname = "order {order}"\n'
        f'model_settings = "{settings(tmp_path, f"order-{order}.json", order=order)}"\n'
        for order in (0, 1)
    )
    (tmp_path / "orders.toml").write_text(rows)
    code, _, err = command("eval", clips.path, "-m", f"@{tmp_path / 'orders.toml'}", "-o", run, "--no-report")
    assert code == 0, err
    found = results(run)["models"]
    for name in ("order 0", "order 1"):
        assert found[name]["flip_rate"]["value"] == 0, "all frames of a set get the same question"
        assert 0 < found[name]["acc_orig"]["count"] < clips.n_sets
    code, out, err = command("compare", run, "-m", "order 0", "-m", "order 1", "-q")
    assert code == 0, err
    changed = re.search(r"From order 0 to order 1: (\d+) sets? newly held, (\d+) sets? newly broken, of 26", out)
    assert changed is not None, out
    assert int(changed[1]) > 0, "sets are newly held only because of the order"
    assert int(changed[2]) > 0


def test_every_fault_in_one_run(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    """Passing faults are asked again, lasting ones fail their frame, and late answers belong to their own frame."""
    gate, lock, waiting = threading.Event(), threading.Lock(), []

    def answer(asked: Asked) -> str:
        if asked.url not in clips.row:
            return "A"
        with lock:
            waiting.append(asked.url)
            first = len(waiting) == 1
            if len(waiting) == 5:
                gate.set()
        if first:
            gate.wait(30)  # the first frame is answered after four others
        return asked.symbol(clips.name[asked.url])

    service, run = serve(answer), tmp_path / "run"
    faults = ["ok"] * 12 + ["429", "drop", "ok", "503", "json", "cut", "ok", "length", "filter", "refusal"]
    with FaultyProxy(service.root, faults) as proxy:
        words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{proxy.url}/v1", "--model-settings", settings(tmp_path))
        code, _, err = command(*words, "-o", run, "--no-report", "--allow-missing")
        assert code in (0, 3), err
        n_failed = sum(fault in ("json", "length", "filter") for fault in proxy.used)
        n_refused = proxy.used.count("refusal")
        n_again = sum(fault in ("429", "drop", "503", "cut") for fault in proxy.used)
        assert n_again > 5
        assert len(proxy.used) == 1 + clips.n_frames + n_again
        rows = list(csv.DictReader((run / "tables" / "outside.csv").read_text().splitlines()))
        assert [(row["said"], int(row["frames"])) for row in rows] == [
            ("I'm sorry, I can't help with that.", n_refused)
        ]
        proxy.faults = ("ok",)
        before = len(proxy.used)
        code, _, err = command(*words, "-o", run, "--no-report", "--retry-errors")
        assert code == 0, err
        assert len(proxy.used) == before + 1 + n_failed, "only frames without an answer are asked again"
    right = results(run)["models"]["vlm"]["acc_orig"]["count"]
    assert right >= clips.n_sets - n_refused


def test_a_detector_by_chat(clips: Clips, serve: Any, command: Command, tmp_path: Path) -> None:
    def answer(asked: Asked) -> str:
        name = clips.name.get(asked.url, clips.names[0])
        return json.dumps(
            [{"label": name, "box": [10, 10, 40, 40], "score": 0.8}, {"label": "ufo", "box": [0, 0, 9, 9]}]
        )

    service, run = serve(answer), tmp_path / "run"
    words = ("eval", clips.path, "-m", f"vlm=openai:tiny@{service.url}", "-o", run, "--no-report")
    code, _, err = command(*words, "--model-settings", settings(tmp_path, task="detection"))
    assert code == 0, err
    assert results(run)["models"]["vlm"]["task"] == "detection"
    assert results(run)["models"]["vlm"]["map_orig"]["value"] > 0
