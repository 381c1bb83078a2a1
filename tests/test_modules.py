"""The page's scripts: how they are sent, what types they have, and the arithmetic that needs no page."""

import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ui.modules import IMPORT, ROUTES, modules, mounted, needed, version

ROOT = Path(__file__).parents[1]
CLIENT = TestClient(Starlette(routes=ROUTES))


def test_a_module_is_sent_for_ever():
    name = "watch/player.js"
    answer = CLIENT.get(f"/arcade/js/{version()}/{name}")
    assert answer.content == (ROOT / "ui" / name).read_bytes()
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("path", ["0" * 12 + "/chunk.js", f"{version()}/theme.py", f"{version()}/../modules.py"])
def test_other_versions_and_files_are_not_there(path):
    assert CLIENT.get(f"/arcade/js/{path}").status_code == 404


def test_every_import_leads_to_a_module():
    for name, module in modules().items():
        for wanted in IMPORT.findall(module.decode()):
            assert (ROOT / "ui" / name).parent.joinpath(wanted).resolve().is_relative_to(ROOT / "ui")
            assert (ROOT / "ui" / name).parent.joinpath(wanted).is_file(), (name, wanted)


def test_a_module_needs_all_that_is_imported_on_the_way():
    assert needed("board/board.js") == ("board/board.js", "board/days.js", "chunk.js", "gradio_internals.js")
    for name, module in modules().items():
        assert module.decode().count("\nimport ") == len(IMPORT.findall(module.decode())), name


def test_a_component_names_its_module_and_its_events():
    text = mounted("play/play.js", "begin", "over")
    assert f"/arcade/js/{version()}/play/play.js" in text
    assert "'begin'" in text
    assert "'over'" in text


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: apt install nodejs)")
def test_the_wire_format_and_the_arithmetic_of_the_player():
    tests = sorted((ROOT / "tests" / "js").glob("*.js"))
    ended = subprocess.run(["node", "--test", *tests], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.skipif(not shutil.which("tsc"), reason="needs TypeScript (Debian: apt install node-typescript)")
def test_the_types_of_the_scripts():
    ended = subprocess.run(["tsc", "-p", "."], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stdout
