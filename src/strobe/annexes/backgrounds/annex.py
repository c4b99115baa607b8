"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="How much models rely on the background: ladders of images, ImageNet-9, ImageNet-A and ObjectNet.",
    adds={
        "commands: vary": {
            "background": Item(
                "strobe.annexes.backgrounds.command:command",
                "Background ladders: measure how much models rely on the background.",
            ),
        },
        "renderings": {"rung": Item("strobe.annexes.backgrounds.drawing:drawn_rung")},
        "import_formats": {
            "imagenet-a": Item(
                "strobe.annexes.backgrounds.imagenet_a:FORMAT",
                "ImageNet-A: 200 of ILSVRC's classes, folders by WordNet id.",
                at=25,
            ),
            "imagenet-a-plus": Item(
                "strobe.annexes.backgrounds.crops:FORMAT",
                "Crops of ImageNet-A (or other images) with their originals.",
                at=26,
            ),
            "imagenet-9": Item(
                "strobe.annexes.backgrounds.imagenet_9:FORMAT",
                "ImageNet-9 and its variations: other backgrounds, the object alone, the background alone.",
                at=27,
            ),
            "objectnet": Item(
                "strobe.annexes.backgrounds.objectnet:FORMAT",
                "ObjectNet images of classes in ILSVRC-2012, without their red border.",
                at=28,
            ),
        },
        "demos": {
            "background": Item(
                "strobe.annexes.backgrounds.demos:BACKGROUND",
                "Instead, test how much classifiers rely on the background: two on rendered images, then others on "
                "photos. Downloads the photos and a segmenter of 4.6 MB.",
                at=18,
            ),
        },
        "studies": {
            "background": Item("strobe.annexes.backgrounds.study.study:BACKGROUND", at=86),
            "backbones": Item("strobe.annexes.backgrounds.backbones.study:BACKBONES", at=105),
        },
        "records: model": {"background": Item("strobe.annexes.backgrounds.study.records:BackgroundScore")},
        "variant_kinds": {"background": Item("strobe.annexes.backgrounds.study.kind:BACKGROUND")},
    },
)
