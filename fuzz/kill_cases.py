"""The commands to kill, with their input folders, their words, and the folders they write."""

from dataclasses import dataclass

from fuzz.offered import is_offered, is_there

__all__ = ["KILLS", "Killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A command to kill: its input files, the commands run before it, its words, and the folder it writes."""

    words: tuple[str, ...]
    place: tuple[str, ...]
    dest: str
    before: tuple[tuple[str, ...], ...] = ()
    ask: tuple[str, ...] = ()  # compare this command's output instead of files, if these contain times or random ids


def _killed(words: str, place: str = "", *, dest: str = "out", before: str = "", ask: str = "") -> Killed:
    first = (tuple(before.split()),) if before else ()
    return Killed(
        words=tuple(words.split()), place=tuple(place.split()), dest=dest, before=first, ask=tuple(ask.split())
    )


_FEW = "--k 2 -q --workers 1"
_SCORE = "-q --bootstrap 100"
_EVAL = f"--workers 1 --no-report {_SCORE}"
_SEARCH = "--images 2 --steps 2 --scale-images 8 --strips 1 --device cpu -q"
_ATTACK = "--eps 2/255,8/255 --steps 3 --restarts 0 --device cpu --batch-size 2 -q"
KILLS: dict[str, Killed] = {
    "build": _killed(f"build clips/a.mp4 out --label dog {_FEW}", "clips"),
    "build-more": _killed(
        f"build clips/a.mp4 clips/b.mp4 out --label dog {_FEW}",
        "clips",
        before=f"build clips/a.mp4 out --label dog {_FEW}",
    ),
    "simulate": _killed("simulate photos/in out --k 1 --size 24 -q --workers 1", "photos"),
    "synthesize": _killed("synthesize out --videos 2 --size 32 --k 1 --masks -q"),
    "vary": _killed(
        "vary corruption datasets/shaky out --kind fog --severity 1,3 --store -q --workers 1", "datasets/shaky"
    ),
    "ladder": _killed(
        "vary background datasets/masked out --rungs zoom,other --store -q --workers 1", "datasets/masked"
    ),
    "ladder-detector": _killed(
        "vary background datasets/masked out --detector py:models.py:blobs --rungs crop --context 1 --device cpu -q",
        "datasets/masked models.py",
    ),
    "attack": _killed(f"vary attack datasets/video out -m py:net.py:make {_ATTACK}", "datasets/video net.py"),
    "import-vid-robust": _killed("import imagenet-vid-robust releases/vid-robust out -q", "releases/vid-robust"),
    "import-ytbb-robust": _killed(
        "import ytbb-robust releases/ytbb-robust out --media link -q", "releases/ytbb-robust"
    ),
    "import-youtube-bb": _killed(
        "import youtube-bb releases/youtube-bb/yt_bb.csv out --videos releases/youtube-bb/videos --k 1 -q",
        "releases/youtube-bb",
    ),
    "import-coco-vid": _killed("import coco-vid releases/coco-vid/ann.json out --k 1 --hints -q", "releases/coco-vid"),
    "import-photos": _killed("import photos photos/in out -q", "photos/in"),
    "import-imagenet-c": _killed(
        "import imagenet-c releases/imagenet-c/npy out --clean releases/imagenet-c/clean.npy -q", "releases/imagenet-c"
    ),
    "import-imagenet-a-plus": _killed(
        "import imagenet-a-plus releases/crops out --originals releases/imagenet-a -q",
        "releases/crops releases/imagenet-a",
    ),
    "import-imagenet-9": _killed("import imagenet-9 releases/imagenet-9 out -q", "releases/imagenet-9"),
    "import-objectnet": _killed("import objectnet releases/objectnet out -q", "releases/objectnet"),
    "import-trials": _killed(
        "import trials releases/trials/csv out --images releases/trials/images -q", "releases/trials"
    ),
    "export-coco": _killed("export datasets/boxes coco out --media copy -q", "datasets/boxes"),
    "export-fiftyone": _killed("export datasets/boxes fiftyone out --media copy -q", "datasets/boxes"),
    "export-huggingface": _killed("export datasets/boxes huggingface out -q", "datasets/boxes"),
    "export-croissant": _killed("export datasets/boxes croissant out --media copy -q", "datasets/boxes"),
    "gate": _killed(
        "gate runs/new-boxes -m py:models.py:blobs --min map_pmk=0 -o out -q",
        "runs/new-boxes datasets/boxes models.py",
    ),
    "history": _killed(
        "history runs/video-py runs/new-video -o out -q", "runs/new-video runs/video-py datasets/video models.py"
    ),
    "leaderboard": _killed(
        "export runs/severity runs/new-boxes leaderboard out",
        "runs/severity runs/new-boxes",
        before="export runs/severity leaderboard out",
    ),
    "export-latex": _killed("export runs/severity latex out -q", "runs/severity"),
    "export-figures": _killed("export runs/new-boxes figures out -q", "runs/new-boxes"),
    "generator": _killed(
        f"vary generator out --generator py:generator.py:make -m py:net.py:make {_SEARCH}", "generator.py net.py"
    ),
    "photos": _killed(
        "vary generator out --generator strobe-ae --photos datasets/masked -m strobe-world-linf --images=1 "
        "--scale-images=4 --steps 3 --restarts 0 --strips 1 --granularity coarse --device cpu -q",
        "datasets/masked",
    ),
    "export-csv": _killed("export datasets/video csv out -q", "datasets/video"),
    "export-vid-robust": _killed("export datasets/votes imagenet-vid-robust out -q", "datasets/votes"),
    "predict": _killed(
        "predict datasets/video -m py:models.py:logits -o out -q --workers 1", "datasets/video models.py"
    ),
    "score": _killed(
        f"score datasets/video -m preds:inputs/video-logits.json -o out {_SCORE}", "datasets/video inputs"
    ),
    "score-again": _killed(
        f"score runs/new-video --k 2 {_SCORE}", "datasets/video runs/new-video", dest="runs/new-video"
    ),
    "eval": _killed(f"eval datasets/boxes -m py:models.py:blobs -o out {_EVAL}", "datasets/boxes models.py"),
    "eval-two": _killed(
        f"eval datasets/boxes -m boxes:py:models.py:blobs -m crop:truth,fit=pad:py:models.py:logits -o out {_EVAL}",
        "datasets/boxes models.py",
    ),
    "eval-videos": _killed(
        f"eval clips -m py:models.py:logits -o out --k 1 {_EVAL}", "clips models.py", ask=f"score out --json {_SCORE}"
    ),
    "eval-more": _killed(
        "eval datasets/video -m py:models.py:logits -m py:models.py:shares -o runs/video-py "
        f"-m new=preds:inputs/video-logits.json {_EVAL}",
        "datasets/video inputs models.py runs/video-py",
        dest="runs/video-py",
    ),
    "eval-early": _killed(
        f"eval datasets/video -m py:models.py:logits -m py:models.py:shares --stop-early -o out {_EVAL}",
        "datasets/video models.py",
    ),
    "report": _killed("report runs/new-boxes -q --gallery 1", "datasets/boxes runs/new-boxes", dest="runs/new-boxes"),
    "sheet": _killed("inspect datasets/video --sheet out/sheet.png --sets 2 -q", "datasets/video"),
    "review-import": _killed(
        "review import datasets/video inputs/votes.csv",
        "datasets/video inputs",
        dest="datasets/video",
        ask="review status datasets/video --json",
    ),
    "review-boxes": _killed("review export datasets/boxing --ask box -o out -q", "datasets/boxing"),
    "review-crops": _killed("review export datasets/boxing --ask box --crops out -q", "datasets/boxing"),
    "review-export": _killed("review export datasets/reviewing -o out", "datasets/reviewing"),
}
KILLS = {name: one for name, one in KILLS.items() if is_offered(one.words) and is_there(one.place)}
