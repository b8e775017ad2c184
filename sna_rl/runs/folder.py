"""The folder of one run: where it lies and what each file in it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sna_rl.errors import UsageError

RANKLESS = ("mlp", "additive", "dueling")


def run_name(algo: str, critic: str, rank: int | tuple[int, ...] | str | None) -> str:
    """Name that tells a run's algorithm, critic and rank apart from every other's.

    Args:
        algo: name of the algorithm.
        critic: name of the critic.
        rank: rank, ranks of a Tucker form, or None; left out for critics that have none.

    Returns:
        `<algo>-<critic>[-r<rank>]`.

    Example:
        >>> run_name("sac", "cp", 32), run_name("sac", "mlp", 32), run_name("td3", "tucker", (8, 4))
        ('sac-cp-r32', 'sac-mlp', 'td3-tucker-r8x4')
    """
    if rank is None or critic in RANKLESS:
        return f"{algo}-{critic}"
    ranks = rank if isinstance(rank, tuple) else (rank,)
    return f"{algo}-{critic}-r{'x'.join(map(str, ranks))}"


def env_name(env: str) -> str:
    """Environment's id as one folder or file name: no module prefix, no slash.

    Example:
        >>> env_name("sna_rl.envs:SNA/LQR-v0"), env_name("HalfCheetah-v5")
        ('SNA-LQR-v0', 'HalfCheetah-v5')
    """
    return env.rpartition(":")[2].replace("/", "-")


COMMANDS = "command.txt"
"""File of the command lines that a run or study was started and continued with."""


@dataclass(frozen=True)
class RunFolder:
    """One run's folder, `<folder>/<env>/<name>/seed-<s>[-n]`; the file names in it are the RL Zoo's.

    A model is written twice: as a zip for plain Stable-Baselines3, which unpickles it, and as `.safetensors`
    (policy and VecNormalize statistics), the only one that this library reads.

    Args:
        path: the folder, which exists.
        env: id of the environment.
    """

    path: Path
    env: str

    @classmethod
    def create(cls, folder: Path | str, env: str, name: str, seed: int) -> RunFolder:
        """Make a new folder; runs started at the same moment never get the same one.

        Args:
            folder: the log folder.
            env: id of the environment.
            name: what `run_name` gives.
            seed: seed of the run.

        Returns:
            The new, empty run folder: `seed-<s>`, or `seed-<s>-2`, `-3`, … after others of that seed.

        Raises:
            UsageError: if the log folder can't be written.
        """
        parent = Path(folder) / env_name(env) / name
        with writing_below(folder):
            parent.mkdir(parents=True, exist_ok=True)
            names = (f"seed-{seed}" if n == 1 else f"seed-{seed}-{n}" for n in count(1))
            return cls(next(parent / name for name in names if _made(parent / name)), env)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open the folder of an existing run.

        Args:
            path: the run folder, or a file in it.

        Returns:
            The run folder, its environment read from `config.yml`.

        Raises:
            UsageError: if there is no run at `path`.
        """
        from sna_rl.config import read_yaml

        given = Path(path)
        if not given.exists():
            raise UsageError(f"run {str(path)!r} does not exist; give the folder that train printed")
        folder = given if given.is_dir() else given.parent
        if not (folder / "config.yml").is_file():
            inner = (
                sorted(folder.glob("*/config.yml"))
                or sorted(folder.glob("*/*/config.yml"))
                or sorted(folder.glob("*/*/*/config.yml"))
            )
            remedy = f"did you mean {str(inner[0].parent)!r}?" if inner else "a run folder holds a config.yml"
            raise UsageError(f"{str(path)!r} is not a run folder; {remedy}")
        env = read_yaml(folder / "config.yml").get("env")
        if not isinstance(env, str):
            raise UsageError(
                f"{str(folder / 'config.yml')!r} names no environment; it needs a text under 'env'"
            )
        return cls(folder, env)

    @property
    def config_yml(self) -> Path:
        """Exact configuration; `sna-rl train -conf` on it repeats the run."""
        return self.path / "config.yml"

    @property
    def command_txt(self) -> Path:
        """Command line that started the run, one line for each start."""
        return self.path / COMMANDS

    @property
    def versions_json(self) -> Path:
        """What `versions()` gave when the run started."""
        return self.path / "versions.json"

    @property
    def evaluations_npz(self) -> Path:
        """Evaluations: arrays timesteps, results, ep_lengths and, where an environment tells, successes."""
        return self.path / "evaluations.npz"

    @property
    def model_zip(self) -> Path:
        """Last model, for plain Stable-Baselines3."""
        return self.path / f"{env_name(self.env)}.zip"

    @property
    def model_tensors(self) -> Path:
        """Last policy and VecNormalize statistics."""
        return self.path / f"{env_name(self.env)}.safetensors"

    @property
    def vecnormalize_pkl(self) -> Path:
        """VecNormalize statistics of the last model, for plain Stable-Baselines3."""
        return self.path / "vecnormalize.pkl"

    @property
    def best_model_zip(self) -> Path:
        """Model of the best evaluation, for plain Stable-Baselines3."""
        return self.path / "best_model.zip"

    @property
    def best_model_tensors(self) -> Path:
        """Policy of the best evaluation and the VecNormalize statistics it had then."""
        return self.path / "best_model.safetensors"

    @property
    def best_vecnormalize_pkl(self) -> Path:
        """VecNormalize statistics of the best model, for plain Stable-Baselines3."""
        return self.path / "best_vecnormalize.pkl"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints, one sub-folder a save."""
        return self.path / "checkpoints"

    def monitor(self, index: int) -> Path:
        """Prefix of the Monitor file of environment `index`: Monitor appends `.monitor.csv`."""
        return self.path / str(index)


def add_command(folder: Path, command: str) -> None:
    """Add a line to the commands that a run or study was started and continued with.

    Args:
        folder: of the run or study.
        command: the command line.
    """
    with (folder / COMMANDS).open("a", encoding="utf-8") as file:
        file.write(f"{command}\n")


@contextmanager
def writing_below(folder: Path | str) -> Iterator[None]:
    """Say in one sentence that the log folder can't be written, where the block can't.

    Args:
        folder: the log folder.

    Raises:
        UsageError: in place of the block's OSError.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"log folder {str(folder)!r} can't be written ({error.strerror}); name another with -f"
        ) from error


def _made(path: Path) -> bool:
    """Make a folder; False where one stands already. Of several callers exactly one gets True."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True
