"""People for a made-up study: what they call its images, the less surely the more was done to one."""

from dataclasses import replace

import numpy as np
from made_studies import StudySource

from strobe.core.dataset import Dataset
from strobe.core.people import NameAnswer

PEOPLE = ("Ann", "Bo Lee", "Cy", "Dede")


def named(dataset: Dataset, *, people: tuple[str, ...] = PEOPLE, seed: int = 7) -> Dataset:
    """The dataset with answers: nobody sees two images of one group, and every tenth is a control."""
    rng, ids, space = np.random.default_rng(seed), dataset.frame_ids(), dataset.info.label_space
    done, sets = StudySource(dataset).strength, dataset.sets
    group = np.zeros(len(dataset.frames), dtype=int)
    group[sets.frame] = np.unique(sets.group.astype(str), return_inverse=True)[1][sets.set]
    names = []
    for place, person in enumerate(people):
        for number in range(int(group.max()) + 1):
            rows = np.unique(sets.frame[group[sets.frame] == number])
            row = int(rows[(place + number) % len(rows)])
            truth = dataset.labels_of(row)[0]
            sure = 0.95 - 0.05 * place - 0.5 * done[row]
            label = truth if rng.random() < sure else int(rng.integers(len(space)))
            said = "class" if rng.random() < 0.94 else ("none", "unsure", "late")[int(rng.integers(3))]
            names.append(
                NameAnswer(
                    answer_id=f"{person}/{row}", annotator=person, at="2026-01-01T00:00:00.000000Z", frame_id=ids[row],
                    said=said, label=space.ids[label] if said == "class" else "",
                    condition="control" if number % 10 == 9 else "",
                    seconds=float(rng.gamma(4.0, 0.4) + 0.3 * place),
                )
            )  # fmt: skip
    return replace(dataset, names=tuple(names))
