"""Derive the shipped label spaces, projections and other names of classes from the WordNet 3.0 noun hierarchy.

Needs WordNet's `data.noun` (Debian: apt-get install wordnet-base) and the timm package. The source space is timm's list
of the 1,000 ILSVRC-2012 synsets, sorted by id as in every ILSVRC model.

    python scripts/make_label_maps.py --wordnet /usr/share/wordnet/data.noun

A target class takes every ILSVRC class below it in the hierarchy. Youtube-BB needs two more rules. YTBB below lists the
synset of each class name. A source class under two targets goes to the target listed first in PREFER (minivan is under
car and under truck). COCO follows the same rules; COCO below lists the choices that WordNet leaves open. ImageNet-9 has
its own rule (IN9 below).
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

DATA = Path(__file__).parents[1] / "src/strobe/core/data"

# At depth 13, breeds of dogs are one group. At depth 9, mammals are one, and at depth 6, animals.
COARSER = (13, 9, 6)

# The 30 classes of ImageNet-Vid in the order of its class index.
VID = {
    "n02691156": "airplane", "n02419796": "antelope", "n02131653": "bear", "n02834778": "bicycle",
    "n01503061": "bird", "n02924116": "bus", "n02958343": "car", "n02402425": "cattle", "n02084071": "dog",
    "n02121808": "domestic cat", "n02503517": "elephant", "n02118333": "fox", "n02510455": "giant panda",
    "n02342885": "hamster", "n02374451": "horse", "n02129165": "lion", "n01674464": "lizard", "n02484322": "monkey",
    "n03790512": "motorcycle", "n02324045": "rabbit", "n02509815": "red panda", "n02411705": "sheep",
    "n01726692": "snake", "n02355227": "squirrel", "n02129604": "tiger", "n04468005": "train", "n01662784": "turtle",
    "n04530566": "watercraft", "n02062744": "whale", "n02391049": "zebra",
}  # fmt: skip

# The 24 classes of Youtube-BB in the order of its class index, and the synset that stands for each name.
YTBB = {
    "person": "n00007846", "bird": "n01503061", "bicycle": "n02834778", "boat": "n02858304", "bus": "n02924116",
    "bear": "n02131653", "cow": "n01887787", "cat": "n02121620", "giraffe": "n02439033", "potted plant": "n00017222",
    "horse": "n02374451", "motorcycle": "n03790512", "knife": "n03623556", "airplane": "n02691156",
    "skateboard": "n04225987", "train": "n04468005", "truck": "n04490091", "zebra": "n02391049", "toilet": "n04446521",
    "dog": "n02084071", "elephant": "n02503517", "umbrella": "n04507155", "none": "", "car": "n02958343",
}  # fmt: skip

# The nine classes of ImageNet-9 in the order of its folders (00_dog …). A source class under two of them goes to the
# first, so a dog is not a carnivore here. The authors' map omits 16 classes that WordNet 3.0 puts below the nine
# (NOT_IN9).
IN9 = {
    "n02084071": "dog", "n01503061": "bird", "n04576211": "wheeled vehicle", "n01661091": "reptile",
    "n02075296": "carnivore", "n02159955": "insect", "n03800933": "musical instrument", "n02469914": "primate",
    "n02512053": "fish",
}  # fmt: skip
NOT_IN9 = {
    "n01795545": "black grouse", "n01796340": "ptarmigan", "n01797886": "ruffed grouse", "n01798484": "prairie chicken",
    "n01806143": "peacock", "n01806567": "quail", "n01807496": "partridge", "n02091032": "Italian greyhound",
    "n02091134": "whippet", "n02123045": "tabby", "n02123159": "tiger cat", "n02123394": "Persian cat",
    "n02123597": "Siamese cat", "n02124075": "Egyptian cat", "n03445924": "golfcart", "n03776460": "mobile home",
}  # fmt: skip

# COCO's 80 classes and the synsets each name means. The classes that Youtube-BB took from COCO mean the same as there,
# except where the shipped maps from COCO to ImageNet-Vid say otherwise: a cat is a domestic cat, a cow is cattle.
# Several synsets are listed where ILSVRC shows COCO's class under another name: `cup` (WordNet: a punch) and mugs
# are cups; `pot` is a flowerpot with its plant; `purse` a handbag; `goblet` a wine glass; `notebook` a laptop;
# `washbasin` a sink; `stove` a kitchen range, which COCO calls an oven; televisions, monitors and screens are tvs.
# No synset: ILSVRC has no such class, or only a homonym (its kite is a bird).
COCO = {
    "person": "n00007846", "bicycle": "n02834778", "car": "n02958343", "motorcycle": "n03790512",
    "airplane": "n02691156", "bus": "n02924116", "train": "n04468005", "truck": "n04490091", "boat": "n02858304",
    "traffic light": "n06874185", "fire hydrant": "", "stop sign": "", "parking meter": "n03891332",
    "bench": "n02828884", "bird": "n01503061", "cat": "n02121808", "dog": "n02084071", "horse": "n02374451",
    "sheep": "n02411705", "cow": "n02402425", "elephant": "n02503517", "bear": "n02131653", "zebra": "n02391049",
    "giraffe": "", "backpack": "n02769748", "umbrella": "n04507155", "handbag": "n02774152 n04026417",
    "tie": "n03815615", "suitcase": "", "frisbee": "", "skis": "n04228054", "snowboard": "",
    "sports ball": "n02778669", "kite": "", "baseball bat": "", "baseball glove": "", "skateboard": "",
    "surfboard": "", "tennis racket": "", "bottle": "n02876657", "wine glass": "n04592099 n03443371",
    "cup": "n03147509 n03797390 n07930864", "fork": "", "knife": "n03623556", "spoon": "n04284002",
    "bowl": "n02880940", "banana": "n07753592", "apple": "n07739125", "sandwich": "n07695965", "orange": "n07747607",
    "broccoli": "n07714990", "carrot": "", "hot dog": "n07697537", "pizza": "n07873807", "donut": "", "cake": "",
    "chair": "n03001627", "couch": "n04256520", "potted plant": "n00017222 n03991062", "bed": "n02818832",
    "dining table": "n03201208", "toilet": "", "tv": "n04405907 n04404412 n03782006 n04152593",
    "laptop": "n03642806 n03832673", "mouse": "n03793489", "remote": "n04074963", "keyboard": "n03085013",
    "cell phone": "n02992529", "microwave": "n03761084", "oven": "n03862676 n04330267", "toaster": "n04442312",
    "sink": "n04223580 n04553703", "refrigerator": "n04070727", "book": "", "clock": "n03046257", "vase": "n04522168",
    "scissors": "", "teddy bear": "n04399382", "hair drier": "n03483316", "toothbrush": "",
}  # fmt: skip
# WordNet puts these below ball and below oven, but their images show a bag and a pot.
NOT_COCO = {"n04023962": "punching bag", "n03259280": "Dutch oven"}

# The 200 classes of ImageNet-A by their index among the 1,000 (Hendrycks et al., natural-adv-examples, MIT).
IMAGENET_A = """
6 11 13 15 17 22 23 27 30 37 39 42 47 50 57 70 71 76 79 89 90 94 96 97 99 105 107 108 110 113 124 125 130 132
143 144 150 151 207 234 235 254 277 283 287 291 295 298 301 306 307 308 309 310 311 313 314 315 317 319 323 324
326 327 330 334 335 336 347 361 363 372 378 386 397 400 401 402 404 407 411 416 417 420 425 428 430 437 438 445
456 457 461 462 470 472 483 486 488 492 496 514 516 528 530 539 542 543 549 552 557 561 562 569 572 573 575 579
589 606 607 609 614 626 627 640 641 642 643 658 668 677 682 684 687 701 704 719 736 746 749 752 758 763 765 768
773 774 776 779 780 786 792 797 802 803 804 813 815 820 823 831 833 835 839 845 847 850 859 862 870 879 880 888
890 897 900 907 913 924 932 933 934 937 943 945 947 951 954 956 957 959 971 972 980 981 984 986 987 988
"""

PREFER = ("car", "hot dog")
"""The targets that win if a source class is under two targets: minivan (car, truck), hotdog (hot dog, sandwich)."""


LICENCE = (
    "WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. This software and database is "
    "being provided to you, the LICENSEE, by Princeton University under the following license. By obtaining, "
    "using and/or copying this software and database, you agree that you have read, understood, and will comply "
    "with these terms and conditions.: Permission to use, copy, modify and distribute this software and database "
    "and its documentation for any purpose and without fee or royalty is hereby granted, provided that you agree "
    "to comply with the following copyright notice and statements, including the disclaimer, and that the same "
    "appear on ALL copies of the software, database and documentation, including modifications that you make for "
    'internal use or for distribution. THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND PRINCETON UNIVERSITY '
    "MAKES NO REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED. BY WAY OF EXAMPLE, BUT NOT LIMITATION, "
    "PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES OF MERCHANTABILITY OR FITNESS FOR ANY "
    "PARTICULAR PURPOSE OR THAT THE USE OF THE LICENSED SOFTWARE, DATABASE OR DOCUMENTATION WILL NOT INFRINGE "
    "ANY THIRD PARTY PATENTS, COPYRIGHTS, TRADEMARKS OR OTHER RIGHTS. The name of Princeton University or "
    "Princeton may not be used in advertising or publicity pertaining to distribution of the software and/or "
    "database. Title to copyright in this software, database and any associated documentation shall at all times "
    "remain with Princeton University and LICENSEE agrees to preserve same."
)


def read_nouns(path: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the lemmas, in WordNet's order, and the hypernyms of every noun synset."""
    lemmas: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            continue
        fields = line.split(" | ")[0].split()
        synset, n_words = f"n{fields[0]}", int(fields[3], 16)
        lemmas[synset] = [word.replace("_", " ") for word in fields[4 : 4 + 2 * n_words : 2]]
        pointers = fields[4 + 2 * n_words :]
        for place in range(int(pointers[0])):
            symbol, offset, part = pointers[1 + 4 * place : 4 + 4 * place]
            if symbol in ("@", "@i") and part == "n":
                parents[synset].append(f"n{offset}")
    return lemmas, parents


