import json
from dataclasses import replace
from importlib import resources
from typing import Any

import jsonschema
import numpy as np
import pytest

from strobe.analyses.classification import Prepared, score
from strobe.analyses.comparison import compare
from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, Settings, dataset_facts, results_schema
from strobe.analyses.slices import OffsetPool
from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidValue
from strobe.core.tasks import Task
from strobe.studies.review.score import ReviewStages, impact
from strobe.studies.temporal.score_trend import fit
from vid_shaped import dataset_of, predictions_of, random_scores, vid_world


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Everything there is: six standard models, one with labels only and frames missing, review impact, hints."""
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=40, k=3, n_classes=4, n_frames=260)
    for number, part in enumerate(world.sets):
        for frame, _ in part.members:
            world.hints[number, frame] = tuple(rng.normal(size=4))
    dataset = dataset_of(world)
    prepared = Prepared(dataset, ScoreOptions(replicates=50, control_seeds=5))
    pool = OffsetPool(prepared.plan)
    scores = []
    for place in range(7):
        predictions = predictions_of(f"m{place}", random_scores(rng, world, 0.1 + 0.14 * place))
        if place == 6:
            scored = np.arange(len(dataset.frames)) > 5
            predictions = ClassAnswers.from_labels("m6", predictions.label, scored=scored)
        found = score(dataset, predictions, prepared=prepared, pool=pool, standard=place < 6, model_type="plain")
        if place == 0:
            stages = ReviewStages.of(dataset, dataset, dataset)
            found = replace(found, review_impact=impact(stages, predictions, replicates=20))
        scores.append(found)
    return encode(
        Results(
            dataset=dataset_facts(dataset),
            settings=Settings(allow_missing=True),
            models={one.model: one for one in scores},
            offset_error_all_models=pool.estimates(),
            comparison=compare(dataset, scores),
            trend=fit(dataset, scores, replicates=50),
        )
    )


def test_results_obey_their_schema_and_are_json(results: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(results_schema())
    again = json.loads(json.dumps(results, allow_nan=False))
    jsonschema.validate(again, results_schema())
    assert again["models"]["m6"]["unscored"] == {"frames": 6, "sets": 1}
    assert again["models"]["m6"]["bounds"]["acc_pmk"][0] < again["models"]["m6"]["bounds"]["acc_pmk"][1]
    assert again["dataset"]["n_sets"] == 40
    assert len(again["comparison"]) == 63
    assert again["trend"]["linear"]["n"] == 6
    assert len(again["offset_error_all_models"]) == 7


@pytest.mark.parametrize(
    "breaks",
    [
        lambda r: r["models"]["m0"].pop("drop"),
        lambda r: r["models"]["m0"]["acc_orig"].pop("n"),
        lambda r: r["models"]["m0"]["acc_orig"].update(low=None, high=None),  # bounds gone without a reason
        lambda r: r["models"]["m0"].update(extra=1),
        lambda r: r["models"]["m0"].update(task="segmentation"),
        lambda r: r.update(schema=2),
        lambda r: r["dataset"].update(label_source="video"),
        lambda r: r["models"]["m0"]["curve"].append(1),
    ],
)
def test_the_schema_can_refuse(results: dict[str, Any], breaks: Any) -> None:
    broken = json.loads(json.dumps(results))
    breaks(broken)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, results_schema())


def test_the_shape_the_issue_promises(results: dict[str, Any]) -> None:
    model = results["models"]["m0"]
    assert set(model["acc_orig"]) == {"value", "low", "high", "n", "count", "method"}
    assert [row["k"] for row in model["curve"]] == [0, 1, 2, 3]
    assert model["per_offset"][0]["offset"] == -3
    assert isinstance(model["per_offset"][0]["offset"], int)
    assert {"label", "acc_orig", "acc_pmk", "drop"} <= set(model["per_class"][0])


def test_results_without_trend_or_pairs() -> None:
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=3, k=1, n_classes=2, n_frames=None)
    dataset = dataset_of(world)
    found = score(dataset, predictions_of("m", random_scores(rng, world, 0.5)))
    results = encode(Results(dataset=dataset_facts(dataset), models={"m": found}))
    jsonschema.validate(results, results_schema())
    assert results["dataset"]["digest"] == dataset.digest()
    assert results["trend"] == {"reason": "no trend was asked for"}


def test_what_is_written_is_read_back_to_the_last_key(results: dict[str, Any]) -> None:
    again = decode(Results, json.loads(json.dumps(results)))
    assert json.dumps(encode(again)) == json.dumps(results)
    model = again.models["m0"]
    assert isinstance(model, ClassificationResult)
    assert model.task is Task.CLASSIFICATION
    assert model.acc_orig.value == results["models"]["m0"]["acc_orig"]["value"]


def test_keys_of_newer_writers_are_passed_over_and_younger_keys_may_be_absent(results: dict[str, Any]) -> None:
    newer = json.loads(json.dumps(results))
    newer["mood"] = newer["models"]["m0"]["mood"] = newer["models"]["m0"]["acc_orig"]["mood"] = "fine"
    for model in newer["models"].values():  # results written before there were ceilings
        del model["ceiling"]
    assert decode(Results, newer) == decode(Results, results)


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (
            lambda r: r["models"]["m0"]["curve"][3].update(acc=1),
            r"models\.m0\.curve\[3\]\.acc: expected an object, got 1",
        ),
        (lambda r: r["models"]["m0"]["drop"].pop("n"), r"models\.m0\.drop: expected the key n, got"),
        (
            lambda r: r["models"]["m0"].update(task="taste"),
            r"models\.m0\.task: expected classification or detection, got",
        ),
        (lambda r: r["models"]["m0"]["drop"].update(low=None), r"models\.m0\.drop: Estimate bounds: expected both"),
        (lambda r: r["dataset"].update(k=2.5), r"dataset\.k: expected a whole number, got 2\.5"),
        (lambda r: r.update(schema=9), "schema: expected 1, got 9"),
        (lambda r: r.update(trend=[]), "trend: expected an object, got"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(results: dict[str, Any], breaks: Any, says: str) -> None:
    broken = json.loads(json.dumps(results))
    breaks(broken)
    with pytest.raises(InvalidValue, match=f"^{says}"):
        decode(Results, broken)


def test_the_committed_schema_is_the_generated_one() -> None:
    text = (resources.files("strobe.core") / "data" / "results.schema.json").read_text(encoding="utf-8")
    assert text == json.dumps(results_schema(), indent=1) + "\n", "out of date; run make docs"
