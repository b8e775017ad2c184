"""`sna-rl vision train|evaluate|trace|solve|ablate`: Hyper-SET, its baselines and their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sna_rl.cli import flags
from sna_rl.errors import UsageError

app = typer.Typer(help="Hyper-SET, a transformer that minimises an energy, beside its baselines.")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The run folder that train printed.")]
Task = Annotated[str | None, typer.Option(help="sudoku, classify or mask.")]
Model = Annotated[
    str | None, typer.Option(help="hyper-set, transformer, crate, crate-t, energy-transformer.")
]
Data = Annotated[str | None, typer.Option(help="Images' folder; boards' folder or CSV file.")]
Steps = Annotated[int | None, typer.Option("--n-steps", "-n", help="Optimizer steps.", metavar="N")]
Iterations = Annotated[
    int | None, typer.Option("--iterations", help="Times the layer is applied.", metavar="L")
]
Hyperparams = Annotated[
    list[str] | None,
    typer.Option("--hyperparams", "-params", metavar="K:V…", help="Any other setting of a run."),
]
Best = Annotated[bool, typer.Option("--best", help="The weights of the best evaluation, not the last.")]


@app.command()
def train(
    task: Task = None,
    model: Model = None,
    data: Data = None,
    n_steps: Steps = None,
    n_iterations: Iterations = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.", metavar="S")] = None,
    folder: Annotated[
        Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")
    ] = Path("logs"),
    hyperparams: Hyperparams = None,
    trained: Annotated[
        Path | None,
        typer.Option("--trained", "-i", metavar="RUN", help="Go on with this run, in its folder."),
    ] = None,
    device: flags.Device = "auto",
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show how far it is.")] = True,
) -> None:
    """Train a model; -params sets any field of sna_rl.vision's configurations."""
    given: dict[str, Any] = {
        "task": task,
        "model": model,
        "data": data,
        "n_steps": n_steps,
        "n_iterations": n_iterations,
        "seed": seed,
    }
    from sna_rl.vision.run import go_on
    from sna_rl.vision.run import train as train_model
    from sna_rl.vision.settings import VisionConfig

    changes = _changes(given, hyperparams)
    command = flags.command_line()
    if trained is not None:
        result = go_on(trained, changes, command, device=device, progress=progress)
    else:
        config = VisionConfig().changed(changes)
        result = train_model(config, folder, command, device=device, say=typer.echo, progress=progress)
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in result.final.items() if name != "score")
    typer.echo(f"done: {result.n_steps:,} steps in {result.wall_seconds:,.0f} s  {numbers}  {result.folder}")


@app.command()
def evaluate(
    run: RunFolder,
    iterations: Annotated[
        str | None,
        typer.Option(help="Where to read out: 16, or 8,16,32, or 8…64; those of training by default."),
    ] = None,
    data: Annotated[str, typer.Option(help="Other data than those of the run.")] = "",
    share: Annotated[
        float | None, typer.Option(help="Share of each image that is hidden (mask); 0.4 by default.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of decoding (mask); 1 by default.")
    ] = None,
    best: Best = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder; by default evaluation/ or evaluation-DATA/ in RUN."),
    ] = None,
    device: flags.Device = "auto",
) -> None:
    """Accuracy on the test set after each of some iterations, or fidelity of filled-in images."""
    from sna_rl.vision.evaluation import evaluate_run, parse_iterations

    wanted = parse_iterations(iterations) if iterations is not None else None
    for line in evaluate_run(
        run, wanted, data=data, best=best, share=share, n_rounds=rounds, output=output, device=device
    ):
        typer.echo(line)


@app.command()
def trace(
    run: RunFolder,
    n_inputs: Annotated[
        int, typer.Option("--n-inputs", "-n", min=1, help="Inputs looked at, the first of the test set.")
    ] = 64,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations; those of training by default.")
    ] = None,
    best: Best = False,
    halvings: Annotated[
        int | None,
        typer.Option(min=0, help="Times a step that raises the energy may be halved; as in training."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; by default trace/ in the run folder.")
    ] = None,
    device: flags.Device = "auto",
) -> None:
    """Energies, ranks and angles of the tokens after every iteration, and the tokens on the sphere."""
    from sna_rl.vision.run import Run
    from sna_rl.vision.tracing import trace_run

    opened = Run.open(run, best=best, device=device, n_halvings=halvings)
    for line in trace_run(opened, output or run / "trace", n_inputs, iterations):
        typer.echo(line)


@app.command()
def solve(
    puzzle: Annotated[str, typer.Argument(help="81 digits row by row, 0 or . for an empty cell.")],
    run: Annotated[Path, typer.Option(metavar="RUN", help="The run folder of a Sudoku model.")],
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations; those of training by default.")
    ] = None,
    best: Best = False,
    device: flags.Device = "auto",
) -> None:
    """Fill a Sudoku with a trained model, and say whether the grid is valid."""
    from sna_rl.vision.evaluation import solve_puzzle
    from sna_rl.vision.puzzles import parse_board, solve_exactly
    from sna_rl.vision.run import Run

    board = parse_board(puzzle)
    solution = solve_exactly(board)
    opened = Run.open(run, best=best, device=device)
    if opened.config.task.task != "sudoku":
        raise UsageError(f"{str(run)!r} was trained on {opened.config.task.task}, not on sudoku")
    for line in solve_puzzle(opened, board, solution, iterations):
        typer.echo(line)


@app.command()
def ablate(
    task: Task = None,
    data: Data = None,
    n_steps: Steps = None,
    n_iterations: Iterations = None,
    hyperparams: Hyperparams = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K:V,V…",
            help="A setting and the values tried in its place, again and again; by default attention, "
            "feed-forward, steps, Jacobian and low-rank deltas.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every variant, from 0.")] = 2,
    folder: Annotated[
        Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of the runs.")
    ] = Path("logs/ablation"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the table.")] = Path("ablation"),
    device: flags.Device = "auto",
) -> None:
    """Change one part of Hyper-SET at a time, train each variant alike, tabulate; goes on where it ended."""
    given: dict[str, Any] = {"task": task, "data": data, "n_steps": n_steps, "n_iterations": n_iterations}
    from sna_rl.vision.ablation import VARIED, parse_variants
    from sna_rl.vision.ablation import ablate as ablate_model
    from sna_rl.vision.settings import VisionConfig

    config = VisionConfig().changed(_changes(given, hyperparams))
    variants = parse_variants(vary or VARIED)
    command = flags.command_line()
    for line in ablate_model(
        config, variants, range(seeds), output, folder, command, device=device, say=typer.echo
    ):
        typer.echo(line)
    typer.echo(f"written: {output}/table.csv")


def _changes(given: Mapping[str, Any], hyperparams: list[str] | None) -> dict[str, Any]:
    """Settings that were given by flags of their own and by -params."""
    from sna_rl.config import parse_pairs
    from sna_rl.vision.settings import with_none_named

    return flags.changed_settings(with_none_named(parse_pairs(hyperparams or [])), given)
