"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Videos and JPEG files decoded by an NVIDIA GPU.",
    adds={
        "frames": {"nvidia": Item("strobe.annexes.gpu.sources:frames_on_gpu")},
        "decoders": {"device": Item("strobe.annexes.gpu.jpeg:DECODER")},
    },
)