def ancestors(synset: str, parents: dict[str, list[str]]) -> set[str]:
    """Return the synset and all its ancestors."""
    seen, todo = set(), [synset]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += parents[current]
    return seen


def path_from_root(synset: str, parents: dict[str, list[str]]) -> list[str]:
    """Return the synset and its ancestors along the first hypernyms, the root first."""
    path = [synset]
    while parents[path[-1]]:
        path.append(parents[path[-1]][0])
    return path[::-1]


def group_names(synsets: list[str], lemmas: dict[str, list[str]]) -> list[str]:
    """Return the first lemma of each synset, with the synset's id where two synsets share the lemma."""
    several = Counter(lemmas[synset][0] for synset in set(synsets))
    return [name if several[name := lemmas[synset][0]] == 1 else f"{name} ({synset})" for synset in synsets]


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("wrote", path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet/data.noun"))
    arguments = parser.parse_args()
    from timm.data import ImageNetInfo

    lemmas, parents = read_nouns(arguments.wordnet)
    ilsvrc = sorted(ImageNetInfo("imagenet-1k").label_names())
    origin = "WordNet 3.0 noun hierarchy (hypernyms and instance hypernyms)"

    write(
        DATA / "spaces/ilsvrc-2012.json",
        {
            "name": "ilsvrc-2012",
            "source": "the 1,000 ILSVRC-2012 synsets in sorted order, named by the first WordNet 3.0 lemma",
            "classes": [[synset, lemmas[synset][0]] for synset in ilsvrc],
        },
    )
    write(
        DATA / "spaces/imagenet-vid.json",
        {"name": "imagenet-vid", "source": "ILSVRC VID, class index order", "classes": list(map(list, VID.items()))},
    )
    write(
        DATA / "spaces/youtube-bb.json",
        {
            "name": "youtube-bb",
            "source": "Youtube-BoundingBoxes, class index order (22 none, 23 car; in its CSV 22 is car)",
            "classes": [[name, name] for name in YTBB],
        },
    )
    places = [int(place) for place in IMAGENET_A.split()]
    write(
        DATA / "spaces/imagenet-a.json",
        {
            "name": "imagenet-a",
            "source": "the 200 ILSVRC-2012 classes of ImageNet-A in the order of their ids (natural-adv-examples, MIT)",
            "classes": [[ilsvrc[place], lemmas[ilsvrc[place]][0]] for place in places],
        },
    )
    write(
        DATA / "spaces/imagenet-9.json",
        {
            "name": "imagenet-9",
            "source": "ImageNet-9, in the order of its folders",
            "classes": list(map(list, IN9.items())),
        },
    )
    paths = [path_from_root(synset, parents) for synset in ilsvrc]
    write(
        DATA / "coarser/ilsvrc-2012.json",
        {
            "name": "ilsvrc-2012",
            "source": "the ancestors of each class in WordNet 3.0 at a depth below the root, along the first hypernyms",
            "licence": LICENCE,
            "levels": {
                f"WordNet depth {depth}": group_names([path[min(depth, len(path) - 1)] for path in paths], lemmas)
                for depth in COARSER
            },
        },
    )
    also = {synset: lemmas[synset] for synset in sorted({*ilsvrc, *VID})}
    also |= {name: lemmas[synset] for name, synset in YTBB.items() if synset}
    write(
        DATA / "synonyms/wordnet.json",
        {
            "name": "wordnet",
            "source": "all lemmas of WordNet 3.0 for the classes of ilsvrc-2012, imagenet-vid and youtube-bb",
            "licence": LICENCE,
            "names": also,
        },
    )
    above = {synset: ancestors(synset, parents) for synset in ilsvrc}
    targets = {
        "imagenet-vid": [(synset, synset) for synset in VID],
        "youtube-bb": list(YTBB.items()),
        "imagenet-9": [(synset, synset) for synset in IN9],
        "coco-80": list(COCO.items()),
        "coco-91": list(COCO.items()),
    }
    left_out = {"imagenet-9": NOT_IN9, "coco-80": NOT_COCO, "coco-91": NOT_COCO}
    meant = f"{origin}; the synset each name means, and the choices it leaves open, are in scripts/make_label_maps.py"
    more = {  # ImageNet-9's authors take the best of the 1,000 classes first, and then apply the map
        "coco-80": {"source": meant},
        "coco-91": {"source": meant},
        "imagenet-9": {"source": f"{origin}, the first of the nine, less 16 its authors leave out", "rule": "argmax"},
    }
    for target, classes in targets.items():
        order = sorted(classes, key=lambda pair: pair[0] not in PREFER)
        taken: dict[str, str] = {}
        for target_id, tops in order:
            for synset in ilsvrc:
                if above[synset] & set(tops.split()) and synset not in left_out.get(target, ()):
                    taken.setdefault(synset, target_id)
        children = {
            target_id: found
            for target_id, _ in classes
            if (found := [synset for synset in ilsvrc if taken.get(synset) == target_id])
        }
        print(target, sum(map(len, children.values())), "children")
        write(
            DATA / f"projections/ilsvrc-2012-to-{target}.json",
            {
                "name": f"ilsvrc-2012->{target}",
                "version": "1",
                "source": origin,
                **more.get(target, {}),
                "children": children,
            },
        )


if __name__ == "__main__":
    main()
