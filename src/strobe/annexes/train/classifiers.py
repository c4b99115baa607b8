"""`strobe train`: train a model on a dataset by a recipe. All commands can use the weights in the output folder."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Estimate
from strobe.core.ports import Image, Progress
from strobe.models.options import default_batch
from strobe.store.media import decode_image
from strobe.train.recipe import Recipe, Training
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_card import About, began, finish, noted, trained_on
from strobe.workflows.train_job import Material, Trained, TrainingJob, in_training, load_options
from strobe.workflows.vary_corruption import frost_photographs

if TYPE_CHECKING:
    from strobe.annexes.train.probe import StoredFeatures
    from strobe.annexes.train.trainer import ClassifierMeasure, Frames, Hooks, LabelledAnchors, Normal, Trainer
    from strobe.models.plan import ImagePlan
    from strobe.models.trainable import Backbone, TrainableStart
    from strobe.train.pixels import Pixels
    from strobe.train.sets import TrainingSets
    from strobe.train.split import Split
    from strobe.train.streaming import StreamedPixels


def train(
    recipe: Recipe,
    material: Material,
    model: str,
    out: Path,
    options: TrainOptions,
    progress: Progress,
    *,
    held_out: Material | None = None,
    anchors: Material | None = None,
) -> Trained:
    """Train a classifier by a recipe. Calling it again resumes, or returns the finished training.

    `anchors` are labelled images that join a training without labels.
    """
    if anchors is not None and recipe.reads_labels:
        raise StrobeError(f"<<anchors>> is for trainings without labels, and {recipe.name} reads the dataset's labels")
    with in_training(options, progress) as (say, processes, device):
        if not recipe.reads_labels:
            material = material.without_cuts(say)
            held_out = None if held_out is None else held_out.without_cuts(say)
        return _ClassifierTraining(
            recipe, material, held_out, model, out, options, say, processes, device, anchors=anchors
        ).run()


@dataclass(frozen=True, slots=True)
class _ClassifierTraining(TrainingJob):
    """One training of a classifier."""

    material: Material
    anchors: Material | None = None

    def run(self) -> Trained:
        """Run the training: split the data, load the start weights, prepare pixels, run the steps, write the files."""
        from strobe.models.trainable import backbone_of, start_of

        options, dataset = self.options, self.material.dataset
        if self.recipe.reads_labels:
            split = self.sides(dataset, multi_label=self.recipe.multi_label, least_classes=2)
        else:
            split = self.sides_without_labels(dataset)
        load = backbone_of if self.recipe.trains == "head" else start_of
        start = self.processes.first_then_all(
            lambda: load(self.model, dataset.info.label_space, load_options(options, self.say), seed=options.seed)
        )
        if not self.recipe.reads_labels:
            self._check_start(start)
        with self.opened(self._facts(split, start)) as (folder, was_there):
            if was_there:
                history = folder.history()
            else:
                if start.new_head and not start.is_random and self.recipe.trains != "head":
                    n = len(dataset.info.label_space)
                    self.say.note(
                        f"{printable(self.model)}: its classes differ from the dataset's, so its last layer is "
                        f"replaced by one with {n}"
                    )
                trainer, measured = self._trainer(split, start)
                history = self.steps(folder, split.files(dataset), trainer, measured)
                predicted = measured.predicted(trainer)  # all processes take part in this
                if self.processes.is_first:
                    about = self._about(start, split, measured, predicted)
                    finish(folder, history, about, lambda path, told: self._write(path, told, trainer.result, start))
        k = (self.held_out or self.material).dataset.info.k
        return self.trained(start.written(self.weights), k, history, was_there=was_there)

    def _check_start(self, start: "TrainableStart") -> None:
        """Raise StrobeError if the start model has no answers that a training without labels could use."""
        name = printable(self.model)
        if start.is_random:
            raise StrobeError(
                f"{name}: {self.recipe.name} needs a trained model, because its answers are the targets; add its "
                "weights (MODEL@FILE)" + (", or remove <<from_scratch>>" if self.options.from_scratch else "")
            )
        if start.new_head:
            raise StrobeError(
                f"{name}: its classes are not those of {printable(self.material.dataset.name)}, so its answers cannot "
                "be the targets; use a model with these classes, or build the sets with the model's classes"
            )

    def _facts(self, split: "Split", start: "TrainableStart") -> dict[str, Any]:
        """Return all facts that determine the weights."""
        return {
            "model": start.name,
            "recipe": self.recipe.settings(),
            "seed": self.options.seed,
            "start": start.weights,
            "new_head": start.new_head,
            **self.data_facts(self.material.dataset, split),
            "preprocessing": start.plan.to_json(),
            "precision": self.precision,
            "scoring": self._scoring,
            **self._corruption_versions(),
            **({} if self.anchors is None else {"anchors": self.anchors.dataset.digest()}),
        }

    def _corruption_versions(self) -> dict[str, Any]:
        """Return the versions of corruptions whose rendering changed, or nothing if there are none."""
        from strobe.vary.corruptions import CORRUPTIONS, chosen

        kinds = chosen(self.recipe.corruption.split(",")) if self.recipe.corruption else []
        later = {kind: CORRUPTIONS[kind].version for kind in kinds if CORRUPTIONS[kind].version > 1}
        return {"corruption_versions": later} if later else {}

    @property
    def _scoring(self) -> str | None:
        """The number type in which the members of a set are ranked; None if the recipe does not rank them."""
        from strobe.annexes.train.trainer import quick_precision

        if not self.recipe.takes_sets:
            return None
        return quick_precision(self.device, self.precision) if self.options.precision == "auto" else self.precision

    def _trainer(self, split: "Split", start: "TrainableStart") -> "tuple[Trainer, ClassifierMeasure]":
        from strobe.annexes.train.probe import Probe
        from strobe.annexes.train.trainer import ClassifierMeasure, FlickerMeasure, Normal
        from strobe.models.trainable import Backbone
        from strobe.train.sets import HeldOut, TrainingSets

        recipe, plan, dataset = self.recipe, start.plan, self.material.dataset
        hooks = self.processes.first_then_all(lambda: hooks_of(recipe, self.say, offline=self.options.offline))
        pixels, places = self.pixels(self.material, plan)
        sets = TrainingSets.of(
            dataset,
            split.training,
            places,
            k=recipe.k,
            multi_label=recipe.multi_label,
            which="unread" if not recipe.reads_labels else "matching" if recipe.takes_sets else "labelled",
        )
        alone = int((sets.lengths == 1).sum())
        if recipe.takes_sets and alone:
            if alone == len(sets):
                other = "use the recipe stills" if recipe.reads_labels else "build sets with more frames (<<k>>)"
                raise StrobeError(
                    f"{printable(dataset.name)}: every set has only one frame, so {recipe.name} cannot choose the "
                    f"worst; {other}"
                )
            self.say.note(f"{alone} of {len(sets)} sets have only one frame")
        shown, shown_places = (pixels, places) if self.held_out is None else self.pixels(self.held_out, plan)
        held_dataset = (self.held_out or self.material).dataset
        held_out = HeldOut.of(held_dataset, split.held_out, shown_places, labelled=recipe.reads_labels)
        if unlabelled := len(split.held_out) - len(held_out.sets):
            self.say.note(f"{unlabelled} held-out set(s) without a label are skipped")
        normal, module = Normal(plan.divide, plan.mean, plan.std), start.module
        if not isinstance(start, Backbone):
            trainer = self._around(module, sets, pixels, normal, hooks, anchors=self._labelled(split, plan))
            return trainer, (ClassifierMeasure if recipe.reads_labels else FlickerMeasure)(held_out, shown)
        module.to(self.device).eval()
        known = self._features(self.material, start, pixels, normal)
        seen = known if self.held_out is None else self._features(self.held_out, start, shown, normal)
        probe = Probe(*known.spread(np.unique(sets.pixel)), len(dataset.info.label_space))
        return self._around(probe, sets, known, None, hooks), ClassifierMeasure(held_out, seen)

    def _labelled(self, split: "Split", plan: "ImagePlan") -> "LabelledAnchors | None":
        """Return the labelled images that join a training without labels."""
        from strobe.annexes.train.trainer import LabelledAnchors
        from strobe.train.sets import TrainingSets
        from strobe.train.split import labelled_anchors

        if self.anchors is None:
            return None
        given, held = self.anchors.dataset, None if self.held_out is None else self.held_out.dataset
        chosen = labelled_anchors(given, self.material.dataset, split, held)
        self.say.note(f"{len(chosen)} labelled anchors of {printable(given.name)} join")
        rows = np.isin(given.sets.set, chosen) & given.sets.is_anchor
        pixels, places = self.pixels(replace(self.anchors, dataset=given.keep_rows(rows)), plan)
        return LabelledAnchors(TrainingSets.of(given, chosen, places, which="labelled"), pixels)

    def _around(
        self,
        module: Any,
        sets: "TrainingSets",
        pixels: "Frames",
        normal: "Normal | None",
        hooks: "Hooks",
        *,
        anchors: "LabelledAnchors | None" = None,
    ) -> "Trainer":
        from strobe.annexes.train.trainer import Trainer

        return Trainer(
            module,
            self.recipe,
            sets,
            pixels,
            normal,
            seed=self.options.seed,
            precision=self.precision,
            scoring=self._scoring,
            processes=self.processes,
            hooks=hooks,
            anchors=anchors,
        )

    def _features(
        self, material: Material, start: "Backbone", pixels: "Pixels | StreamedPixels", normal: "Normal"
    ) -> "StoredFeatures":
        """Return the network's features of every frame, computed once. Their pixels are not stored."""
        import torch

        from strobe.annexes.train.probe import StoredFeatures, fill_features
        from strobe.train.pixels import kept_table

        prepare, dataset = normal.on(self.device), material.dataset

        def features(images: Any) -> Any:
            return start.features(prepare(images))

        with torch.inference_mode():
            width = int(features(pixels.take(np.zeros(1, dtype=np.int64))).shape[1])
        needed = 4 * width * len(pixels)
        if sum(self.in_use) + needed > self.most_bytes:
            raise StrobeError(
                f"the features of {len(pixels):,} frames need {needed / 1e9:.1f} GB, more than is left of "
                f"<<cache_gb={self.options.cache_gb:g}>>; raise <<cache_gb>>"
            )
        self.in_use.append(needed)
        batch = default_batch(sum(parameter.numel() for parameter in start.module.parameters()), device=self.device)
        rows = hashlib.sha256(np.unique(dataset.sets.frame).tobytes()).hexdigest()
        device = self.device.partition(":")[0]
        names = ["features", dataset.frames_digest(), rows, start.plan.to_json(), start.weights, device]
        table = self.processes.first_then_all(
            lambda: kept_table(
                self.scratch,
                names,
                (len(pixels), width),
                np.float32,
                lambda table: fill_features(table, pixels, features, batch=batch, progress=self.say),
                most_bytes=self.most_bytes,
            )
        )
        return StoredFeatures(table, device=self.device)

    def _write(self, path: Path, facts: Mapping[str, Any], module: Any, start: "TrainableStart") -> None:
        from strobe.models.header import write_weights
        from strobe.models.trainable import Backbone

        state = start.with_head(*module.folded()) if isinstance(start, Backbone) else module.state_dict()
        space = self.material.dataset.info.label_space
        write_weights(path, state, label_space=space, plan=start.plan, training=facts)

    def _about(self, start: "TrainableStart", split: "Split", measured: "ClassifierMeasure", predicted: Ints) -> About:
        held, dataset = measured.held, self.material.dataset
        label = np.full(len(held.dataset.frames), -1, dtype=np.int64)
        label[held.frames] = predicted
        part = held.dataset.keep_rows(np.isin(held.dataset.sets.set, held.sets))
        answers = ClassAnswers.from_labels(self.recipe.name, label, scored=label >= 0)
        scored, notes = self._scored(part, answers)
        return About(
            recipe=self.recipe,
            name=start.name,
            written=start.written(self.weights),
            start=began(self.model, start.weights, is_random=start.is_random, new_head=start.new_head),
            knew=not (start.is_random or start.new_head),
            classes=dataset.info.label_space,
            trained_on=trained_on(dataset, len(split.training)),
            held_out=part,
            is_part=self.held_out is None,
            names=measured.names,
            scored=scored,
            notes=notes,
            device=self.device,
            processes=self.processes.count,
        )

    def _scored(self, part: Dataset, answers: ClassAnswers) -> tuple[dict[str, Estimate], tuple[str, ...]]:
        """Return the figures of the answers on the held-out sets by name, and notes on them."""
        from strobe.analyses.classification import score
        from strobe.analyses.plan import Plan, ScoreOptions
        from strobe.analyses.variants_view import overall
        from strobe.metrics.flicker import first_change

        estimates: dict[str, Estimate] = {}
        notes: tuple[str, ...] = ()
        count = int(part.labelled.sum())
        if count:
            scored = score(overall(part.labelled_sets()), answers, options=ScoreOptions())
            estimates = {"acc_orig": scored.acc_orig, "acc_pmk": scored.acc_pmk, "drop": scored.drop}
            notes = noted(scored.answers, self.say)
        if not self.recipe.reads_labels:
            plan = Plan(overall(part), ScoreOptions())
            first = first_change(
                answers.label[plan.frame],
                plan.set_row,
                plan.level,
                plan.is_anchor,
                n_sets=plan.n_sets,
                never=plan.k + 1,
            )
            estimates["flicker"] = plan.all_sets.estimates((first <= plan.k)[None])[0]
            if len(np.unique(answers.label[answers.scored])) == 1:
                notes += ("it gives every held-out frame the same answer, so its flicker says nothing",)
            if 0 < count < part.n_sets:
                notes += (f"accuracies are of the {count} of {part.n_sets} held-out sets that have labels",)
        return estimates, notes


