"""Packages that add to strobe's lists: one is installed with pip and used, broken ones are a line each."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.core.errors import StrobeError, UnknownName
from strobe.core.late import Registry
from strobe.formats.registry import ExportFormat

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "tests" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip has put the plugin."""
    place = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, place / "source")
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(place / "site")]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, str(place / "source")], check=True, capture_output=True, text=True
    )
    return place / "site"


def strobe(*words: object, path: Path, code: int = 0) -> tuple[str, str]:
    """Run the command line with another folder of packages, and return what it prints."""
    paths = os.pathsep.join([str(path), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "strobe", *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow  # pip installs a package
def test_an_installed_plugin_is_in_every_list_and_works(installed: Path, tmp_path: Path) -> None:
    out, err = strobe("models", path=installed)
    assert f"{'colours:mean':<32} the strongest colour of an image" in out
    assert not err
    assert strobe("models", "colours:*", path=installed)[0].split() == ["colours:mean"]
    assert "colour-table         Images with a table of labels." in strobe("import", "--help", path=installed)[0]
    assert "--table TEXT" in strobe("import", "colour-table", "--help", path=installed)[0]
    assert "key-list             the keys of all frames" in strobe("export", "--help", path=installed)[0]
    out, _ = strobe("doctor", "--no-speed", path=installed)
    assert "+ colours of strobe-colours 0.1 (strobe.providers)" in out

    source, data, run = tmp_path / "colours", tmp_path / "data", tmp_path / "run"
    source.mkdir()
    rows = {"a.png": "red", "b.png": "green", "c.png": "blue", "d.png": "blue"}
    for name, colour in rows.items():
        shown = "red" if name == "d.png" else colour  # one label is wrong
        pixels = np.zeros((8, 8, 3), dtype=np.uint8)
        pixels[..., ["red", "green", "blue"].index(shown)] = 200
        Image.fromarray(pixels).save(source / name)
    (source / "mine.csv").write_text("".join(f"{name},{colour}\n" for name, colour in rows.items()))
    out, _ = strobe("import", "colour-table", source, data, "--table", "mine.csv", path=installed)
    assert "4 photos, 3 classes" in out
    strobe("export", data, "key-list", tmp_path / "keys", path=installed)
    assert (tmp_path / "keys" / "keys.txt").read_text() == "a.png\nb.png\nc.png\nd.png\n"
    (tmp_path / "mine.toml").write_text(
        '[[model]]\nmodel = "colours:mean"\nbatch = 3\n[[model]]\nmodel = "again=colours:mean"\n'
    )
    strobe("eval", data, "-m", f"@{tmp_path}/mine.toml", "-o", run, "-q", path=installed)
    results = json.loads((run / "results.json").read_text())
    assert {name: one["acc_orig"]["value"] for name, one in results["models"].items()} == {
        "colours:mean": 0.75,
        "again": 0.75,
    }
    assert json.loads((run / "run.json").read_text())["models"]["again"]["preprocessing"]["plugin"] == (
        "strobe-colours 0.1"
    )
    page = (run / "report.html").read_text()
    assert "colours:mean" in page
    assert results["studies"]["answer-shares"]["again"] == {"blue": 0.25, "green": 0.25, "red": 0.5}
    assert '<section id="answer-shares" class="block">' in page
    assert '<a href="#answer-shares">Answers by class</a>' in page
    assert (run / "tables" / "answer_shares.csv").read_text().splitlines()[:2] == [
        "model,class,share",
        "again,blue,0.25",
    ]
    out, _ = strobe("score", run, path=installed)
    assert "answers by class" in out
    assert "answers by class" not in strobe("score", run, path=ROOT / "src")[0]
    (tmp_path / "mine.toml").write_text('[[model]]\nmodel = "colours:mean"\nprecision = "float16"\n')
    _, err = strobe("predict", data, "-m", f"@{tmp_path}/mine.toml", "-o", tmp_path / "no", path=installed, code=2)
    assert "colours:mean does not take precision; it takes batch_size" in err
    out, _ = strobe("predict", data, "-m", "colours:maen", "-o", tmp_path / "no", path=installed, code=2)
    assert "did you mean mean?" in out
    out, _ = strobe("predict", data, "-m", "colours:mean", "-o", run, path=ROOT / "src", code=2)
    assert "unknown provider 'colours'" in out


def test_the_page_on_plugins_shows_this_plugin() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    files = ["pyproject.toml", *(f"strobe_colours/{name}.py" for name in ("provider", "importer", "exporter", "study"))]
    for name in files:
        assert (PLUGIN / name).read_text(encoding="utf-8").rstrip() in page, name


def package(site: Path, name: str, points: str, **modules: str) -> None:
    """Write an installed package by hand: its metadata and its modules."""
    facts = site / f"{name.replace('-', '_')}-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(points)
    for module, content in modules.items():
        (site / f"{module}.py").write_text(content)


@pytest.mark.slow  # pip installs a package
def test_a_broken_plugin_is_one_line_and_everything_else_works(installed: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    package(
        site,
        "bad-one",
        "[strobe.providers]\nnoimport = bad_one_gone:PROVIDER\nraises = bad_one:PROVIDER\ntimm = bad_two:PROVIDER\n"
        "wrong = bad_two:PROVIDER\nexits = bad_three:PROVIDER\npreds = bad_two:PROVIDER\n"
        "[strobe.import_formats]\nphotos = bad_two:FORMAT\nnothing = bad_two:NOTHING\n",
        bad_one="raise RuntimeError('two\\nlines')\n",
        bad_two="PROVIDER = 3\n",
        bad_three="import sys\nsys.exit('gone')\n",
    )
    package(site, "zoo-one", "[strobe.providers]\ncolours = bad_two:PROVIDER\n")
    out, err = strobe("models", path=site)
    lines = err.splitlines()
    for name, says in {
        "noimport = bad_one_gone:PROVIDER": "ModuleNotFoundError: No module named 'bad_one_gone'",
        "raises = bad_one:PROVIDER": "RuntimeError: two lines",
        "wrong = bad_two:PROVIDER": "bad_two:PROVIDER is a int, expected a strobe.models.providers.Provider",
        "exits = bad_three:PROVIDER": "SystemExit: gone",
        "timm = bad_two:PROVIDER": "the name timm is taken by strobe itself",
        "preds = bad_two:PROVIDER": "the name preds is taken by strobe itself",
    }.items():
        (line,) = [one for one in lines if f"bad-one 1.0: entry point {name} of strobe.providers" in one]
        assert says in line
        assert line.endswith("update or uninstall bad-one")
    (line,) = [one for one in lines if "zoo-one 1.0" in one]
    assert "the name colours is taken by strobe-colours 0.1" in line
    assert len(lines) == 7
    assert "colours:mean" in out
    assert "timm:resnet50.a1_in1k" in out
    out, err = strobe("import", "--help", path=site)
    assert len(err.splitlines()) == 2, "the name photos, and an object that is not there"
    assert "colour-table" in out
    assert "photos " in out
    _, err = strobe("import", "nothing", "a", "b", path=site, code=2)
    assert "bad-one 1.0: entry point nothing = bad_two:NOTHING of strobe.import_formats: cannot be loaded" in err
    from strobe.api.making import synthesize

    synthesize(tmp_path / "world", videos=1, k=1, size=32)
    words = ("predict", tmp_path / "world", "-m", "strobe-world", "-m", "raises:x", "-o", tmp_path / "run", "-q")
    out, err = strobe(*words, "--device", "cpu", path=site, code=2)
    assert "strobe-world" in out + err
    assert "bad-one 1.0: entry point raises = bad_one:PROVIDER of strobe.providers" in out + err


def test_a_package_offers_an_annex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same object as an annex of strobe, in one entry point; it adds to the lists that packages can extend."""
    annex = (
        "from strobe.core.annex import Annex, Item\n"
        "ANNEX = Annex(what='stars', adds={'export_formats': {'stars': Item('%s:FORMAT', 'stars')}, 'cellar': {}})\n"
    )
    form = (
        "from strobe.formats.export_media import Outgoing\nfrom strobe.formats.registry import ExportFormat\n"
        "FORMAT = ExportFormat(make=lambda dataset, media: Outgoing(files={}), what='stars')\n"
    )
    for name, module in (("sky", annex % "sky_form"), ("rust", "ANNEX = 3\n")):
        package(tmp_path, name, f"[strobe.annexes]\n{name} = {name}_annex:ANNEX\n", **{f"{name}_annex": module})
    (tmp_path / "sky_form.py").write_text(form)
    monkeypatch.syspath_prepend(tmp_path)
    formats = Registry("export_formats", ExportFormat, "export format", {"csv": "strobe.formats.export_csv:FORMAT"})
    assert list(formats.plugins) == ["stars"]
    assert formats["stars"].what == "stars"
    assert formats.line("stars").startswith("added by sky")
    (problem,) = formats.problems()
    assert "entry point rust = rust_annex:ANNEX of strobe.annexes: its annex cannot be loaded" in problem
    assert "is a int, expected a strobe.core.annex.Annex" in problem
    closed = Registry("export_formats", ExportFormat, "export format", {}, closed=True)
    assert list(closed.plugins) == []


def test_nothing_of_a_plugin_is_imported_before_it_is_used(tmp_path: Path) -> None:
    package(
        tmp_path,
        "loud-one",
        "[strobe.providers]\nloud = loud_one:PROVIDER\n[strobe.import_formats]\nloud = loud_one:FORMAT\n",
        loud_one="raise SystemExit('imported')\n",
    )
    for words in (["--help"], ["eval", "--help"], ["models", "efficientnet-lite?"]):
        assert "loud" not in "".join(strobe(*words, path=tmp_path)), words
    script = "import sys, strobe; assert 'importlib.metadata' not in sys.modules; assert 'loud_one' not in sys.modules"
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, check=True)


def test_a_list_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(
        tmp_path,
        "numbers",
        "[strobe.numbers]\nfour = numbers_four:FOUR\nbad name! = numbers_four:FOUR\nthree = numbers_four:FOUR\n",
        numbers_four="FOUR = 4\n",
    )
    monkeypatch.syspath_prepend(tmp_path)
    numbers = Registry("numbers", int, "number", {"three": "sys:maxsize"}, reserved=("five",))
    assert list(numbers) == ["three", "four"]
    assert numbers["four"] == 4
    assert numbers.working() == {"three": sys.maxsize, "four": 4}
    taken, bad = sorted(numbers.problems(), key=len, reverse=True)
    assert "expected a name of letters, digits, dots and dashes" in taken + bad
    assert "the name three is taken by strobe itself" in taken + bad
    with pytest.raises(UnknownName, match=r"unknown number 'fuor'; did you mean four\? \(known: three, four\)"):
        numbers["fuor"]
    closed = Registry("numbers", int, "number", {"three": "sys:maxsize"}, closed=True)
    assert (list(closed), closed.problems()) == (["three"], [])
    with pytest.raises(TypeError):  # a list of strobe's own that is wrong is a fault of strobe
        Registry("texts", str, "text", {"three": "sys:maxsize"}, closed=True)["three"]
    assert issubclass(UnknownName, StrobeError)


_STUDY = """
from dataclasses import replace
from strobe.analyses.scoring import Collector
from strobe.core.estimate import Estimate
from strobe.report.study import Study

class Mine(Collector):
    def add(self, result, model, answers):
        {add}
        return result
    def into(self, results):
        {into}
        return replace(results, studies={{**(results.studies or {{}}), "mine": {{"seen": len(results.models)}}}})

def collector(scoring):
    print("COLLECTOR")
    return Mine(scoring)

def lines(view):
    {lines}
    return [("Mine", ["a"], [["b"]], [])]

print("IMPORTED")
STUDY = Study(
    name="{name}", decides=99, tables={tables}, collector=collector, lines=lines,
    question=lambda view: "REPLACED TITLE", content=lambda view: {{"lead": "REPLACED LEAD", "n_models": 777}},
)
"""

_CHANGED = "replace(result, acc_pmk=Estimate(value=0.625, low=0.5, high=0.75, n=3))"


def study(site: Path, **parts: str) -> None:
    """Install a study `mine`, with these lines in its methods."""
    given = {"add": "pass", "into": "pass", "lines": "pass", "tables": "{}", "name": "mine"} | parts
    package(site, "mine-one", "[strobe.studies]\nmine = mine_one:STUDY\n", mine_one=_STUDY.format(**given))


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dataset, and a file of predictions for it."""
    import strobe as library

    place = tmp_path_factory.mktemp("scored")
    dataset = library.example_dataset(n_videos=3, k=1)
    library.save_dataset(dataset, place / "data")
    n = len(dataset.info.label_space)
    found = {
        key: [float(column == row % n) for column in range(n)] for row, key in enumerate(dataset.frames.key.tolist())
    }
    (place / "p.json").write_text(json.dumps({"kind": "probabilities", "predictions": found}))
    return place / "data", place / "p.json"


def figures(scored: tuple[Path, Path], site: Path, run: Path, *words: str) -> tuple[dict, str, str]:  # type: ignore[type-arg]
    """Score with these packages, and return results.json, stdout and stderr."""
    data, predictions = scored
    out, err = strobe("score", data, "-m", f"m=preds:{predictions}", "-o", run, *words, path=site)
    return json.loads((run / "results.json").read_text()), out, err


@pytest.fixture(scope="module")
def unplugged(scored: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str, Path]:  # type: ignore[type-arg]
    """results.json, the terminal text and the run folder of the same score without any plugin."""
    run = tmp_path_factory.mktemp("unplugged") / "run"
    found, out, _ = figures(scored, ROOT / "src", run)
    return found, out, run


def test_a_study_adds_and_stands_in_the_results(
    scored: tuple[Path, Path],
    unplugged: tuple[dict, str, Path],
    tmp_path: Path,  # type: ignore[type-arg]
) -> None:
    plain, shown, _ = unplugged
    study(tmp_path / "site")
    found, out, err = figures(scored, tmp_path / "site", tmp_path / "run", "--json")
    assert json.loads(out), "nothing comes before the JSON"
    assert "IMPORTED" in err
    assert found.pop("plugins") == {"mine": "mine-one 1.0"}
    assert found.pop("studies")["mine"] == {"seen": 1}
    assert found == {key: value for key, value in plain.items() if key != "studies"}
    out, _ = strobe("score", tmp_path / "run", path=tmp_path / "site")
    assert "mine" in out
    assert out.startswith(shown[:60])
    strobe("report", tmp_path / "run", path=tmp_path / "site")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "REPLACED" not in page
    assert "777" not in page


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"add": f"result = {_CHANGED}"}, "only a record under studies.mine added"),
        ({"into": "results.models.clear()"}, "only a record under studies.mine added"),
        ({"add": "answers.label[:] = 0"}, "read-only"),
        ({"add": "1 / 0"}, "its study failed (add) (ZeroDivisionError"),
        ({"into": "import os; os._exit(5)"}, "os._exit(5)"),
        ({"lines": "1 / 0"}, "its study failed (lines) (ZeroDivisionError"),
        ({"tables": "{'sets': lambda view: [{'model': 'm'}]}"}, "a name that strobe does not use"),
        ({"tables": "{'../up': lambda view: [{'model': 'm'}]}"}, "letters, digits, _ and -"),
        ({"tables": "{'mine': lambda view: 1 / 0}"}, "its study failed (table mine)"),
        ({"name": "other"}, "mine, as its entry point"),
    ],
)
def test_a_study_replaces_nothing_and_is_named(
    parts: dict[str, str],
    says: str,
    scored: tuple[Path, Path],
    unplugged: tuple[dict, str, Path],
    tmp_path: Path,  # type: ignore[type-arg]
) -> None:
    plain, shown, folder = unplugged
    study(tmp_path / "site", **parts)
    found, out, err = figures(scored, tmp_path / "site", tmp_path / "run")
    found.pop("plugins", None)
    (found.get("studies") or {}).pop("mine", None)
    assert {key: value for key, value in found.items() if value} == {key: one for key, one in plain.items() if one}
    lines = [line for line in err.splitlines() if "mine-one 1.0: entry point mine = mine_one:STUDY" in line]
    assert len(lines) == bool(says)
    assert says in "".join(lines)
    assert out.replace(str(tmp_path / "run"), "RUN").startswith(shown.replace(str(folder), "RUN").rstrip()[:200])
    for table in (folder / "tables").glob("*.csv"):
        assert (tmp_path / "run" / "tables" / table.name).read_text() == table.read_text(), table.name
    assert not (tmp_path / "run" / "up.csv").exists()


