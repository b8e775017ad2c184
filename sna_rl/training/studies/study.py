"""A comparison as one record: arms × environments × seeds, equal in all that is not asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from sna_rl.config import ALGORITHMS, CRITICS, RunConfig, dump_yaml, merge, read_yaml
from sna_rl.config.keys import RUN_RULES
from sna_rl.config.plain import differences, located, plain
from sna_rl.config.rules import MAPPING, choice, integer, listing, matching
from sna_rl.errors import UsageError, suggestion
from sna_rl.runs import run_name
from sna_rl.runs.folder import RANKLESS, env_name
from sna_rl.zoo_configs import resolve

BASELINE: Final = "mlp"
MATCHED: Final = "mlp-matched"
N_EVALUATIONS: Final = 20
MAX_SEEDS: Final = 10_000
AXES: Final = ("algo", "env", "critic", "rank", "seeds")
_NAME: Final = matching(r"\w[\w.+=-]*", "letters, digits and . + = - _, to name a folder")
SETTINGS: Final = tuple(key for key in RUN_RULES if key not in (*AXES, "seed", "folder", "tensorboard_log"))
"""Fields of a run that hold for every arm."""


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Args:
        arm: name of its arm.
        config: the run; its folder is left to whoever runs it.
    """

    arm: str
    config: RunConfig

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.arm} on {self.config.env}, seed {self.config.seed}"

    def path(self, root: Path) -> Path:
        """Run folder of the cell below a study's folder of runs."""
        return root / env_name(self.config.env) / self.arm / f"seed-{self.config.seed}"