def hooks_of(recipe: Recipe, say: Progress, *, offline: bool = False) -> "Hooks":
    """Return the functions from other packages that a recipe uses: a corruption, an attack."""
    from strobe.annexes.train.trainer import Hooks
    from strobe.vary.corruptions import CORRUPTIONS, chosen, corrupt
    from strobe.vary.pgd import perturbed

    if recipe.corruption:
        kinds = chosen(recipe.corruption.split(","))
        panes: list[Image] = []
        if any(CORRUPTIONS[kind].has_pane for kind in kinds):
            found = frost_photographs(say, offline=offline)
            panes = [decode_image(content, name=Path(file)) for file, (_, content) in found.items()]

        def corrupted(image: Image, severity: int, rng: np.random.Generator) -> Image:
            kind = kinds[int(rng.integers(len(kinds)))]
            pane = panes[int(rng.integers(len(panes)))] if CORRUPTIONS[kind].has_pane else None
            return corrupt(image, kind, severity, rng, pane=pane)

        return Hooks(corrupt=corrupted)
    if recipe.eps:

        def attacked(scores: Any, pixels: Any, labels: Any, eps: float, steps: int, generator: Any) -> Any:
            return perturbed(scores, pixels, labels, eps=eps, norm=recipe.norm, steps=steps, generator=generator)

        return Hooks(attack=attacked)
    return Hooks()


def _summary(done: Trained) -> str:
    return f"held out {', '.join(f'{name} {value:.1%}' for name, value in done.history[-1].named.items())}"


CLASSIFIERS = Training(run=train, summary=_summary, package="strobe.annexes.train")
