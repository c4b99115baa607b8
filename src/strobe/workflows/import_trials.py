"""Import images that people named elsewhere, from the CSV of their trials."""

from dataclasses import replace
from pathlib import Path

from strobe.core.errors import StrobeError, printable
from strobe.datasets import folder
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.format import LABEL_SPACE, FormatOption, ImportFormat, several_names
from strobe.datasets.import_trials import Signed, TrialFiles, read_trials
from strobe.datasets.sampled import ImportedDataset
from strobe.workflows.importing import into

__all__ = ["FORMAT", "read_into"]


def read_into(source: Path, target: Path, *, files: TrialFiles, how: ImportOptions) -> ImportedDataset:
    """Import images that people named elsewhere, from the CSV of their trials. New answers are added to the dataset."""
    from strobe.review.moments import NO_TIME
    from strobe.review.names import Spellings

    signed = Signed(person=Spellings([]).checked, at=NO_TIME)
    trials, made = read_trials(source, signed), list[ImportedDataset]()

    def make(how: ImportOptions) -> ImportedDataset:
        made.append(trials.imported(target, files=files, signed=signed, how=how))
        return made[-1]

    done = into(target, how if files.images is not None else replace(how, media="none", hints=False), make)
    names, there = (
        made[-1].dataset.names,
        {(answer.annotator, answer.frame_id): answer for answer in done.dataset.names},
    )
    for answer in names:
        before = there.get((answer.annotator, answer.frame_id), answer)
        if before.answer_id != answer.answer_id:
            raise StrobeError(
                f"{printable(target)} already has a different answer of {printable(answer.annotator)} to an image of "
                f"{printable(source)}; choose another folder, or remove this one first"
            )
    grown = folder.append_answers(target, "names", names)
    more = len(grown.names) - len(done.dataset.names)
    return ImportedDataset(dataset=grown, notes=(f"{more:,} answers were added", *made[-1].notes)) if more else done


FORMAT = ImportFormat(
    read=read_into,
    about="""Answers to "What is this?" given elsewhere. SRC is a CSV file, or a folder of CSV files. Rows are answers.

    Columns as in model-vs-human: subj, object_response, category, imagename, and optionally rt (seconds), condition,
    session, trial. na means that no answer came in time. Answers added to the CSV later are added to DST.
    """,
    example="human-trials/ data/edge --images stimuli/",
    options=(
        FormatOption(
            name="images",
            kind=Path,
            help="Folder of the images. Without it, only people and prediction files can be scored.",
        ),
        FormatOption(
            name="classes",
            kind=several_names,
            default="",
            help="All classes that people could choose, comma-separated. Default: the classes in the category column.",
        ),
        LABEL_SPACE,
    ),
    record=TrialFiles,
    whole=True,
)
