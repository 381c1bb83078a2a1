"""Entry point of the app, here and on a Space: `python app.py`.

Worker processes import this file again, so everything heavy is imported inside `main`.
"""

import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # so are these, with its client
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")  # visitors see what anybody sees, not what the host may
if "SPACE_ID" in os.environ:  # its proxies alone reach it, from these networks; read when uvicorn starts
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # games are drawn into arrays here, never in a window

IMPORT = "A3C_IMPORT"
"""The environment variable that names a module of the user's own, which registers environments or encoders."""
SWITCH_SECONDS = 0.0005
"""How long a thread that plays may keep others waiting: those who answer visitors take many short turns."""


def main() -> None:
    """Serves the app until it is interrupted; GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where."""
    with tempfile.TemporaryDirectory(prefix="a3c-arcade-gradio-", ignore_cleanup_errors=True) as files:
        os.environ.setdefault("GRADIO_TEMP_DIR", files)  # read when gradio is imported
        serve()


def import_own() -> None:
    """Registers what the module named by A3C_IMPORT defines: agents of it can be watched then."""
    if module := os.environ.get(IMPORT):
        from a3c_core.envs import register_module

        try:
            register_module(module)
        except ValueError as error:
            raise SystemExit(f"error: {error}") from None


def serve() -> None:
    """Serves the app and, when it is interrupted, ends all that is under way."""
    import_own()
    with suppress(ImportError):  # a ZeroGPU Space wants a function that could ask for a GPU; none of ours needs one
        import spaces

        spaces.GPU(lambda: None)
    import ui
    from training.allocator import share_freed_memory

    share_freed_memory()
    sys.setswitchinterval(SWITCH_SECONDS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a polite kill tidies up, as Ctrl-C does
    page, arcade = ui.build()
    page.launch(**ui.launch_options(arcade), prevent_thread_lock=True)
    ui.gradio_internals.give_up_silent_connections(page, ui.SILENT_SECONDS)
    warming = threading.Thread(target=ui.warm_up, args=(arcade,), daemon=True)
    warming.start()  # not before: gradio gives up where its page takes 3 s
    try:
        page.block_thread()
    finally:
        ui.close(page, arcade)
        warming.join(ui.LAST_SECONDS)  # what it has begun must not outlive this


if __name__ == "__main__":
    main()
