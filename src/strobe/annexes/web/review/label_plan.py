"""Draw the sets that people are asked to name or to check, from the flicker of a run's models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from strobe.analyses.label_sample import BEFORE
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.video_plan import answered, no_flicker, without_cuts
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Ints, Texts
from strobe.core.dataset import Dataset
from strobe.core.derivation import with_names
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.people import NameAnswer, SampledSet, sample_of
from strobe.core.tasks import Task
from strobe.metrics.label_plan import allocate, draw_plan, flicker_patterns, promised_ratio
from strobe.metrics.pmk import first_wrong
from strobe.store import dataset_folder
from strobe.store.run_folder import Run
from strobe.studies.unlabelled.score import first_changes

RANDOM = "random"
"""Pass this instead of a run to draw every set with the same chance."""

BUDGET = {"name": 60, "check": 20}
"""The number of sets to ask about, unless the command gives another."""

Z95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsFrom:
    """Where a sample of sets comes from.

    `source` is a run, whose flicker decides, or `random`, which prefers no set to name. `budget` is the number of sets
    to ask about. None resumes the stored sample, or draws 60 sets to name or 20 to check.
    """

    source: str
    budget: int | None = None

    def __post_init__(self) -> None:
        expect(self.budget is None or self.budget >= 1, "<<budget>>", ">= 1", self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStratum:
    """A stratum of the plan: its sets, and how many of them people are asked about."""

    name: str
    sets: int
    asked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPromise:
    """The expected half-widths of a model's intervals in points: with this plan, and with as many random labels.

    The figures are acc_orig, acc_pmk and drop, in this order. `flicker` is the share of sets on which it flickers.
    """

    model: str
    flicker: float
    planned: tuple[float, float, float]
    random: tuple[float, float, float]

    @property
    def helps_little(self) -> bool:
        """Whether no interval becomes narrower by a tenth or more."""
        return all(own >= 0.9 * other for own, other in zip(self.planned, self.random, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPlan:
    """The sets that people are asked about. `is_new` is False if an earlier plan is resumed unchanged."""

    purpose: Literal["name", "check"]
    seed: int
    asked: int
    sets: int
    is_new: bool
    strata: tuple[PlannedStratum, ...]
    promises: tuple[ModelPromise, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Flickering:
    """The sets of a dataset without scene cuts, and on which of them each model flickers, (M, S)."""

    dataset: Dataset
    plan: Plan
    models: tuple[str, ...]
    answers: tuple[ClassAnswers, ...]
    flickers: Bools


def plan_questions(
    folder: Path,
    request: QuestionsFrom,
    purpose: Literal["name", "check"],
    *,
    seed: int,
    names: Sequence[NameAnswer] = (),
) -> QuestionPlan:
    """Draw the sets to ask about, store them in the dataset folder, and return them.

    A stored plan with as many sets or more is resumed. A larger budget extends it, using what people have named so far.

    Args:
        folder: The dataset folder.
        request: The run, and the number of sets.
        purpose: `name` asks what the anchors show, `check` asks whether flickering sets show one thing.
        seed: The seed of a new plan. An extended plan keeps its seed.
        names: People's answers, including those that have not been exported yet.
    """
    budget = request.budget
    stored = dataset_folder.read(folder)
    dataset = with_names(replace(stored, names=tuple(names)) if names else stored)
    if (why := no_flicker(dataset)) is not None and not stored.samples:
        raise StrobeError(f"<<plan>>: {printable(dataset.name)}: {why}, so there is nothing to plan")
    found = _flickering(dataset, request.source, purpose)
    old = sample_of(stored.samples, purpose)
    so_far = sum(one.place >= 0 for one in old.values())
    if old and (budget is None or budget <= so_far):
        return _described(found, old, purpose, is_new=False)
    rows = _drawn(found, old, purpose, budget or BUDGET[purpose], seed)
    stored = dataset_folder.append_answers(folder, "samples", rows)
    return _described(found, sample_of(stored.samples, purpose), purpose, is_new=True)


def _flickering(dataset: Dataset, source: str, purpose: str) -> _Flickering:
    """Return the flicker of every classifier of the run."""
    whole, _ = without_cuts(dataset)
    if whole is None:
        raise StrobeError(f"<<plan>>: every set of {printable(dataset.name)} contains a scene cut")
    plan = Plan(whole, ScoreOptions(bootstrap=False))
    if source == RANDOM and purpose == "name":
        empty = np.zeros((0, plan.n_sets), dtype=np.bool_)
        return _Flickering(dataset=whole, plan=plan, models=(), answers=(), flickers=empty)
    run = Run(Path(source))
    if not run.exists:
        raise StrobeError(f"<<plan>>: {printable(source)} is not a run; make one with strobe eval")
    if not run.is_on(dataset):
        raise StrobeError(
            f"<<plan>>: {printable(source)} has predictions, but not for the frames of {printable(dataset.name)}"
        )
    held = [model for model in run.models(dataset, allow_missing=True) if model.task is Task.CLASSIFICATION]
    loaded = [(model.name, model.load()) for model in held]
    answers = {name: one for name, one in loaded if isinstance(one, ClassAnswers) and answered(plan, one).any()}
    if not answers:
        raise StrobeError(f"<<plan>>: {printable(source)} has no classifier with answers; run one with strobe eval")
    first = [first_changes(plan, answer) for answer in answers.values()]
    flickers = np.stack([(one >= 0) & (one <= plan.k) for one in first])
    return _Flickering(
        dataset=whole, plan=plan, models=tuple(answers), answers=tuple(answers.values()), flickers=flickers
    )


def _drawn(
    found: _Flickering, old: dict[str, SampledSet], purpose: Literal["name", "check"], budget: int, seed: int
) -> list[SampledSet]:
    """Return the rows of the next wave, which contains the sets of the earlier ones in the same order."""
    names: Texts = found.dataset.sets.set_id.astype(str)
    wave = 1 + max((one.wave for one in old.values()), default=-1)
    seed = next(iter(old.values())).seed if old else seed
    before = found.dataset.labelled if purpose == "name" else np.zeros(len(names), dtype=np.bool_)
    if old:
        use = np.array([name in old and old[name].stratum != BEFORE for name in names], dtype=bool)
        texts = [old[name].stratum for name in names[use].tolist()]
    elif purpose == "check":
        use = np.asarray(found.flickers.any(axis=0))
        texts = ["flickering"] * int(use.sum())
    else:
        use = ~before
        texts = _stratum_names(found.models, found.flickers[:, use])
    if not use.any():
        what = "no set without a label is left to name" if purpose == "name" else "no set flickers, so none is checked"
        raise StrobeError(f"<<plan>>: {printable(found.dataset.name)}: {what}")
    strata = sorted(set(texts))
    stratum = np.array([strata.index(text) for text in texts], dtype=np.int64)
    cluster, budget = found.plan.cluster[use], min(budget, int(use.sum()))
    asked = {name: one.place for name, one in old.items() if one.place >= 0}
    drawn = np.array([name in asked for name in names[use].tolist()], dtype=bool)
    allocation = _allocated(found, use, stratum, drawn, budget)
    order = names[use][draw_plan(stratum, cluster, allocation, seed=seed)].tolist()
    for name in order:
        asked.setdefault(name, len(asked))
    share = allocation / np.bincount(stratum, minlength=len(strata))
    chosen = dict(zip(names[use].tolist(), stratum.tolist(), strict=True))
    kept = {name for name, one in old.items() if one.stratum == BEFORE}
    if not old and purpose == "name":
        kept = set(names[before].tolist())
    return [
        SampledSet(
            sample_id=f"{purpose}:{wave}:{name}",
            purpose=purpose,
            wave=wave,
            set_id=name,
            stratum=strata[chosen[name]] if name in chosen else BEFORE,
            place=asked.get(name, -1),
            chance=float(share[chosen[name]]) if name in chosen else 1.0,
            seed=seed,
        )
        for name in names.tolist()
        if name in chosen or name in kept
    ]


def _stratum_names(models: Sequence[str], flickers: Bools) -> list[str]:
    """Return the stratum of each set as text: the models that flicker on all of its sets, or a number."""
    if not models:
        return ["all sets"] * flickers.shape[1]
    code = flicker_patterns(flickers)
    texts: dict[int, str] = {}
    for place in np.unique(code).tolist():
        part = flickers[:, code == place]
        same = bool((part == part[:, :1]).all())
        who = ", ".join(name for name, on in zip(models, part[:, 0].tolist(), strict=True) if on)
        texts[place] = f"rare patterns {place}" if not same else f"flicker: {who}" if who else "no flicker"
    return [texts[place] for place in code.tolist()]


def _allocated(found: _Flickering, use: Bools, stratum: Ints, drawn: Bools, budget: int) -> Ints:
    """Return how many sets of each stratum to ask about, at least those that were drawn before."""
    size = np.bincount(stratum)
    if len(size) == 1:
        return np.array([budget])
    outcome, certain, named = _outcomes(found, use)
    # A drawn set counts as named, so that no stratum gets fewer sets than it has been promised.
    allocation = allocate(outcome, certain, (named & drawn), stratum, max(budget, 2 * len(size)))
    return np.asarray(np.maximum(allocation, np.bincount(stratum[drawn], minlength=len(size))))


def _outcomes(found: _Flickering, use: Bools) -> tuple[Bools, Bools, Bools]:
    """Return outcome and certainty of acc_orig, acc_pmk and drop of every model, (3M, N), and the named sets."""
    plan, named = found.plan, found.dataset.labelled[use]
    outcome, certain = [], []
    for answers, flickers in zip(found.answers, found.flickers[:, use], strict=True):
        right = plan.view.right_rows(answers.label)
        first = first_wrong(~right, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)[use]
        outcome += [named & (first > 0), named & (first > plan.k), named & (first > 0) & (first <= plan.k)]
        certain += [np.zeros_like(flickers), flickers, ~flickers]
    return np.stack(outcome), np.stack(certain), named


def _described(
    found: _Flickering, sample: dict[str, SampledSet], purpose: Literal["name", "check"], *, is_new: bool
) -> QuestionPlan:
    rows = [one for one in sample.values() if one.stratum != BEFORE]
    strata: dict[str, list[bool]] = {}
    for one in rows:
        strata.setdefault(one.stratum, []).append(one.place >= 0)
    asked = sum(map(sum, strata.values()))
    return QuestionPlan(
        purpose=purpose,
        seed=rows[0].seed,
        asked=asked,
        sets=len(rows),
        is_new=is_new,
        strata=tuple(
            PlannedStratum(name=name, sets=len(drawn), asked=sum(drawn)) for name, drawn in sorted(strata.items())
        ),
        promises=() if purpose == "check" else tuple(_promises(found, sample, asked)),
    )


def _promises(found: _Flickering, sample: dict[str, SampledSet], budget: int) -> list[ModelPromise]:
    """Return what the plan can promise for each model, from the labels so far or, without any, a prior of one half."""
    names = [str(name) for name in found.dataset.sets.set_id.tolist()]
    use = np.array([name in sample and sample[name].stratum != BEFORE for name in names], dtype=bool)
    if not found.models or not use.any():
        return []
    chance = np.array([sample[name].chance for name, on in zip(names, use.tolist(), strict=True) if on])
    outcome, _, named = _outcomes(found, use)
    out = []
    for index, model in enumerate(found.models):
        flickers = found.flickers[index, use]
        steady = float(1 - flickers.mean())
        holds, breaks = outcome[3 * index + 1], outcome[3 * index + 2]
        pmk = steady * _guess(holds[named & ~flickers])
        drop = (1 - steady) * _guess(breaks[named & flickers])
        split = float(np.clip((chance * flickers).sum() / max(chance.sum(), 1e-9), 0.01, 0.99))
        ratio = promised_ratio(
            consistency=steady, acc_pmk=pmk, drop=drop, budget=budget, sets=max(int(use.sum()), budget), split=split
        )
        shares = (pmk + drop, pmk, drop)
        wide = [100 * Z95 * float(np.sqrt(share * (1 - share) / budget)) for share in shares]
        gains = (ratio.both_acc_orig, ratio.both_acc_pmk, ratio.both_drop)
        own = tuple(width * float(np.sqrt(gain)) for width, gain in zip(wide, gains, strict=True))
        promise = ModelPromise(
            model=model, flicker=1 - steady, planned=(own[0], own[1], own[2]), random=(wide[0], wide[1], wide[2])
        )
        out.append(promise)
    return out


def _guess(outcome: Bools) -> float:
    """Return a share, with a prior of one half that counts as four sets."""
    return float((outcome.sum() + 2) / (outcome.size + 4))
