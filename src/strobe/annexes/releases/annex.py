"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Importers of public sets, and the files of ImageNet-Vid-Robust.",
    adds={
        "import_formats": {
            "imagenet-vid-robust": Item(
                "strobe.annexes.releases.vid_robust:FORMAT", "The public release of ImageNet-Vid-Robust.", at=1
            ),
            "ytbb-robust": Item(
                "strobe.annexes.releases.ytbb_robust:FORMAT",
                "The public release of YTBB-Robust. Its annotations become votes.",
                at=2,
            ),
            "imagenet-vid": Item(
                "strobe.annexes.releases.imagenet_vid:FORMAT",
                "ILSVRC 2015/2017 ImageNet-Vid with boxes and tracks.",
                at=3,
            ),
            "youtube-bb": Item(
                "strobe.annexes.releases.youtube_bb_videos:FORMAT", "Youtube-BB's CSV and a folder of videos.", at=4
            ),
            "trials": Item(
                "strobe.annexes.releases.trials:FORMAT",
                "Images that people named elsewhere: CSV of trials (model-vs-human).",
                at=22,
            ),
            "imagenet-c": Item(
                "strobe.annexes.releases.imagenet_c:FORMAT",
                "ImageNet-C and CIFAR-10-C: corrupted images and their clean originals.",
                at=24,
            ),
            "mnist": Item(
                "strobe.annexes.releases.mnist:FORMAT",
                "MNIST's 70,000 digits, downloaded or read from a wheel.",
                at=29,
            ),
        },
        "export_formats": {
            "imagenet-vid-robust": Item(
                "strobe.annexes.releases.export_vid_robust:FORMAT", "the files of the public release", at=5
            ),
        },
    },
)
