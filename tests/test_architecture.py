"""The rules of the house that import-linter does not see."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from project_files import files, project_files

import strobe
from strobe.cli.main import cli

ROOT = Path(__file__).parents[1]
SOURCES = files("src/strobe/**/*.py")
MACHINE_PATHS = re.compile(b"/(home|root|Users)/[a-z]+/|/" + b"work/(main|shared)")
EXAMPLE_PATHS = (b"/home/someone/", b"/home/ubuntu/")
HEAVY = ("torch", "timm", "matplotlib", "fastapi", "sqlalchemy", "av", "scipy.stats", "pyarrow", "transformers")


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("entry", ["import strobe", "from strobe.cli.main import cli", "import strobe.cli.score"])
def test_start_imports_nothing_heavy(entry: str) -> None:
    done = _run(f"import sys; {entry}; print([m for m in {(*HEAVY, 'numpy', 'rich')!r} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_score_imports_what_it_needs(tmp_path: Path) -> None:
    """Of a folder that vouches for itself, of an older one, of a file and of a run: none needs any of these."""
    needless = (*HEAVY[:7], "scipy.optimize", "pandas", "pyarrow.dataset", "rich", "jinja2", "PIL")
    old, file = ROOT / "tests/golden/datasets/video", ROOT / "tests/golden/inputs/video-logits.json"
    new, run = tmp_path / "new", str(tmp_path / "run")
    strobe.save_dataset(strobe.load_dataset(old), new)
    commands = [["score", str(data), "-m", f"preds:{file}", "-o", run + data.name] for data in (new, old)]
    done = _run(
        "import sys; from strobe.cli.main import cli\n"
        f"for words in {[*commands, ['score', run + 'new']]!r}: cli.main(words, standalone_mode=False)\n"
        f"print([m for m in {needless!r} if m in sys.modules])"
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_house_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 800, "a file past 800 lines is asking to be two"
    tree = ast.parse(text)
    if path.name == "__init__.py" and path.parent.name != "strobe":
        assert not text.strip(), "sub-package __init__.py stay empty"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: expect() instead of assert"
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in [*tree.body, *(part for one in classes for part in one.body)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            of_a_signature = any("from_function" in ast.dump(one) for one in node.decorator_list)
            assert node.args.kwarg is None or of_a_signature, f"line {node.lineno}: no public **kwargs"


def test_class_names_are_unique_in_their_folder() -> None:
    """A reader who searches a folder for a class finds one."""
    names = Counter(
        (path.parent.relative_to(ROOT).as_posix(), node.name)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def _methods(tree: ast.Module) -> list[tuple[ast.ClassDef, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The public methods of the public classes of a module, without setters."""
    return [
        (node, part)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for part in node.body
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        and not part.name.startswith("_")
        and not any(isinstance(mark, ast.Attribute) and mark.attr == "setter" for mark in part.decorator_list)
    ]


def _undocumented(trees: dict[str, ast.Module]) -> list[str]:
    """The public methods without a docstring whose name no other class of the tree documents."""
    methods = [(path, *method) for path, tree in trees.items() for method in _methods(tree)]
    documented = {method.name for _, _, method in methods if ast.get_docstring(method)}
    return [
        f"{path}: {node.name}.{method.name}"
        for path, node, method in methods
        if not ast.get_docstring(method) and method.name not in documented
    ]


def test_every_public_method_is_documented_once() -> None:
    """What a protocol or a base class documents, its implementations need not document again."""
    protocol = "class Port:\n def read(self):\n  'Read.'\n"
    made = "class File:\n def read(self): ...\n def drop(self): ...\n"
    assert _undocumented({"a": ast.parse(protocol), "b": ast.parse(made)}) == ["b: File.drop"]
    parsed = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert _undocumented(parsed) == []


PURE = re.compile(
    r"strobe\.(core|metrics|analyses)\.|strobe\.(studies\.\w+|annexes\.\w+\.\w+)\.(records|score|plan$|measures)"
)
PURE_PACKAGES = {"numpy", "scipy", *sys.stdlib_module_names}
PURE_FILES = [
    path
    for name in ("records", "score*", "plan", "measures*")
    for path in SOURCES
    if path.match(f"studies/*/{name}.py") or path.match(f"annexes/*/*/{name}.py")
]