@dataclass(frozen=True)
class Study:
    """What to compare.

    Every algorithm has one arm a critic and rank, the MLP baseline, and, unless refused, the MLP with the
    parameters of the separable critic at the largest rank. Seeds, budget, evaluation, LayerNorm, clip and
    learning_starts are the same in all of them.

    Args:
        name: folder of the study and heading of its report.
        algo: algorithms.
        env: environments, each with the settings and hyperparameters that hold there alone.
        critic: critics beside the baselines.
        rank: ranks of critics that have one; for "tucker" also one int a mode.
        seeds: seeds of every arm in every environment.
        layer_norm: LayerNorm in the critic, of all arms.
        max_grad_norm: norm at which the critic's gradient is clipped, in all arms; None clips nowhere.
        matched: include the MLP with as many parameters.
        tuning_trials: tuning trials that each arm's hyperparameters have had; told in the report.
        settings: fields of every run (`n_timesteps`, `eval_freq`, …).
        hyperparams: hyperparameters of every run.
        arms: further arms: any of `name`, `algo`, `critic`, `rank`, `hyperparams` and settings.
        existing: folders of finished runs that enter the report, by name.
        scores: `{random, reference}` returns of environments that zoo_configs/scores.yml lacks.

    Raises:
        UsageError: for an unknown key or axis value, no seeds, or two arms of one name.
    """

    name: str
    algo: tuple[str, ...]
    env: Mapping[str, Mapping[str, Any]]
    critic: tuple[str, ...] = ("cp",)
    rank: tuple[int | tuple[int, ...] | str, ...] = (32,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    layer_norm: bool = True
    max_grad_norm: float | None = 1.0
    matched: bool = True
    tuning_trials: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    hyperparams: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[Mapping[str, Any], ...] = ()
    existing: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Study:
        """Read a study file; its name is the file's unless it gives one.

        Args:
            path: YAML file.

        Raises:
            UsageError: if it is not a study, with file and key.
        """
        return cls.from_dict({"name": path.stem, **read_yaml(path)}, str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Study:
        """The study that a file or flags describe.

        Args:
            data: keys as in a study file; one value stands for a list of one, a number of seeds for 0, 1, …
            where: what messages call it.

        Raises:
            UsageError: if a key is unknown or a value doesn't fit.

        Example:
            >>> axes = {"algo": "sac", "env": "Pendulum-v1", "rank": [4, 8], "seeds": 2}
            >>> study = Study.from_dict({"name": "a", **axes})
            >>> [cell.arm for cell in study.cells()][:4]
            ['sac-mlp', 'sac-mlp-matched-r8', 'sac-cp-r4', 'sac-cp-r8']
        """
        with located(where):
            own = [name for name in cls.__dataclass_fields__ if name != "settings"]
            for key in data:
                if key not in own and key not in SETTINGS:
                    raise UsageError(f"unknown key {key!r}{suggestion(key, [*own, *SETTINGS])}")
            for key in ("name", "algo", "env"):
                if not data.get(key):
                    raise UsageError(f"a study needs {key!r}; give it in the study file or as --{key}")
            settings = {key: value for key, value in data.items() if key in SETTINGS}
            given = {key: value for key, value in data.items() if key in own} | {"settings": settings}
            return cls(**{key: _checked(key, plain(value, key)) for key, value in given.items()})

    def __post_init__(self) -> None:
        for key in self.__dataclass_fields__:
            object.__setattr__(self, key, _checked(key, plain(getattr(self, key), key)))
        self.configs()

    def to_dict(self) -> dict[str, Any]:
        """Keys of a study file that gives this study again."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "settings"}
        return plain({**data, **self.settings}, "study")  # type: ignore[return-value]

    def to_yaml(self) -> str:
        """The study as text of a study file."""
        return dump_yaml(self.to_dict())

    def configs(self) -> dict[str, dict[str, RunConfig]]:
        """Configuration of every arm in every environment, with the first seed.

        Raises:
            UsageError: if an arm can't be configured, or two have one name.
        """
        entries: list[tuple[str, str, Any, dict[str, Any]]] = []
        for algo in self.algo:
            entries += [(algo, critic, rank, {}) for critic, rank in self._critics(algo)]
        for given in self.arms:
            extra = dict(given)
            algo, critic, rank = (extra.pop(key, default) for key, default in self._defaults().items())
            entries.append((algo, critic, rank, extra))
        found: dict[str, dict[str, RunConfig]] = {}
        for algo, critic, rank, extra in entries:
            ranks = tuple(rank) if isinstance(rank, list) else rank
            name = _NAME.check("name of an arm", extra.pop("name", run_name(algo, critic, ranks)))
            assert isinstance(name, str)
            if name in found:
                raise UsageError(f"two arms are named {name!r}; give one of them another name under 'arms'")
            with located(f"arm {name}"):
                configs = {env: self._config(env, algo, critic, rank, extra) for env in self.env}
                found[name] = self._started_alike(configs, next(iter(found.values()), configs), extra)
        return found

    def cells(self) -> list[Cell]:
        """Every run of the study; all arms of a seed come before the next seed."""
        configs = self.configs()
        return [
            Cell(arm, found[env].replace(seed=seed))
            for seed in self.seeds
            for env in self.env
            for arm, found in configs.items()
        ]

    def differs_in(self) -> dict[str, str]:
        """What sets each arm apart from the first MLP baseline, in words; that one is called baseline."""
        configs = {arm: comparable(next(iter(found.values()))) for arm, found in self.configs().items()}
        reference = next((arm for arm in configs if configs[arm]["critic"] == BASELINE), next(iter(configs)))
        texts = {}
        for arm, config in configs.items():
            changed = differences(configs[reference], config)
            first = sorted(changed, key=lambda key: key not in AXES)
            texts[arm] = ", ".join(f"{key} {changed[key][1]}" for key in first)
        return texts | {reference: "baseline"}

    def _critics(self, algo: str) -> Iterable[tuple[str, Any]]:
        """Critics and ranks of the arms of one algorithm, baselines first."""
        fixed = [rank for rank in self.rank if not isinstance(rank, str)]
        largest = max((rank if isinstance(rank, int) else max(rank) for rank in fixed), default=32)
        separable = [critic for critic in self.critic if critic not in (BASELINE, MATCHED)]
        wanted: dict[tuple[str, Any], None] = {(BASELINE, 32): None}
        if MATCHED in self.critic:
            wanted |= dict.fromkeys((MATCHED, rank) for rank in fixed or [largest])
        elif self.matched and separable:
            wanted[MATCHED, largest] = None
        for critic in separable:
            ranks = (32,) if critic in RANKLESS else self.rank
            wanted |= dict.fromkeys((critic, rank) for rank in ranks)
        return wanted

    def _defaults(self) -> dict[str, Any]:
        return {"algo": self.algo[0], "critic": self.critic[0], "rank": self.rank[0]}

    def _config(self, env: str, algo: str, critic: str, rank: Any, extra: Mapping[str, Any]) -> RunConfig:
        """One arm in one environment: packaged file < fairness < study < environment < arm."""
        fair = {"policy_kwargs": {"layer_norm": self.layer_norm, "max_grad_norm": self.max_grad_norm}}
        here, settings_here = _parted(self.env[env])
        own, own_settings = _parted(extra)
        layers = (fair, self.hyperparams, here, own)
        hyperparams: dict[str, Any] = {}
        for layer in layers:
            hyperparams = merge(hyperparams, layer)
        settings = {**self.settings, **settings_here, **own_settings}
        overrides = {**settings, "critic": critic, "rank": rank, "seed": self.seeds[0]}
        config = resolve(algo, env, overrides, hyperparams)
        if "eval_freq" not in settings:
            config = config.replace(eval_freq=max(1, config.n_timesteps // N_EVALUATIONS))
        return config

    def _started_alike(
        self, configs: dict[str, RunConfig], first: Mapping[str, RunConfig], extra: Mapping[str, Any]
    ) -> dict[str, RunConfig]:
        """An arm's configurations with the first arm's learning_starts, unless the arm sets its own."""
        if "learning_starts" in extra.get("hyperparams", {}):
            return configs
        shared = {env: first[env].hyperparams.get("learning_starts") for env in configs}
        return {env: config.replace(learning_starts=shared[env]) for env, config in configs.items()}


def find_study(name: str) -> Path:
    """Path of a study file, given as a path or as the name of a packaged study.

    Raises:
        UsageError: if there is neither.

    Example:
        >>> find_study("rank_halfcheetah").name
        'rank_halfcheetah.yml'
    """
    if Path(name).is_file():
        return Path(name)
    folder = Path(str(files("sna_rl.zoo_configs") / "studies"))
    if (folder / f"{name}.yml").is_file():
        return folder / f"{name}.yml"
    known = [path.stem for path in folder.glob("*.yml")]
    raise UsageError(
        f"study {name!r} is neither a file nor one of the packaged studies{suggestion(name, known)}"
    )


def _parted(extra: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hyperparameters and run settings of an arm's or environment's entry."""
    hyperparams = dict(MAPPING.check("hyperparams", extra.get("hyperparams", {})))  # type: ignore[call-overload]
    settings = {key: value for key, value in extra.items() if key != "hyperparams"}
    for key in settings:
        if key not in SETTINGS:
            raise UsageError(
                f"unknown key {key!r}{suggestion(key, ['name', *AXES[:4], 'hyperparams', *SETTINGS])}"
            )
    return hyperparams, settings


def _checked(key: str, value: Any) -> Any:
    """One value of a study in its true form."""
    if key in ("algo", "critic", "rank"):
        values = value if isinstance(value, list) else [value]
        return tuple(_axis_value(key, each) for each in values)
    if key == "env":
        names = [value] if isinstance(value, str) else value
        entries = names if isinstance(names, dict) else dict.fromkeys(names, None)
        return {env: MAPPING.check(f"env {env}", each or {}) for env, each in entries.items()}
    if key == "seeds":
        return _seeds(value)
    if key in ("layer_norm", "matched"):
        if not isinstance(value, bool):
            raise UsageError(f"{key} must be true or false, not {value!r}")
        return value
    if key in ("hyperparams", "existing", "scores", "settings"):
        return MAPPING.check(key, value)
    if key == "arms":
        return tuple(listing(MAPPING, "a list of mappings, one an arm").check(key, value))  # type: ignore[arg-type]
    if key == "name":
        return _NAME.check(key, value)
    if key == "tuning_trials":
        return integer(0).check(key, value)
    return value


def _axis_value(key: str, value: Any) -> Any:
    known = {
        "algo": ALGORITHMS,
        "critic": tuple(dict.fromkeys(c for names in CRITICS.values() for c in names)),
    }
    if key == "rank":
        checked = RUN_RULES["rank"].check(key, value)
        return tuple(checked) if isinstance(checked, list) else checked
    try:
        return choice(*known[key]).check(key, value)
    except UsageError:
        raise UsageError(f"unknown {key} {value!r}{suggestion(str(value), known[key])}") from None


def _seeds(value: Any) -> tuple[int, ...]:
    """Seeds from their number or their list."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = list(range(min(value, MAX_SEEDS + 1)))
    rule = listing(RUN_RULES["seed"], "a number of seeds of at least 1, or a list of seeds", least=1)
    seeds = rule.check("seeds", value)
    assert isinstance(seeds, list)
    if len(seeds) > MAX_SEEDS:
        raise UsageError(f"seeds must be at most {MAX_SEEDS:,}")
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds must differ from each other, not {seeds}")
    return tuple(seeds)


def comparable(config: RunConfig) -> dict[str, Any]:
    """What tells runs of two arms apart: all but seed and folder, and the rank of a critic that has none."""
    data = {key: value for key, value in config.to_dict().items() if key not in ("seed", "folder")}
    if config.critic in RANKLESS:
        del data["rank"]
    return data
