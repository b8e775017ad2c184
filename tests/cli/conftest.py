"""Command lines as a strategy of Hypothesis: every verb, every flag, good and hostile values, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from hypothesis import strategies as st

from sna_rl.cli import app
from sna_rl.config import ALGORITHMS, CRITICS, HYPERPARAMETERS, POLICY_KEYS, RunConfig, dump_yaml, read_yaml
from sna_rl.zoo_configs import path as packaged_file

RUN = "logs/Pendulum-v1/sac-cp-r2/seed-0"
VERBS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]

WORDS = """
nan NaN inf -inf -1 0 1.5 1e400 1e18 2147483648 9223372036854775808 1e30 0x10 true None [] {} () ' " [' - --
--- -x ../.. /dev/null /proc/self/mem /proc/nowhere/x.yml nowhere/x.yml ~ * %s {0} sax = : a: :a a:b:c a=b
lin_ lin_3e-4
lin_nan auto_0 auto_0.1 é 日本 💥 \u202e \udc80 os.system nn.ReLU [1,2] 1,2,3 {'a':1} study.yml good.yml
__import__('os').system('true') dict(a=dict(b=[1,(2,)])) !!python/object:os.system
"""
HOSTILE = WORDS.split()
HOSTILE += [
    "",
    " ",
    "\n",
    "a\nb",
    "\t",
    "\x1b[31mred",
    "a" * 5000,
    "[" * 400,
    "9" * 5000,
    "a b",
    "1 2",
    "\x7f\x85",
]
GOOD = {
    "algo": ALGORITHMS,
    "env": ("Pendulum-v1", "CartPole-v1", "sna_rl.envs:SNA/LQR-v0", "Hopper-v5"),
    "critic": sorted({name for names in CRITICS.values() for name in names}),
    "rank": ("1", "8", "auto", "[4,4]", "4,4"),
    "seeds": ("1", "2", "3,4"),
    "n_timesteps": ("20", "60", "1e3"),
    "run": (RUN, "logs", "mutated-run", "model.zip", f"{RUN}/best_model.zip", f"{RUN}/config.yml"),
    "trained_agent": (RUN, "mutated-run"),
    "versus": (RUN, "mutated-run", "model.zip"),
    "study": ("study", "mutated-study", "tuned", "logs"),
    "file": ("mutated.yml", "study.yml", "pendulum_halfcheetah"),
    "conf_file": ("good.yml", "mutated.yml", f"{RUN}/config.yml"),
    "search": ("space.yml", "mutated.yml"),
    "storage": ("new.log", "sqlite:///new.db", "sqlite://", "tuned.log", "grpc://localhost", "mongo://x"),
    "add": ("zoo=logs", "zoo=nowhere", "=logs", "study=study"),
    "load_checkpoint": ("30", "60", "-1", "31"),
    "folder": ("logs", "new"),
    "output": ("out", "out/deep"),
    "sampler": ("tpe", "gp", "cmaes", "random"),
    "pruner": ("median", "hyperband", "halving", "none"),
    "objective": ("auc", "last", "best"),
    "on_nan": ("stop", "restore"),
    "update": ("auto", "eager", "reference"),
    "vec_env": ("dummy", "subproc"),
    "device": ("cpu", "auto", "cuda:7"),
    "gym_packages": ("json", "no_such_module", "os.path"),
}
TASK = ["--algo", "sac", "--env", "Pendulum-v1"]
LOADING = [
    [RUN],
    ["mutated-run"],
    [*TASK, "-f", "logs"],
    ["model.zip", *TASK[2:], "--trust"],
    ["model.zip"],
    [],
]
STARTS: dict[str, list[list[str]]] = {
    "train": [
        TASK,
        [*TASK, "-conf", "mutated.yml"],
        ["-conf", "mutated.yml"],
        ["-i", RUN, "-n", "90"],
        ["-i", "mutated-run", "-n", "90"],
        ["--study", "tuned", "-f", "."],
        [],
    ],
    **dict.fromkeys(("evaluate", "video", "export", "diagnose"), LOADING),
    "compare": [[*TASK, "--seeds", "1", "-n", "20"], ["mutated.yml"], ["mutated.yml"], []],
    "tune": [[*TASK, "-n", "20"], [*TASK, "--search", "mutated.yml"], [*TASK, "-conf", "mutated.yml"], []],
    "report": [["study"], ["mutated-study"], ["logs", "-o", "out"], []],
    "board": [["logs", "--no-browser"], []],
    "demo": [[]],
}
SCALARS = st.one_of(
    st.sampled_from([*HOSTILE, "true", "1e-3", "64", "'text'", "\0"]),
    st.integers(-3, 300).map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), max_size=8),
)
LITERALS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, max_size=3).map(lambda items: f"({', '.join(items)})"),
        st.dictionaries(st.sampled_from([*POLICY_KEYS["sac"], "a", "1"]), inner, max_size=4).map(
            lambda items: f"dict({', '.join(f'{key}={value}' for key, value in items.items())})"
        ),
    ),
    max_leaves=6,
)
PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from(HOSTILE),
        st.sampled_from(["\0", "cp", "tucker", "sac", "lin_1e-3", "auto", 10**30, [], {}, "true"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "rank", "random"]), inner, max_size=3),
    ),
    max_leaves=6,
)
FRAGMENTS = [
    "&a ",
    "*a",
    "<<: *a\n",
    "!!python/object:os.system ",
    "%YAML 1.1\n",
    "---\n",
    "? [a]\n: b\n",
    "\t",
    "{",
    "]",
]
FRAGMENTS += [
    ": ",
    "- ",
    "#",
    "!!int ",
    "!!binary ",
    "!<x> ",
    "|\n",
    ">\n ",
    "'",
    '"',
    "\ufeff",
    "\0",
    "2020-01-01",
    "~",
]


def known_files() -> dict[str, Any]:
    """Files that work, by kind: what the mutations begin with."""
    network = {"net_arch": [8], "width": 8, "activation_fn": "nn.Tanh", "optimizer_kwargs": {"eps": 1e-5}}
    run = RunConfig(
        "sac", "Pendulum-v1", rank=2, save_freq=30, hyperparams={"policy_kwargs": network}
    ).to_dict()
    wrappers = [{"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 50}}]
    entry = {
        "learning_rate": "lin_1e-3",
        "normalize": {"norm_reward": False},
        "env_wrapper": wrappers,
        "callback": "stable_baselines3.common.callbacks.StopTrainingOnMaxEpisodes",
        "train_freq": [1, "episode"],
        "replay_buffer_kwargs": {"handle_timeout_termination": True},
        "ent_coef": "auto_0.1",
        "policy_kwargs": "dict(net_arch=[8], rank=2)",
    }
    packaged = packaged_file("sac").parent
    studies = packaged / "studies"
    plain = read_yaml(studies / "pendulum_halfcheetah.yml")
    with_arms = read_yaml(studies / "rank_halfcheetah.yml")
    rich = {"existing": {"old": "logs"}, "scores": {"A-v0": {"random": 0, "reference": 1}}, "matched": False}
    return {
        "run": run | {"normalize": True, "env_wrapper": wrappers, "env_kwargs": {"g": 9.0}},
        "entry": {"Pendulum-v1": entry, "default": {"n_timesteps": 100, "n_envs": 2}},
        "rich study": plain | rich | {"layer_norm": True, "tuning_trials": 3, "name": "mutated"},
        "arms": with_arms | {"name": "mutated", "seeds": [1]},
        "space": read_yaml(packaged / "search" / "sac.yml"),
    }


DOCUMENTS = known_files()
KINDS: dict[str, list[str]] = {
    "compare": ["rich study", "arms"],
    "report": ["rich study", "arms"],
    "tune": ["space", "space", "entry"],
}
"""Kinds of files that a verb reads; all others read configurations."""
ENTRIES = sorted(
    {
        (key, repr(value))
        for algo in ALGORITHMS
        for entry in read_yaml(packaged_file(algo)).values()
        if isinstance(entry, dict)
        for key, value in entry.items()
    }
)


@st.composite
def pairs(draw: st.DrawFn) -> str:
    """A word after -params: a value of the packaged files, a known key with any value, or neither."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return ":".join(draw(st.sampled_from(ENTRIES)))
    algo = draw(st.sampled_from(ALGORITHMS))
    if kind == 1:
        inner = draw(
            st.dictionaries(st.sampled_from(sorted(POLICY_KEYS[algo])), LITERALS, min_size=1, max_size=4)
        )
        return f"policy_kwargs:dict({', '.join(f'{key}={value}' for key, value in inner.items())})"
    keys = st.sampled_from(sorted(HYPERPARAMETERS[algo])) if kind == 2 else SCALARS
    return f"{draw(keys)}:{draw(LITERALS)}"


