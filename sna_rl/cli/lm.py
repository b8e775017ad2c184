"""`sna-rl lm`: language models and forecasters of chaotic systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sna_rl.cli import flags
from sna_rl.errors import UsageError

app = typer.Typer(help="Language models: separable, softmax, Arcade; chaotic dynamics.")

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that train or quantize printed.")]
Folder = Annotated[Path, typer.Option("--log-folder", "--folder", "-f", help="Folder of all runs.")]
Continue = Annotated[
    Path | None, typer.Option("-i", metavar="RUN", help="Go on with this run, in its folder.")
]
Steps = Annotated[int | None, typer.Option("--steps", "-n", metavar="N", help="Optimizer steps.")]
Seed = Annotated[int | None, typer.Option(metavar="S", help="Seed of everything random.")]
Params = Annotated[
    list[str] | None,
    typer.Option("--hyperparams", "-params", metavar="K:V…", help="Any other setting, such as width:256."),
]
ShowProgress = Annotated[bool, typer.Option("--progress/--no-progress", "-P", help="Show how far it is.")]


@app.command()
def train(
    model: Annotated[str | None, typer.Option(help="separable, softmax or arcade.")] = None,
    text: Annotated[
        Path | None, typer.Option(help="UTF-8 file or folder; by default Python's standard library source.")
    ] = None,
    problems: Annotated[
        str | None, typer.Option(help="Learn word problems: conditional, arithmetic, or a GSM8K file.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Begin with this run's weights and vocabulary.")
    ] = None,
    steps: Steps = None,
    seed: Seed = None,
    folder: Folder = Path("logs"),
    params: Params = None,
    trained_agent: Continue = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    device: flags.Device = "auto",
    progress: ShowProgress = True,
) -> None:
    """Train a language model on a text, or on word problems with exact answers."""
    changes = _changes(params, model=model, problems=problems, n_steps=steps, seed=seed, precision=precision,
                       text=text and str(text), start=start and str(start))  # fmt: skip
    from sna_rl.language.running import begin, go_on
    from sna_rl.language.settings import LMSettings
    from sna_rl.runs.fit_folder import open_run

    options: dict[str, Any] = {"device": device, "progress": progress}
    if trained_agent is not None:
        if changes:
            raise UsageError("-i goes on with the run's own settings; leave the other flags away")
        result = go_on(trained_agent, flags.command_line(), **options)
    else:
        base = LMSettings()
        if start is not None:
            former = LMSettings.of(open_run(start)).plain()
            base = LMSettings.of(former | {"text": "", "problems": "", "digest": ""})
        result = begin(base.changed(changes), folder, flags.command_line(), **options)
    typer.echo(_numbers(result.final))
    typer.echo(
        f"done: {result.n_steps:,} steps in {result.wall_seconds:,.0f} s, {result.n_parameters:,} parameters"
        f", saved in {result.folder}"
    )


@app.command()
def evaluate(
    run: Run,
    text: Annotated[
        Path | None, typer.Option(help="Predict this text; by default what the run held out.")
    ] = None,
    code: Annotated[
        Path | None, typer.Option(help="Score code on this file of HumanEval's format; needs --run-code.")
    ] = None,
    run_code: Annotated[
        bool, typer.Option("--run-code", help="Run what the model writes, shut in; off unless you say so.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file for the numbers.")] = None,
    device: flags.Device = "auto",
) -> None:
    """Perplexity and bits per byte, the share of word problems answered exactly, or of code that passes."""
    if (code is not None) != run_code:
        raise UsageError(
            "scoring code runs what the model writes; give both --code FILE and --run-code for it"
        )
    if code is not None and text is not None:
        raise UsageError("--text and --code are scored apart; name one of them")
    from sna_rl.language.running import evaluate as evaluate_model
    from sna_rl.language.running import load
    from sna_rl.runs import write_json

    if code is not None:
        from sna_rl.language.code_scoring import code_score, read_code_problems

        problems = read_code_problems(code)
        loaded = load(run, device=device)
        numbers = code_score(loaded.model, problems, loaded.tokens)
    else:
        numbers = evaluate_model(load(run, device=device), text)
    if output is not None:
        write_json(output, numbers)
    typer.echo(_numbers(numbers))


@app.command()
def generate(
    run: Run,
    prompt: Annotated[str, typer.Option(help="Text to go on with.")] = "\n",
    n_tokens: Annotated[int, typer.Option("--n-tokens", "-n", help="New tokens.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k most likely tokens alone.")] = None,
    top_p: Annotated[
        float, typer.Option(help="Draw from the fewest tokens that hold this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    device: flags.Device = "auto",
) -> None:
    """Go on with a text."""
    import torch

    from sna_rl.language.running import load
    from sna_rl.language.sampling import Sampling
    from sna_rl.language.sampling import generate as generate_tokens

    sampling = Sampling(temperature, top_k, top_p)
    loaded = load(run, device=device)
    tokens = torch.from_numpy(loaded.tokens.encode(prompt)).unsqueeze(0).to(loaded.device)
    drawn = generate_tokens(loaded.model, tokens, n_tokens, sampling, seed=seed, look_ahead=loaded.look_ahead)
    typer.echo(loaded.tokens.decode([*tokens[0].tolist(), *(int(token) for token in drawn)]))


@app.command()
def quantize(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder; by default RUN-quantized.")
    ] = None,
) -> None:
    """Write the model with 8 bits a weight, 16 in the constraint half, and score it before and after."""
    from sna_rl.language.running import quantize as quantize_run

    target = output or run.with_name(f"{run.name}-quantized")
    typer.echo(_numbers(quantize_run(run, target)))
    typer.echo(f"written: {target}")


@app.command()
def dynamics(
    system: Annotated[str | None, typer.Option(help="lorenz96 or kuramoto-sivashinsky.")] = None,
    model: Annotated[
        str, typer.Option(help="separable, mlp, convolution, linear-gaussian or climatology.")
    ] = "separable",
    head: Annotated[str | None, typer.Option(help="distributional, categorical or deterministic.")] = None,
    steps: Steps = None,
    seed: Seed = None,
    folder: Folder = Path("logs"),
    params: Params = None,
    trained_agent: Continue = None,
    progress: ShowProgress = True,
) -> None:
    """Forecast a chaotic system: CRPS, spread over error, spectrum error and divergence of long roll-outs."""
    from sna_rl.language.forecasting import (
        BASELINES,
        begin_forecaster,
        continue_forecaster,
        score_baseline,
    )
    from sna_rl.language.settings import DynamicsSettings

    trunk = None if model in BASELINES else model
    changes = _changes(params, system=system, head=head, n_steps=steps, seed=seed, trunk=trunk)
    where = trained_agent
    if trained_agent is not None:
        scores = continue_forecaster(trained_agent, flags.command_line(), progress=progress)
    elif model in BASELINES:
        scores = score_baseline(model, DynamicsSettings().changed(changes))
    else:
        settings = DynamicsSettings().changed(changes)
        where, scores = begin_forecaster(settings, folder, flags.command_line(), progress=progress)
    typer.echo(_numbers(scores))
    if where is not None:
        typer.echo(f"saved in {where}")


def _changes(params: list[str] | None, **given: Any) -> dict[str, Any]:
    """Settings that were given by flags of their own and by -params."""
    from sna_rl.config import parse_pairs

    return flags.changed_settings(parse_pairs(params or []), given)


def _numbers(numbers: Any) -> str:
    """Named numbers in a line."""
    return "  ".join(f"{name} {value:,.4g}" for name, value in numbers.items())
