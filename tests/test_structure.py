"""The house: who may import whom, what runs without what, and that names which do not speak are explained."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ["a3c_core", "playback", "zoo", "training", "ui", "app"]
"""From the ground up: each may import those before it."""
LIBRARY = FLOORS[:4]
"""All that runs without a page."""
CORE = [
    "recipe",
    "atari",
    "envs",
    "model",
    "agent",
    "activation_cache",
    "rollout",
    "loss",
    "optim",
    "allocator",
    "worker",
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


def test_the_list_of_the_core_is_complete():
    assert sorted(path.stem for path in (ROOT / "a3c_core").glob("*.py")) == sorted(["__init__", *CORE])


def test_the_core_tells_its_order_of_reading():
    told = ast.get_docstring(ast.parse((ROOT / "a3c_core" / "__init__.py").read_text()))
    assert ", ".join(CORE[:-1]) in " ".join(told.split())


@pytest.mark.parametrize(
    "path", [p for p in FILES if floor_of(p) in ("a3c_core", "playback", "zoo", "training")], ids=str
)
def test_neither_page_nor_hub_is_imported_below_the_page(path):
    strangers = {"gradio", "gradio_client", "huggingface_hub", "transformers"}
    if path != ROOT / "zoo" / "hub.py":  # the one file that talks to the Hub
        assert strangers.isdisjoint(name.split(".")[0] for name in imports_of(path))


def test_the_core_runs_where_there_is_no_page_and_no_hub():
    program = f"""
import sys
for stranger in ("gradio", "gradio_client", "huggingface_hub", "tyro", "tqdm", "tensorboardX"):
    sys.modules[stranger] = None
import importlib
for file in {CORE}:
    importlib.import_module("a3c_core." + file)
import zoo
print(len(zoo.entries()))
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().isdigit()


def public_definitions(tree):
    return [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]


SPEAKING = {"DiscreteHead", "ContinuousHead"}
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