def printable(text: str) -> bool:
    """Whether a text can be a word of a command line."""
    return "\0" not in text


@st.composite
def flags(draw: st.DrawFn, parameter: Any) -> list[str]:
    """One flag of a verb with a good, a wrong or a hostile value; or one of its positional words."""
    name = [draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))]
    if parameter.param_type_name == "argument":
        name = []
    elif parameter.is_flag:
        return name
    if parameter.name in ("hyperparams", "env_kwargs", "eval_env_kwargs"):
        return name + draw(st.lists(pairs(), min_size=1, max_size=4))
    good = GOOD.get(parameter.name, ("1", "2", "20", "7"))
    value = draw(SCALARS.filter(printable) if draw(st.integers(0, 3)) == 0 else st.sampled_from(good))
    return [f"{name[0]}={value}"] if name and draw(st.integers(0, 9)) == 0 else [*name, value]


def nodes(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Path of everything inside nested data."""
    for key, value in (
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    ):
        yield (*path, key)
        yield from nodes(value, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    """What lies under a path."""
    for key in path:
        data = data[key]
    return data


@st.composite
def texts(draw: st.DrawFn, kinds: list[str]) -> str:
    """A YAML file derived from one that works: its values, or its characters changed."""
    data = json.loads(json.dumps(DOCUMENTS[draw(st.sampled_from(kinds))]))
    if draw(st.integers(0, 3)) == 0:
        text = dump_yaml(data)
        for _ in range(draw(st.integers(1, 3))):
            start = draw(st.integers(0, len(text)))
            text = text[:start] + draw(st.sampled_from(FRAGMENTS)) + text[start + draw(st.integers(0, 4)) :]
        return text
    for _ in range(draw(st.integers(1, 3))):
        *outer, key = draw(st.sampled_from(list(nodes(data))))
        place = at(data, tuple(outer))
        change: str = draw(st.sampled_from(["replace", "replace", "delete", "wrap", "move", "rename"]))
        if change == "delete":
            del place[key]
        elif change == "rename" and isinstance(place, dict):
            place[draw(st.sampled_from([*HYPERPARAMETERS["sac"], *HOSTILE]))] = place.pop(key)
        elif change == "move":
            place[key] = json.loads(json.dumps(at(data, draw(st.sampled_from(list(nodes(data)))))))
        else:
            place[key] = [place[key]] if change == "wrap" else draw(PLAIN)
        if not data:
            break
    return json.dumps(data, ensure_ascii=False)


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str], str]:
    """Verb and words of a command line, and the text of the file that it may name."""
    verb = draw(st.sampled_from([*VERBS, *VERBS, "train", "compare", "tune", "tain"]))
    words = [verb, *draw(st.sampled_from(STARTS.get(verb, [[]])))]
    parameters = VERBS[verb].params if verb in VERBS else []
    for parameter in draw(st.lists(st.sampled_from(parameters), max_size=4)) if parameters else ():
        if "--help" not in parameter.opts:
            words += draw(flags(parameter))
    if draw(st.integers(0, 11)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(st.sampled_from(HOSTILE)))
    kinds = KINDS.get(verb, ["run", "entry"])
    return verb, words, draw(texts(kinds if draw(st.integers(0, 5)) else sorted(DOCUMENTS)))


@pytest.fixture(scope="session")
def lines() -> st.SearchStrategy[tuple[str, list[str], str]]:
    """Command lines: verb, words, and the text of the file that they may name."""
    return command_lines()


@pytest.fixture(scope="session")
def documents() -> dict[str, Any]:
    """Files that work, by kind."""
    return DOCUMENTS
