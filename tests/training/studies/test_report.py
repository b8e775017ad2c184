"""Reports of made-up runs: every file, the page in a real browser, TensorBoard's overlay, size and speed."""

from __future__ import annotations

import csv
import json
import re
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from sna_rl.training.palette import COLOURS, GREYS
from sna_rl.training.studies.analysis import Analysis, analyse
from sna_rl.training.studies.arms import Arm, Failure, Run
from sna_rl.training.studies.figures import charts, styles
from sna_rl.training.studies.overlay import FOLDER, write_overlay
from sna_rl.training.studies.page import DARK_COLOURS, DARK_GREYS
from sna_rl.training.studies.report import Origin, write_report
from sna_rl.training.studies.tables import tables

ENVS = ("Pendulum-v1", "HalfCheetah-v5")


def made_up(root: Path, n_seeds: int = 5, n_points: int = 12) -> list[Arm]:
    """Four arms in two environments, with spectra, versions and one failure."""
    generator = np.random.default_rng(0)
    arms = []
    for place, (critic, rank) in enumerate([("mlp", 32), ("mlp-matched", 8), ("cp", 4), ("cp", 8)]):
        runs = []
        for env, (start, end) in zip(ENVS, [(-1200.0, -200.0), (-280.0, 5000.0)], strict=True):
            for seed in range(n_seeds):
                folder = root / f"{critic}-{rank}-{env}-{seed}"
                folder.mkdir(parents=True)
                values = (0.8 ** np.arange(20)).tolist()
                (folder / "spectrum.json").write_text(json.dumps({"singular_values": values}))
                (folder / "versions.json").write_text('{"torch": "2.13.0", "commit": null}')
                steps = np.linspace(1000, 12000, n_points)
                share = steps / 12000 * (0.7 + 0.1 * place)
                returns = (
                    start
                    + (end - start) * share
                    + generator.normal(scale=abs(end - start) / 30, size=n_points)
                )
                summary = {
                    "n_timesteps": 12000,
                    "cpu_seconds": 60.0 + place,
                    "wall_seconds": 70.0,
                    "steps_per_second": 171.0,
                    "actor_parameters": 67330,
                    "critic_parameters": 1000 * (place + 1),
                }
                runs.append(Run(env, seed, steps, returns, folder, summary=summary))
        name = f"sac-{critic}" + ("" if critic == "mlp" else f"-r{rank}")
        settings = {
            "algo": "sac",
            "critic": critic,
            "rank": rank,
            "learning_rate": 3e-4,
            "differs in": f"critic {critic}",
        }
        failed = (Failure("Pendulum-v1", 9, "ValueError: <loc> & nan"),) if place == 3 else ()
        arms.append(Arm(name, tuple(runs), failed, settings))
    return arms


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(made_up(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def report(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    measured: dict[str, dict[str, dict[str, Any]]] = {"sac-mlp": {"Pendulum-v1": {"flops_per_update": 2.5e6}}}
    origin = Origin("A <study>", ["sna-rl compare a.yml", "sna-rl compare a.yml"], "name: a\n", measured)
    return write_report(analysis, tmp_path_factory.mktemp("report"), origin)


def test_page_needs_nothing_else_and_puts_the_verdict_first(report: Path) -> None:
    text = report.read_text()
    assert not re.search(r"<script|<link rel=\"style|src=|@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    body = text[text.index("<body>") :]
    assert body.index('class="verdict"') < body.index("<svg")
    assert "sac-cp-r8, best of 2 separable arms, beats sac-mlp-matched-r8, best of 2 MLP arms" in body
    assert "A &lt;study&gt;" in body
    assert "ValueError: &lt;loc&gt; &amp; nan" in body
    assert body.count("sna-rl compare a.yml") == 1
    assert "torch: 2.13.0" in body
    identifiers = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(identifiers)) == len(identifiers)


def test_every_chart_is_there_as_a_picture(report: Path) -> None:
    names = {path.stem for path in report.parent.glob("*.png")}
    assert names == {
        "aggregate",
        "curve-Pendulum-v1",
        "curve-HalfCheetah-v5",
        "efficiency",
        "profile",
        "improvement",
        "rank",
        "spectrum",
    }
    markdown = (report.parent / "report.md").read_text()
    assert markdown.startswith("# A <study>\n\n**sac-cp-r8, best of 2")
    assert all(f"({name}.png)" in markdown for name in names)


def test_tables_hold_the_numbers_of_the_runs(analysis: Analysis, report: Path) -> None:
    with (report.parent / "runs.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 40
    run = analysis.arms[0].runs[0]
    assert float(runs[0]["final_return"]) == pytest.approx(run.final)
    assert float(runs[0]["final_score"]) == pytest.approx((run.final + 1207.6) / (1207.6 - 157.0))
    with (report.parent / "table.csv").open() as file:
        rows = {(row["arm"], row["env"]): row for row in csv.DictReader(file)}
    finals = np.array([run.final for run in analysis.arms[2].of("HalfCheetah-v5")])
    row = rows["sac-cp-r4", "HalfCheetah-v5"]
    assert float(row["mean"]) == pytest.approx(finals.mean())
    assert float(row["deviation"]) == pytest.approx(finals.std(ddof=1))
    assert float(rows["sac-cp-r8", "all"]["improvement"]) == pytest.approx(
        float(analysis.improvement["sac-cp-r8"].value)
    )
    with (report.parent / "curves.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * 4 * 12


def test_cost_table_tells_parameters_flops_and_deviation(analysis: Analysis) -> None:
    measured: dict[str, dict[str, dict[str, Any]]] = {
        "sac-mlp": {"a": {"flops_per_update": 2.5e6}, "b": {"reason": "no"}}
    }
    *_, costs, differs = tables(analysis, measured)
    assert costs.rows[0] == ["sac-mlp", "67,330", "1,000", "2.5", "171.0", "60.0", "70.0"]
    assert costs.rows[1][3] == "–"
    assert differs.rows[0] == ["sac-mlp", "critic mlp"]
    environment = tables(analysis, {})[1]
    assert re.fullmatch(r"-[\d.]+ ± [\d.]+", environment.rows[0][2])


def test_a_thousand_looks_differ_and_mlps_are_grey() -> None:
    arms = [Arm("m", (), settings={"critic": "mlp"})] + [
        Arm(f"a{n}", (), settings={"critic": "cp"}) for n in range(24)
    ]
    looks = styles(arms)
    assert looks["m"].colour == GREYS[0]
    assert len({(look.colour, look.dash) for look in looks.values()}) == 25


@pytest.mark.parametrize(
    ("background", "colours"),
    [("#f5f6f8", GREYS + COLOURS), ("#1e232b", DARK_GREYS + DARK_COLOURS)],
)
def test_lines_stand_out_from_their_background(background: str, colours: tuple[str, ...]) -> None:
    for colour in colours:
        lighter, darker = sorted((_luminance(background), _luminance(colour)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) > 2.4, colour


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_overlay_reads_back_as_band_chart_and_hyperparameters(analysis: Analysis, tmp_path: Path) -> None:
    for _ in range(2):
        write_overlay(analysis, tmp_path)
    folder = tmp_path / "HalfCheetah-v5" / "sac-cp-r4" / FOLDER
    assert len(list(folder.iterdir())) == 1
    events = EventAccumulator(str(folder)).Reload()
    steps, curves = analysis.curves["HalfCheetah-v5"]
    band = curves["sac-cp-r4"]
    for tag, values in zip(
        ("study/HalfCheetah-v5", "study/HalfCheetah-v5-low", "study/HalfCheetah-v5-high"),
        (band.value, band.low, band.high),
        strict=True,
    ):
        read = [(event.step, event.value) for event in events.Scalars(tag)]
        np.testing.assert_allclose(read, np.stack([steps.astype(int), values], axis=1), rtol=1e-6)
    layout = layout_pb2.Layout.FromString(
        events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0]
    )
    assert [chart.title for chart in layout.category[0].chart] == list(ENVS)
    assert layout.category[0].chart[1].margin.series[0].value == "study/HalfCheetah-v5"
    start = HParamsPluginData.FromString(
        events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    )
    told = start.session_start_info.hparams
    assert (told["rank"].number_value, told["learning_rate"].number_value) == (4, 3e-4)
    assert (told["critic"].string_value, told["env"].string_value) == ("cp", "HalfCheetah-v5")
    final = events.Scalars("study/final_iqm")[0].value
    finals = np.sort([run.final for run in analysis.arms[2].of("HalfCheetah-v5")])
    assert final == pytest.approx(finals[1:-1].mean(), rel=1e-6)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; Debian's package is 'chromium'")
def test_page_reads_well_in_chromium_narrow_wide_and_dark(report: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    flags = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*flags.split(), "--disable-component-update", "--disable-sync"]
        )
        try:
            backgrounds = set()
            for width, scheme in ((400, "light"), (1600, "light"), (400, "dark")):
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
                )
                tab = context.new_page()
                messages: list[str] = []
                requests: list[str] = []
                tab.on("console", lambda message, kept=messages: kept.append(message.text))
                tab.on("pageerror", lambda error, kept=messages: kept.append(str(error)))
                tab.on("request", lambda request, kept=requests: kept.append(request.url))
                tab.goto(report.as_uri())
                assert messages == []
                assert {url.split(":")[0] for url in requests} <= {"file", "data"}
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                sizes = tab.eval_on_selector_all(
                    "figure text", "all => all.map(each => each.getBoundingClientRect().height)"
                )
                assert min(sizes) > 8
                assert tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
                verdict = tab.locator(".verdict").bounding_box()
                assert verdict["y"] + verdict["height"] < 900
                backgrounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
                context.close()
            assert backgrounds == {"rgb(255, 255, 255)", "rgb(20, 23, 28)"}
        finally:
            browser.close()


@pytest.mark.slow
def test_five_hundred_runs_take_twenty_seconds_and_a_gigabyte(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    steps = np.linspace(5000, 1e6, 200)
    arms = [
        Arm(
            f"sac-{critic}-r{rank}",
            tuple(
                Run(env, seed, steps, generator.normal(size=200).cumsum() + rank, tmp_path)
                for env in (*ENVS, "Hopper-v5", "Ant-v5", "Walker2d-v5")
                for seed in range(10)
            ),
            settings={"critic": critic, "rank": rank},
        )
        for critic, rank in [("mlp", 32), ("mlp-matched", 32), *(("cp", 2**n) for n in range(8))]
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    write_report(analyse(arms), tmp_path / "report", Origin("big"))
    assert time.process_time() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6


def test_charts_of_a_lone_arm_have_no_comparison(tmp_path: Path) -> None:
    runs = tuple(Run("New-v0", s, np.arange(1.0, 5.0), np.arange(4.0) + s, tmp_path) for s in range(5))
    analysis = analyse([Arm("only", runs)])
    assert [chart.name for chart in charts(analysis, {})] == ["aggregate", "curve-New-v0", "profile"]
    assert re.fullmatch(r"only alone: interquartile mean 4\.0 \[[\d., ]+\] return\.", analysis.verdict())
