"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Models behind an address: services of the Open Inference Protocol, and chat models.",
    adds={
        "providers": {
            "kserve": Item("strobe.annexes.remote.kserve:PROVIDER", at=75),
            "openai": Item("strobe.annexes.remote.openai:PROVIDER", at=85),
        },
        "requests": {"requests": Item("strobe.annexes.remote.asking:REQUESTS")},
        "studies": {"remote": Item("strobe.annexes.remote.study:REMOTE", at=95)},
    },
)
