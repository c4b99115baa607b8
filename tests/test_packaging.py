"""What we hand out: the wheel in an empty environment, what it declares against what it imports, and the hints."""

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from matrix import bounds, lowest, requirements
from project_files import files

from strobe.core import late

ROOT = Path(__file__).parents[1]

EVERYTHING = ("dev", "ultralytics", "gpu-video", "kserve-grpc")
OURS = {"strobe", "fuzz", "setup", "net", "no_such_thing", "odd_plan", "_typeshed"}
"""Ourselves, names that tests make up, and what only type checkers see."""
ORACLES = {
    "decord",
    "hotcoco",
    "torchcodec",
    "ultrafast_pycocotools",
    "foolbox",
    "torchattacks",
    "fiftyone",
    "mlcroissant",
    "openvino",
    "mlserver",
}
"""What a benchmark or an export is held against, where somebody has it beside; never installed with strobe."""


@pytest.mark.slow
def test_the_source_archive_and_the_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    """The short form of `make matrix`: build the wheel, install it where nothing is, run every verb.

    Before that some tests are run in the unpacked source archive: it holds all they take.
    """
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/matrix.py"), "--short", "--tests"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def _imported(folder: str) -> set[str]:
    """Top-level names a folder's files import, at the top or later, by statement or by name."""
    found = set()
    sources = files(f"{folder}/**/*.py")
    beside = {path.stem for path in sources}
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in ("importorskip", "require", "import_module"):
                    found.add(str(node.args[0].value))
    names = {name.partition(".")[0] for name in found}
    return names - set(sys.stdlib_module_names) - OURS - ORACLES - beside


@pytest.mark.slow  # it needs every extra
@pytest.mark.parametrize("folder", ["src", "tests", "scripts", "benchmarks"])
def test_what_is_imported_is_declared(folder: str) -> None:
    declared = {_plain(re.split(r"[\[>=<;! ]", line)[0]) for line in requirements(EVERYTHING)}
    made_here = {path.stem for part in ("scripts", "benchmarks", "tests") for path in files(f"{part}/**/*.py")}
    owner = metadata.packages_distributions()
    for name in sorted(_imported(folder) - made_here):
        owners = {_plain(one) for one in owner.get(name, [name])}
        assert owners & declared, f"{folder}/ imports {name}, which pyproject.toml does not declare"


@pytest.mark.slow  # it needs every extra
def test_what_make_quick_may_miss_is_listed(pytestconfig: pytest.Config) -> None:
    """conftest.py skips what needs a package that `make quick` does not install; the extra brings it."""
    optional: dict[str, str] = pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py")).OPTIONAL
    owner = metadata.packages_distributions()

    def declared(*extras: str) -> set[str]:
        return {_plain(re.split(r"[\[>=<;! ]", line)[0]) for line in requirements(extras)}

    of_quick, of_all = declared("quick"), declared("test")
    for name in _imported("src") | _imported("tests"):
        owners = {_plain(one) for one in owner.get(name, [])}
        if owners & of_all and not owners & of_quick:
            assert name in optional, f"make quick does not install {name}, and conftest.py does not list it"
    for name, extra in optional.items():
        owners = {_plain(one) for one in owner.get(name, [name])}
        assert owners & declared(extra), f"the extra {extra} does not bring {name}"
        assert not owners & of_quick, f"make quick installs {name}: its tests are never skipped"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_the_test_client_stands_on_is_declared() -> None:
    """Starlette's test client takes httpx2 where it is and warns where it is not; warnings are errors here."""
    assert "httpx2" in bounds(requirements(["test"]))


def test_every_requirement_has_a_bound_the_matrix_can_read() -> None:
    lines = [line for line in requirements(EVERYTHING) if "==" not in line]
    assert len(bounds(lines)) == len(lines)


def test_the_lowest_version_with_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "numpy (2.4.0)\nAvailable versions: 2.4.0, 2.1.0, 1.26.4, 1.26.0, 1.25.2\n"
    monkeypatch.setattr("matrix.pip", lambda *words: answer)
    monkeypatch.setattr("matrix.installs", lambda python, line: line != "numpy==1.26.0")
    assert lowest(Path("python"), ["numpy>=1.26"]) == {"numpy": "1.26.4"}
    assert lowest(Path("python"), ["numpy>=1.27"]) == {"numpy": "2.1.0"}


def test_nobody_is_sent_to_a_strangers_package() -> None:
    pages = [*files("*.md"), *files("docs/**/*.md"), *files("src/**/*.py"), ROOT / "pyproject.toml"]
    for page in pages:
        for found in re.findall(r"strobe\[[a-z{]|pip install '?strobe(?!-vision)", page.read_text(encoding="utf-8")):
            pytest.fail(f"{page.relative_to(ROOT)} says {found}: it is called strobe-vision")


def test_a_package_older_than_needed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [
        "numpy>=1.26",
        "pillow>=10.1",
        "rich>=13",
        'av>=18; extra == "video"',
        'psycopg[binary]>=3.1; extra == "x"',
    ]
    have = {"numpy": "1.25.2", "pillow": "10.1.0", "av": "17.1.0", "psycopg": "3.1.0.dev1", "rich": None}
    monkeypatch.setattr(metadata, "requires", lambda name: declared)
    monkeypatch.setattr(late, "installed_version", have.get)
    assert late.too_old() == {"numpy": "1.26", "av": "18"}


def test_doctor_says_what_is_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from strobe.cli.main import main
    from strobe.workflows import doctor

    monkeypatch.setattr(doctor, "too_old", lambda: {"numpy": "99.1"})
    monkeypatch.setattr(doctor, "_places", list)
    with pytest.raises(SystemExit):
        main(["doctor", "--no-speed"])
    version = metadata.version("numpy")
    assert f"  ! numpy {version} is older than 99.1: pip install 'numpy>=99.1'\n" in capsys.readouterr().out
