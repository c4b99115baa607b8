"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Coarse to fine changes in the activations of image generators and autoencoders, and their training.",
    adds={
        "commands: vary": {
            "generator": Item(
                "strobe.annexes.generators.command:command",
                "Coarse to fine changes of an image, made in the activations of a generator.",
            ),
        },
        "trainings": {
            "gan": Item("strobe.annexes.generators.gan_training:GAN"),
            "autoencoder": Item("strobe.annexes.generators.autoencoder_training:AUTOENCODER"),
        },
        "demos": {
            "generator": Item(
                "strobe.annexes.generators.demos:GENERATOR",
                "Instead, search for coarse to fine changes that two classifiers get wrong.",
                at=16,
            ),
            "autoencoder": Item(
                "strobe.annexes.generators.demos:AUTOENCODER",
                "Instead, do the same with an autoencoder of photos. It first reports what reconstruction alone does.",
                at=17,
            ),
        },
        "registries": {"generators": Item("strobe.annexes.generators.providers:GENERATORS", at=35)},
        "studies": {"generator": Item("strobe.annexes.generators.study.study:GENERATOR", at=85)},
    },
)
