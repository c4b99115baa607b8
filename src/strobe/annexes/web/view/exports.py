"""Selected sets as files: a table of all models on them, and a list of their videos for --subset."""

from collections.abc import Sequence

from strobe.annexes.web.view.filters import NO_CLASS
from strobe.annexes.web.view.index import REVIEW, DatasetIndex
from strobe.annexes.web.view.outcomes import STATUS
from strobe.core.errors import InvalidValue
from strobe.report.tables import as_csv
from strobe.report.view import Row


def sets_csv(index: DatasetIndex, rows: Sequence[int]) -> str:
    """Return one line per selected set: its facts, its tags, and the outcome and answer of every model."""
    data, masks = index.dataset, index.tags()[1]
    names = [*data.info.label_space.names, NO_CLASS]
    out: list[Row] = []
    for row in rows:
        line: Row = {
            "set": str(index.names[row]),
            "set_id": str(data.sets.set_id[row]),
            "source": str(data.videos.name[index.video[row]]),
            "label": index.labels_text[row],
            "review": REVIEW[int(index.review[row])],
            "tags": ";".join(tag for tag, mask in masks.items() if mask[row]),
        }
        for name, model in index.models.items():
            answer = int(model.answer[row])
            line[name] = STATUS[int(model.status[row])]
            line[f"{name}: worst answer"] = names[answer] if answer >= 0 else ""
        out.append(line)
    return as_csv(out)


def subset_text(index: DatasetIndex, rows: Sequence[int]) -> str:
    """Return the videos of the selected sets, one per line, as --subset reads them."""
    if not rows:
        raise InvalidValue("no set is selected")
    videos = dict.fromkeys(str(index.dataset.videos.name[index.video[row]]) for row in sorted(rows))
    head = f"# {len(videos)} videos of {len(rows)} selected sets; a subset has all sets of a video"
    return "\n".join([head, *videos]) + "\n"
