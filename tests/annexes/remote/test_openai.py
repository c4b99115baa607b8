"""Chat models behind an address: the question, and every form of an answer, against a service in this process."""

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_endpoint import Asked, completion
from faulty_proxy import FaultyProxy

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import RemoteModel
from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.requested import requested_models

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


def test_none_of_these_by_its_letter_is_outside(serve: Any, load: Any) -> None:
    answer = ask(load(serve("E").url)).answers[0]
    assert (answer.scores, answer.said) == (None, "none of these")


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


def test_a_cut_answer_counts_if_it_names_a_choice(serve: Any, load: Any) -> None:
    model = load(serve(lambda a: completion(f"{a.symbol('dog')}. Because", finish="length")).url)
    assert chosen(model) == "dog"


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


def test_a_key_is_sent_and_never_shown(serve: Any, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve("A", key=SECRET)
    with pytest.raises(StrobeError, match=r"it asks for a key; set OPENAI_API_KEY or STROBE_TOKEN"):
        load(service.url)
    monkeypatch.setenv("STROBE_TOKEN", SECRET)
    model = load(service.url)
    assert SECRET not in repr(model.spec) + repr(ask(model))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key-1")
    with pytest.raises(StrobeError, match="it refused the key in OPENAI_API_KEY or STROBE_TOKEN") as caught:
        load(service.url)
    assert "sk-wrong-key-1" not in str(caught.value)


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


def test_a_row_of_a_list_names_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"model": "openai:tiny@http://host/v1", "name": "plain", "limits": {"concurrency": 2}},
        {
            "model": "openai:tiny@http://host/v1",
            "name": "other",
            "model_settings": "order.json",
            "prompt": "{choices}?",
        },
    ]
    plain, other = requested_models(rows)
    assert plain.settings.applied(LoadOptions()).settings is None
    assert other.settings.applied(LoadOptions()).settings == tmp_path / "order.json"
    with pytest.raises(StrobeError, match="efficientnet-lite0 does not take model_settings; it takes precision"):
        requested_models([{"model": "efficientnet-lite0", "model_settings": "order.json"}])
    with pytest.raises(StrobeError, match="model_settings: expected a text"):
        requested_models([{"model": "openai:tiny@http://host/v1", "model_settings": 3}])