@pytest.mark.parametrize("path", PURE_FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_records_and_scores_of_a_study_are_pure(path: Path) -> None:
    """They stand on core, metrics, analyses and each other; import-linter cannot name score_*.py by a pattern."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    found += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name for name in found if not PURE.match(name) and name.split(".")[0] not in PURE_PACKAGES] == []


def test_no_machine_paths() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in project_files()
        if path != Path(__file__) and MACHINE_PATHS.search(content := path.read_bytes()) and b"\0" not in content
        for number, line in enumerate(content.splitlines(), start=1)
        if MACHINE_PATHS.search(line) and not any(example in line for example in EXAMPLE_PATHS)
    ]
    assert found == []


def test_public_api_is_sorted_and_documented() -> None:
    assert list(strobe.__all__) == sorted(strobe.__all__)
    for name in strobe.__all__:
        assert getattr(strobe, name).__doc__, f"strobe.{name} has no docstring"


def test_every_name_that_is_imported_late_is_there() -> None:
    """`"package.module:name"` is text to the type checker, so a rename passes it by."""
    found = 0
    for path in SOURCES:
        for module, name in re.findall(r'"(strobe(?:\.\w+)+):(\w+)"', path.read_text(encoding="utf-8")):
            source = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
            assert re.search(rf"\b{name}\b", source), f"{path.relative_to(ROOT)} names {module}:{name}"
            found += 1
    assert found > 30


CLOCKS = ("monotonic", "perf_counter", "time", "process_time")


def _durations(tree: ast.AST) -> list[int]:
    """The lines that measure how long something took, except where it is only asked to take that long at least."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Call)):
            continue
        clock = node.left.func
        if not (isinstance(clock, ast.Attribute) and clock.attr in CLOCKS and getattr(clock.value, "id", "") == "time"):
            continue
        above = parents[node]
        is_least = isinstance(above, ast.Compare) and all(isinstance(op, ast.Gt | ast.GtE) for op in above.ops)
        if not (is_least and isinstance(above, ast.Compare) and above.left is node):
            found.append(node.lineno)
    return found


def test_no_test_decides_by_the_clock() -> None:
    """A busy machine is no fault of the code: what is timed is a benchmark. A deadline for something stuck is fine."""
    assert _durations(ast.parse("took = time.monotonic() - begin\nassert took < 1")) == [1]
    assert _durations(ast.parse("assert time.monotonic() - begin > 1")) == []
    root = Path(__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in files("tests/**/*.py")
        for line in _durations(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


MARK = re.compile(r"<<([a-z0-9_]+)(?:=|>>)")
FLAG = re.compile(r"(?<![\w-])--(?!out\b)[a-z][a-z0-9-]*(?!\S*…)")


def _texts(path: Path) -> list[str]:
    """The texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return [node.value for node in parts if isinstance(node.value, str)]


def test_marked_options_exist() -> None:
    """`<<option>>` in a message is the name of a flag of a command (ADR 18)."""
    known: set[str] = set()
    commands: list[click.Command] = [cli]
    while commands:
        command = commands.pop()
        context = click.Context(command)
        if isinstance(command, click.Group):
            commands += [
                found for name in command.list_commands(context) if (found := command.get_command(context, name))
            ]
        options = [opt for param in command.params if isinstance(param, click.Option) for opt in param.opts]
        known |= {opt.strip("-").replace("-", "_") for opt in options if opt.startswith("--")}
    marked = {name for path in SOURCES for text in _texts(path) for name in MARK.findall(text)}
    assert len(marked) > 100
    assert sorted(marked - known) == []


@pytest.mark.parametrize("room", ["analyses", "build", "engine", "models", "store", "synthetic", "workflows"])
def test_errors_mark_their_options(room: str) -> None:
    """An error below the command line names an option as `<<option>>`; a flag is part of a whole command."""
    found = []
    for path in (path for path in SOURCES if path.relative_to(ROOT / "src/strobe").parts[0] == room):
        raised = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise)]
        parts = [part for node in raised for part in ast.walk(node) if isinstance(part, ast.Constant)]
        texts = [part.value for part in parts if isinstance(part.value, str)]
        found += [f"{path.name}: {text}" for text in texts if FLAG.search(text) and "strobe " not in text]
    assert found == []
