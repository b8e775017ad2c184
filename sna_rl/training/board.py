"""TensorBoard on a folder of runs."""

from __future__ import annotations

import threading
import warnings
import webbrowser
from collections.abc import Callable
from pathlib import Path

from sna_rl.errors import SnaError, UsageError
from sna_rl.training.display import has_display


def start(folder: Path, port: int) -> str:
    """Start TensorBoard in this process; it serves this machine alone.

    Args:
        folder: folder with event files anywhere below it.
        port: port to listen on; 0 takes any that is free.

    Returns:
        Its address.

    Raises:
        UsageError: if there is no such folder, or no event file in it.
        SnaError: if it can't listen on the port.
    """
    if not folder.is_dir():
        raise UsageError(f"folder {str(folder)!r} does not exist; name the folder that train wrote to")
    if next(folder.rglob("events.out.tfevents.*"), None) is None:
        raise UsageError(f"folder {str(folder)!r} holds no TensorBoard events; train a run into it first")
    arguments = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port), "--load_fast=false"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what TensorBoard imports
        from tensorboard import program

        server = program.TensorBoard()
        server.configure(argv=["tensorboard", *arguments])
    try:
        return str(server.launch())
    except program.TensorBoardServerException as error:
        raise SnaError(f"TensorBoard can't listen on port {port}; --port 0 takes any that is free") from error


def serve(folder: Path, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Run TensorBoard until Ctrl-C.

    Args:
        folder: folder with event files anywhere below it.
        port: port to listen on; 0 takes any that is free.
        browser: open it in a browser, where there is a display.
        say: called with the address.
    """
    address = start(folder, port)
    try:
        say(f"TensorBoard shows {folder} at {address} (Ctrl-C ends it)")
        if browser and has_display():
            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        return
