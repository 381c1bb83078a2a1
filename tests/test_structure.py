"""The house: who may import whom, what runs without what, and that names which do not speak are explained."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ["a3c_core", "playback", "zoo", "training", "ui", "app", "a3c_arcade"]
"""From the ground up: each may import those before it."""
LIBRARY = FLOORS[:4]
"""All that runs without a page."""
CORE = [
    "recipe",
    "spaces",
    "atari",
    "envs",
    "normalization",
    "model",
    "devices",
    "activity",
    "rollout",
    "off_policy",
    "loss",
    "passes",
    "optim",
    "shared",
    "handover",
    "worker",
    "agent",
    "migrations",
    "checkpoint",
    "evaluation",
]
"""The files of a3c_core in the order of reading: each may import those before it."""

FILES = [path for floor in FLOORS for path in [ROOT / f"{floor}.py", *(ROOT / floor).rglob("*.py")] if path.is_file()]


def imports_of(path):
    """The dotted names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floor_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path):
    above = [*FLOORS[FLOORS.index(floor_of(path)) + 1 :], "tests", "benchmarks"]
    assert [name for name in imports_of(path) if name.split(".")[0] in above] == []


@pytest.mark.parametrize("file", CORE)
def test_a_file_of_the_core_imports_only_those_before_it(file):
    allowed = CORE[: CORE.index(file)]
    ours = [name.split(".") for name in imports_of(ROOT / "a3c_core" / f"{file}.py") if name.startswith("a3c_core")]
    assert [name for name in ours if len(name) < 2 or name[1] not in allowed] == []


@pytest.mark.parametrize("package", LIBRARY)
def test_no_files_of_a_package_import_each_other(package):
    files = {path.stem: path for path in (ROOT / package).glob("*.py")}
    parts = {name: [part.split(".") for part in imports_of(path)] for name, path in files.items()}
    graph = {
        name: {part[1] if part[1:2] and part[1] in files else "__init__" for part in imported if part[0] == package}
        for name, imported in parts.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"{package}: {' imports '.join(reversed(error.args[1]))}")


def test_the_list_of_the_core_is_complete():
    assert sorted(path.stem for path in (ROOT / "a3c_core").glob("*.py")) == sorted(["__init__", *CORE])


def test_the_core_tells_its_order_of_reading():
    told = ast.get_docstring(ast.parse((ROOT / "a3c_core" / "__init__.py").read_text()))
    assert ", ".join(CORE[:-1]) in " ".join(told.split())


def test_the_readme_names_every_file_of_the_core_and_nine_at_most_to_read_first():
    section = (ROOT / "README.md").read_text().split("## Read the code")[1].split("\n## ")[0]
    first = re.findall(r"^\d\. `(\w+)\.py`", section, re.MULTILINE)
    others = re.findall(r"`(\w+)`", section.split("The other files")[1])
    assert sorted(first + others) == sorted(CORE)
    assert len(first) <= 9


@pytest.mark.parametrize(
    "path", [p for p in FILES if floor_of(p) in ("a3c_core", "playback", "zoo", "training")], ids=str
)
def test_neither_page_nor_hub_is_imported_below_the_page(path):
    strangers = {"gradio", "gradio_client", "huggingface_hub", "transformers"}
    if path not in (ROOT / "zoo" / "hub.py", ROOT / "zoo" / "jobs.py"):  # the only files that talk to the Hub
        assert strangers.isdisjoint(name.split(".")[0] for name in imports_of(path))


@pytest.mark.parametrize("path", [path for path in FILES if floor_of(path) in ("ui", "app")], ids=str)
def test_the_page_reads_no_private_attribute_but_where_gradios_are_gathered(path):
    read = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)]
    private = {
        f"{ast.unparse(node.value)}.{node.attr}"
        for node in read
        if re.match("_[a-z]", node.attr) and node.attr not in ("_asdict", "_replace", "_fields")
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "os", "sys"))
    }
    assert path.name == "gradio_internals.py" or private == set()


PAGE_AND_HUB = ("gradio", "gradio_client", "huggingface_hub", "playwright")
COMMAND_LINE = ("tyro", "tqdm", "tensorboardX", "imageio", "yaml", "PIL")
ATARI = ("ale_py",)
RAY = ("ray",)


@pytest.mark.parametrize(
    ("missing", "program"),
    {
        "the core and the zoo's records": (
            (*PAGE_AND_HUB, *COMMAND_LINE, *ATARI, *RAY),
            f"import {', '.join(f'a3c_core.{file}' for file in CORE if file != 'atari')}, zoo; assert zoo.entries()",
        ),
        "training and the zoo": (
            (*PAGE_AND_HUB, *ATARI, *RAY),
            "import training.__main__, zoo.__main__, zoo; assert zoo.load('cartpole').make_env().reset(seed=1)",
        ),
        "the core's tests": ((*PAGE_AND_HUB, *ATARI), "import tests.fixtures, tests.test_loss"),
    }.values(),
    ids=["core", "training", "tests"],
)
def test_what_needs_no_page_hub_or_atari_runs_without(missing, program):
    program = f"import sys; sys.modules |= dict.fromkeys({missing}); {program}"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr


def public_definitions(tree):
    return [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]


SPEAKING = {"DiscreteHead", "MultiDiscreteHead", "ContinuousHead"}
"""Names that say all there is to say."""


@pytest.mark.parametrize(
    "path", [p for p in FILES if floor_of(p) in ("a3c_core", "playback", "zoo", "training")], ids=str
)
def test_modules_and_what_is_public_in_them_are_explained(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    silent = {node.name for node in public_definitions(tree) if not ast.get_docstring(node)}
    assert silent - SPEAKING == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_signature_is_typed(path):
    bare = [
        f"{node.name}({argument.arg})"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if argument.annotation is None and argument.arg not in ("self", "cls")
    ]
    assert bare == []
