"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Training: models that flicker less.",
    adds={
        "trainings": {
            "all": Item("strobe.annexes.train.classifiers:CLASSIFIERS"),
            "head": Item("strobe.annexes.train.classifiers:CLASSIFIERS"),
            "detector": Item("strobe.annexes.train.detectors:DETECTORS"),
        },
        "demos": {
            "training": Item(
                "strobe.annexes.train.demos:TRAINING",
                "Instead, train every recipe on the synthetic world with several seeds.",
                at=15,
            ),
        },
        "studies": {"trainings": Item("strobe.annexes.train.study.study:TRAININGS", at=65)},
        "records: results": {"trainings": Item("strobe.annexes.train.study.records:RECORD")},
    },
)
