"""Entry point of the app, here and on a Space: `python app.py`.

Worker processes import this file again, so everything heavy is imported inside `main`.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # so are these, with its client
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")  # visitors see what anybody sees, not what the host may
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # games are drawn into arrays here, never in a window

SWITCH_SECONDS = 0.0005
"""How long a thread that plays may keep others waiting: those who answer visitors take many short turns."""


def main() -> None:
    """Serves the app; GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where."""
    with suppress(ImportError):  # a ZeroGPU Space wants a function that could ask for a GPU; none of ours needs one
        import spaces

        spaces.GPU(lambda: None)
    import ui
    from a3c_core.allocator import share_freed_memory

    share_freed_memory()
    sys.setswitchinterval(SWITCH_SECONDS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a polite kill tidies up, as Ctrl-C does
    page = ui.build()
    page.launch(**ui.LAUNCH, prevent_thread_lock=True)
    ui.give_up_silent_connections(page.server)
    threading.Thread(target=ui.warm_up, daemon=True).start()  # not before: gradio gives up where its page takes 3 s
    page.block_thread()


if __name__ == "__main__":
    main()
