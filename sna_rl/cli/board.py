"""`sna-rl board`: TensorBoard on a folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of runs; everything below it is shown.")] = Path(
        "logs"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes any that is free.")] = 6006,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Open TensorBoard on a folder of runs, until Ctrl-C."""
    from sna_rl.training.board import serve

    serve(folder, port, browser, typer.echo)
