"""The verbs that are killed: what lies there, what is asked, and the folder it writes."""

from dataclasses import dataclass

__all__ = ["KILLS", "Killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A verb to kill: what lies there, the commands before it, its words, the folder it writes."""

    words: tuple[str, ...]
    place: tuple[str, ...]
    dest: str
    before: tuple[tuple[str, ...], ...] = ()
    ask: tuple[str, ...] = ()  # the outcome is what this prints, where files hold times or random ids


_FEW = ("--k", "2", "-q", "--workers", "1")
_SCORE = ("-q", "--bootstrap", "100")
_SEARCH = ("--images", "2", "--steps", "2", "--scale-images", "8", "--strips", "1", "--device", "cpu", "-q")
_ATTACK = ("--eps", "2/255,8/255", "--steps", "3", "--restarts", "0", "--device", "cpu", "--batch-size", "2", "-q")
KILLS: dict[str, Killed] = {
    "build": Killed(words=("build", "clips/a.mp4", "out", "--label", "dog", *_FEW), place=("clips",), dest="out"),
    "build-more": Killed(
        words=("build", "clips/a.mp4", "clips/b.mp4", "out", "--label", "dog", *_FEW),
        place=("clips",),
        dest="out",
        before=(("build", "clips/a.mp4", "out", "--label", "dog", *_FEW),),
    ),
    "simulate": Killed(
        words=("simulate", "photos/in", "out", "--k", "1", "--size", "24", "-q", "--workers", "1"),
        place=("photos",),
        dest="out",
    ),
    "synthesize": Killed(
        words=("synthesize", "out", "--videos", "2", "--size", "32", "--k", "1", "--masks", "-q"),
        place=(),
        dest="out",
    ),
    "vary": Killed(
        words=(
            "vary",
            "corruption",
            "datasets/shaky",
            "out",
            "--kind",
            "fog",
            "--severity",
            "1,3",
            "--store",
            *_FEW[2:],
        ),
        place=("datasets/shaky",),
        dest="out",
    ),
    "ladder": Killed(
        words=("vary", "background", "datasets/masked", "out", "--rungs", "zoom,other", "--store", *_FEW[2:]),
        place=("datasets/masked",),
        dest="out",
    ),
    "attack": Killed(
        words=("vary", "attack", "datasets/video", "out", "-m", "py:net.py:make", *_ATTACK),
        place=("datasets/video", "net.py"),
        dest="out",
    ),
    "import-vid-robust": Killed(
        words=("import", "imagenet-vid-robust", "releases/vid-robust", "out", "-q"),
        place=("releases/vid-robust",),
        dest="out",
    ),
    "import-ytbb-robust": Killed(
        words=("import", "ytbb-robust", "releases/ytbb-robust", "out", "--media", "link", "-q"),
        place=("releases/ytbb-robust",),
        dest="out",
    ),
    "import-youtube-bb": Killed(
        words=(
            "import",
            "youtube-bb",
            "releases/youtube-bb/yt_bb.csv",
            "out",
            "--videos",
            "releases/youtube-bb/videos",
            "--k",
            "1",
            "-q",
        ),
        place=("releases/youtube-bb",),
        dest="out",
    ),
    "import-coco-vid": Killed(
        words=("import", "coco-vid", "releases/coco-vid/ann.json", "out", "--k", "1", "--hints", "-q"),
        place=("releases/coco-vid",),
        dest="out",
    ),
    "import-photos": Killed(words=("import", "photos", "photos/in", "out", "-q"), place=("photos/in",), dest="out"),
    "import-imagenet-c": Killed(
        words=(
            "import",
            "imagenet-c",
            "releases/imagenet-c/npy",
            "out",
            "--clean",
            "releases/imagenet-c/clean.npy",
            "-q",
        ),
        place=("releases/imagenet-c",),
        dest="out",
    ),
    "import-imagenet-a-plus": Killed(
        words=("import", "imagenet-a-plus", "releases/crops", "out", "--originals", "releases/imagenet-a", "-q"),
        place=("releases/crops", "releases/imagenet-a"),
        dest="out",
    ),
    "import-imagenet-9": Killed(
        words=("import", "imagenet-9", "releases/imagenet-9", "out", "-q"), place=("releases/imagenet-9",), dest="out"
    ),
    "import-objectnet": Killed(
        words=("import", "objectnet", "releases/objectnet", "out", "-q"), place=("releases/objectnet",), dest="out"
    ),
    "import-trials": Killed(
        words=("import", "trials", "releases/trials/csv", "out", "--images", "releases/trials/images", "-q"),
        place=("releases/trials",),
        dest="out",
    ),
    "export-coco": Killed(
        words=("export", "datasets/boxes", "coco", "out", "--media", "copy", "-q"),
        place=("datasets/boxes",),
        dest="out",
    ),
    "export-fiftyone": Killed(
        words=("export", "datasets/boxes", "fiftyone", "out", "--media", "copy", "-q"),
        place=("datasets/boxes",),
        dest="out",
    ),
    "export-huggingface": Killed(
        words=("export", "datasets/boxes", "huggingface", "out", "-q"), place=("datasets/boxes",), dest="out"
    ),
    "export-croissant": Killed(
        words=("export", "datasets/boxes", "croissant", "out", "--media", "copy", "-q"),
        place=("datasets/boxes",),
        dest="out",
    ),
    "gate": Killed(
        words=("gate", "runs/new-boxes", "-m", "py:models.py:blobs", "--min", "map_pmk=0", "-o", "out", "-q"),
        place=("runs/new-boxes", "datasets/boxes", "models.py"),
        dest="out",
    ),
    "history": Killed(
        words=("history", "runs/video-py", "runs/new-video", "-o", "out", "-q"),
        place=("runs/new-video", "runs/video-py", "datasets/video", "models.py"),
        dest="out",
    ),
    "leaderboard": Killed(
        words=("export", "runs/severity", "runs/new-boxes", "leaderboard", "out"),
        place=("runs/severity", "runs/new-boxes"),
        dest="out",
        before=(("export", "runs/severity", "leaderboard", "out"),),
    ),
    "generator": Killed(
        words=("vary", "generator", "out", "--generator", "py:generator.py:make", "-m", "py:net.py:make", *_SEARCH),
        place=("generator.py", "net.py"),
        dest="out",
    ),
    "export-csv": Killed(words=("export", "datasets/video", "csv", "out", "-q"), place=("datasets/video",), dest="out"),
    "export-vid-robust": Killed(
        words=("export", "datasets/votes", "imagenet-vid-robust", "out", "-q"),
        place=("datasets/votes",),
        dest="out",
    ),
    "predict": Killed(
        words=("predict", "datasets/video", "-m", "py:models.py:logits", "-o", "out", "-q", "--workers", "1"),
        place=("datasets/video", "models.py"),
        dest="out",
    ),
    "score": Killed(
        words=("score", "datasets/video", "-m", "preds:inputs/video-logits.json", "-o", "out", *_SCORE),
        place=("datasets/video", "inputs"),
        dest="out",
    ),
    "score-again": Killed(
        words=("score", "runs/new-video", "--k", "2", *_SCORE),
        place=("datasets/video", "runs/new-video"),
        dest="runs/new-video",
    ),
    "eval": Killed(
        words=(
            "eval",
            "datasets/boxes",
            "-m",
            "py:models.py:blobs",
            "-o",
            "out",
            "--workers",
            "1",
            "--no-report",
            *_SCORE,
        ),
        place=("datasets/boxes", "models.py"),
        dest="out",
    ),
    "eval-two": Killed(
        words=(
            "eval",
            "datasets/boxes",
            "-m",
            "boxes:py:models.py:blobs",
            "-m",
            "crop:truth,fit=pad:py:models.py:logits",
            "-o",
            "out",
            "--workers",
            "1",
            "--no-report",
            *_SCORE,
        ),
        place=("datasets/boxes", "models.py"),
        dest="out",
    ),
    "eval-more": Killed(
        words=(
            "eval",
            "datasets/video",
            "-m",
            "py:models.py:logits",
            "-m",
            "py:models.py:shares",
            "-o",
            "runs/video-py",
            "-m",
            "new=preds:inputs/video-logits.json",
            "--workers",
            "1",
            "--no-report",
            *_SCORE,
        ),
        place=("datasets/video", "inputs", "models.py", "runs/video-py"),
        dest="runs/video-py",
    ),
    "eval-early": Killed(
        words=(
            "eval",
            "datasets/video",
            "-m",
            "py:models.py:logits",
            "-m",
            "py:models.py:shares",
            "--stop-early",
            "-o",
            "out",
            "--workers",
            "1",
            "--no-report",
            *_SCORE,
        ),
        place=("datasets/video", "models.py"),
        dest="out",
    ),
    "report": Killed(
        words=("report", "runs/new-boxes", "-q", "--gallery", "1"),
        place=("datasets/boxes", "runs/new-boxes"),
        dest="runs/new-boxes",
    ),
    "sheet": Killed(
        words=("inspect", "datasets/video", "--sheet", "out/sheet.png", "--sets", "2", "-q"),
        place=("datasets/video",),
        dest="out",
    ),
    "review-import": Killed(
        words=("review", "import", "datasets/video", "inputs/votes.csv"),
        place=("datasets/video", "inputs"),
        dest="datasets/video",
        ask=("review", "status", "datasets/video", "--json"),
    ),
    "review-boxes": Killed(
        words=("review", "export", "datasets/boxing", "--ask", "box", "-o", "out", "-q"),
        place=("datasets/boxing",),
        dest="out",
    ),
    "review-crops": Killed(
        words=("review", "export", "datasets/boxing", "--ask", "box", "--crops", "out", "-q"),
        place=("datasets/boxing",),
        dest="out",
    ),
    "review-export": Killed(
        words=("review", "export", "datasets/reviewing", "-o", "out"),
        place=("datasets/reviewing",),
        dest="out",
    ),
}
