"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Pages for people: reviewing sets in a browser, and looking at every set of every run.",
    adds={
        "commands: Measure": {
            "view": Item(
                "strobe.annexes.web.view.command:command",
                "Browse every set of every run: filter, compare, tag, follow.",
                at=45,
            ),
        },
        "commands: People": {
            "review": Item(
                "strobe.annexes.web.review.command:command",
                "Let people review which frames look the same: serve, status, export, import.",
            ),
        },
    },
)