def test_a_broken_study_is_named_by_score_and_report(scored: tuple[Path, Path], tmp_path: Path) -> None:
    package(tmp_path / "site", "mine-one", "[strobe.studies]\nmine = mine_one:STUDY\n", mine_one="raise OSError('x')\n")
    _, _, err = figures(scored, tmp_path / "site", tmp_path / "run")
    assert err.count("mine-one 1.0: entry point mine = mine_one:STUDY of strobe.studies: cannot be loaded") == 1
    _, err = strobe("report", tmp_path / "run", path=tmp_path / "site")
    assert err.count("mine-one 1.0: entry point mine = mine_one:STUDY of strobe.studies: cannot be loaded") == 1


def test_ctrl_c_in_an_import_names_the_package(tmp_path: Path) -> None:
    package(tmp_path, "slow-one", "[strobe.providers]\nslow = slow_one:P\n", slow_one="raise KeyboardInterrupt\n")
    _, err = strobe("models", path=tmp_path, code=130)
    assert "strobe: slow-one 1.0: entry point slow = slow_one:P of strobe.providers: interrupted" in err


def test_a_damaged_entry_points_file_is_one_line(tmp_path: Path) -> None:
    for number, points in enumerate(
        ["\0[bad", "[strobe.providers]\nx = y = z : q\n = \nfoo\n", "no section\nfoo bar\n"]
    ):
        package(tmp_path, f"damaged{number}", points)
    (tmp_path / "damaged0-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe\0[")
    package(tmp_path, "no-facts", "[strobe.providers]\nnofacts = gone_one:P\n")
    (tmp_path / "no_facts-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\0")
    package(tmp_path, "sound", "[strobe.providers]\nsound = sound_one:P\n", sound_one="print('PRINTED')\nP = 3\n")
    out, err = strobe("doctor", "--no-speed", "--json", path=tmp_path)
    rows = json.loads(out)["plugins"]
    problems = [row["problem"] for row in rows if row["problem"]]
    for name in ("damaged0", "damaged1", "no_facts"):
        assert sum(f"{name}-1.0.dist-info: its entry points cannot be read" in line for line in problems) == 1, name
    assert any(row["package"] == "sound 1.0" for row in rows)
    assert "PRINTED" in err


def test_an_import_asks_for_no_other_plugin(tmp_path: Path) -> None:
    """A format that hangs when it is imported hangs neither another format, nor a message, nor the shell."""
    site = tmp_path / "site"
    groups = ("import_formats", "export_formats", "providers")
    points = "".join(f"[strobe.{group}]\nhang = hang_one:X\n" for group in groups)
    package(site, "hang-one", points, hang_one="import time\ntime.sleep(1000)\n")
    source = tmp_path / "frames" / "a"
    source.mkdir(parents=True)
    for name in ("0.png", "1.png"):
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(source / name)
    (tmp_path / "labels.csv").write_text("video,label\na,cat\n")
    begin = ("import", "frames")
    _, err = strobe(*begin, tmp_path / "frames", tmp_path / "data", path=site, code=2)
    assert "labels" in err
    strobe(*begin, "--help", path=site)
    strobe("import", "nothing", "a", "b", path=site, code=2)
    strobe("predict", "x", "-m", "no-such-model", "-o", tmp_path / "r", path=site, code=2)
    words = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")])}
    words |= {"_STROBE_COMPLETE": "bash_complete", "COMP_WORDS": "strobe import ", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-m", "strobe"], env=words, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
