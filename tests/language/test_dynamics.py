"""Chaotic systems and their forecasts: integrators against references, scores by hand, models that learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

from sna_rl.errors import UsageError
from sna_rl.language.distributions import Bins, Mixture
from sna_rl.language.forecast import ForecastConfig, Forecaster, equal_parameters
from sna_rl.language.forecast_scores import (
    Climate,
    crps,
    diverged,
    spectrum,
    spectrum_error,
    spread_error_ratio,
)
from sna_rl.language.rollout import (
    Climatology,
    LinearGaussian,
    TrueSystem,
    roll_out,
    score_forecasts,
    score_long,
)
from sna_rl.language.systems import KuramotoSivashinsky, lorenz96_tendency, runge_kutta, trajectories
from sna_rl.language.tasks import ForecastTask
from sna_rl.runs.fit_config import FitConfig


def test_lorenz96_by_loops() -> None:
    x = torch.randn(2, 7, dtype=torch.float64)
    n = 7
    expected = [
        [(row[(i + 1) % n] - row[i - 2]) * row[i - 1] - row[i] + 8.0 for i in range(n)] for row in x.tolist()
    ]
    torch.testing.assert_close(lorenz96_tendency(x), torch.tensor(expected, dtype=torch.float64))


def test_lorenz96_keeps_energy_but_for_friction_and_forcing() -> None:
    x = torch.randn(1, 40, dtype=torch.float64)
    rate = (x * lorenz96_tendency(x, 0.0)).sum()
    torch.testing.assert_close(rate, -x.square().sum())  # the quadratic terms cancel


def test_a_saved_step_equals_a_precise_integration() -> None:
    x = trajectories("lorenz96", 1, 2, seed=0).double()[0]

    def tendency(_: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = lorenz96_tendency(torch.from_numpy(y)[None])[0].numpy()
        return found

    precise = solve_ivp(tendency, (0.0, 0.05), x[0].numpy(), rtol=1e-10, atol=1e-10).y[:, -1]
    np.testing.assert_allclose(x[1].numpy(), precise, atol=1e-4)


def test_runge_kutta_is_of_fourth_order() -> None:
    errors = []
    for n in (10, 20):
        x = torch.ones(1, 1, dtype=torch.float64)
        for _ in range(n):
            x = runge_kutta(lambda y: y.cos(), x, 1.0 / n)
        errors.append(abs(x.item() - precise_cosine(1.0)))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.3)


def precise_cosine(end: float) -> float:
    """Solution of x' = cos x from 1."""
    solution = solve_ivp(lambda _, y: np.cos(y), (0.0, end), [1.0], rtol=1e-12, atol=1e-13)
    return float(solution.y[0, -1])


def test_kuramoto_sivashinsky_against_small_explicit_steps() -> None:
    size, end = 32, 0.25
    grid = 2 * math.pi * torch.arange(size, dtype=torch.float64) / size
    u = (0.6 * torch.cos(grid) + 0.3 * torch.sin(2 * grid))[None]
    wave = 2 * math.pi / 22.0 * torch.arange(size // 2 + 1, dtype=torch.float64)

    def tendency(v: Tensor) -> Tensor:
        f = torch.fft.rfft(v)
        slope = torch.fft.irfft(1j * wave * f, size)
        rate: Tensor = -v * slope + torch.fft.irfft((wave**2 - wave**4) * f, size)
        return rate

    slow = u
    for _ in range(2500):
        slow = runge_kutta(tendency, slow, end / 2500)
    torch.testing.assert_close(KuramotoSivashinsky(size, end)(u), slow, atol=1e-5, rtol=1e-4)
    assert KuramotoSivashinsky(size, end)(u).mean().item() == pytest.approx(u.mean().item(), abs=1e-12)


@pytest.mark.parametrize("system", ["lorenz96", "kuramoto-sivashinsky"])
def test_the_true_system_follows_its_trajectory(system: str) -> None:
    states = trajectories(system, 2, 12, seed=4)
    rolled = roll_out(TrueSystem(system), states[:, :1], 11, torch.Generator())
    torch.testing.assert_close(rolled, states[:, 1:], atol=2e-4, rtol=1e-4)


def test_kuramoto_sivashinsky_stays_on_its_attractor() -> None:
    states = trajectories("kuramoto-sivashinsky", 2, 200, seed=1)
    assert states.isfinite().all()
    assert 0.8 < states.std().item() < 1.8  # about 1.3 at length 22
    assert states.diff(dim=1).std().item() > 0.05


def test_seeds_decide_trajectories() -> None:
    first, again, other = (trajectories("lorenz96", 1, 2, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    with pytest.raises(UsageError, match="did you mean 'lorenz96'"):
        trajectories("lorenz69", 1, 1, seed=0)


@given(n=st.integers(1, 7), seed=st.integers(0, 1000))
def test_crps_equals_its_double_sum(n: int, seed: int) -> None:
    torch.manual_seed(seed)
    ensemble, truth = torch.randn(n, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    expected = (ensemble - truth).abs().mean(0)
    if n > 1:
        expected = expected - (ensemble[:, None] - ensemble).abs().sum((0, 1)) / (2 * n * (n - 1))
    torch.testing.assert_close(crps(ensemble, truth), expected)


def test_crps_of_a_normal_forecast_is_the_known_integral() -> None:
    torch.manual_seed(0)
    # For N(0, 1) and truth 0: 2 φ(0) − 1/√π = (√2 − 1)/√π
    score = crps(torch.randn(200_000, 1), torch.zeros(1)).item()
    assert score == pytest.approx((math.sqrt(2) - 1) / math.sqrt(math.pi), abs=2e-3)


def test_spread_equals_error_where_truth_is_one_of_the_members() -> None:
    torch.manual_seed(0)
    for scale, expected in ((1.0, 1.0), (0.5, 0.5)):
        centre = torch.randn(20_000)
        ratio = spread_error_ratio(centre + scale * torch.randn(200, 20_000), centre + torch.randn(20_000))
        assert ratio == pytest.approx(expected, abs=0.02)


def test_spectra_and_divergence_by_hand() -> None:
    ring = torch.cos(2 * math.pi * 3 * torch.arange(16) / 16)
    power = spectrum(ring.expand(4, 5, 16))
    assert power.argmax() == 3
    assert power[3].item() == pytest.approx(64.0)
    torch.manual_seed(0)
    truth = torch.randn(3, 50, 16)
    climate = Climate(truth)
    wild = truth.clone()
    wild[0, 7, 3], wild[1, 9, 2] = math.nan, 1e6
    assert diverged(wild, climate).tolist() == [True, True, False]
    assert spectrum_error(truth, truth, climate) == pytest.approx(0.0)
    quieter = truth / math.sqrt(10.0)  # one decade of power less at every wave
    assert spectrum_error(quieter, truth, climate) == pytest.approx(1.0, abs=1e-5)
    assert spectrum_error(torch.full_like(truth, math.inf), truth, climate) == math.inf
    kept = truth - truth.mean(-1, keepdim=True)  # its mean is conserved: wavenumber 0 counts for nothing
    assert spectrum_error(quieter + 100.0, kept, Climate(kept + 100.0)) == pytest.approx(1.0, abs=0.01)


def test_mixtures_against_torch() -> None:
    torch.manual_seed(0)
    logits, means, raw = torch.randn(3, 2, 4, 3, dtype=torch.float64)
    mixture = Mixture(logits, means, raw.exp())
    reference = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=logits), torch.distributions.Normal(means, raw.exp())
    )
    x = torch.randn(2, 4, dtype=torch.float64)
    torch.testing.assert_close(mixture.log_prob(x), reference.log_prob(x))  # type: ignore[no-untyped-call]
    wide = Mixture(*(part.expand(20_000, 2, 4, 3) for part in mixture))
    drawn = wide.sample(torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), reference.mean, atol=0.1, rtol=0.0)
    torch.testing.assert_close(drawn.var(0), reference.variance, atol=0.5, rtol=0.1)


def test_linear_gaussian_finds_a_linear_system() -> None:
    torch.manual_seed(0)
    matrix = torch.tensor([[0.9, 0.2], [-0.2, 0.8]])
    x = [torch.randn(400, 2)]
    for _ in range(20):
        x.append(x[-1] @ matrix.T + 1.0 + torch.randn(400, 2) * torch.tensor([0.1, 0.5]))
    model = LinearGaussian(torch.stack(x, 1))
    torch.testing.assert_close(model.weights[:2].T.float(), matrix, atol=0.02, rtol=0.0)
    draws = model.predict(torch.zeros(20_000, 1, 2), torch.Generator().manual_seed(0))
    torch.testing.assert_close(draws.mean(0), torch.ones(2), atol=0.05, rtol=0.0)
    torch.testing.assert_close(draws.std(0), torch.tensor([0.1, 0.5]), atol=0.02, rtol=0.0)


def test_forecasts_of_the_climate_have_its_crps_and_spread() -> None:
    torch.manual_seed(0)
    train, test = torch.randn(5, 200, 4), torch.randn(5, 100, 4)
    climatology, climate = Climatology(train), Climate(train)
    scores = score_forecasts(climatology, test, climate)
    assert scores["crps"] == pytest.approx(1 / math.sqrt(math.pi), rel=0.03)  # two independent normals
    assert scores["spread_error"] == pytest.approx(1.0, abs=0.08)
    long = score_long(climatology, test, climate, n_steps=300)
    assert long["spectrum_error"] < 0.05
    assert (long["n_diverged"], long["n_rollouts"]) == (0.0, 5.0)


def direct_crps(cumulative: Tensor, grid: Tensor, truth: float) -> float:
    """∫ (F(u) − [u ≥ truth])² du as a sum over the middles of small intervals."""
    step = float(grid[1] - grid[0])
    return float(((cumulative - (grid >= truth).double()) ** 2).sum() * step)


@pytest.mark.parametrize("truth", [-0.81, 0.0, 0.4567, 1.5, -1.0, 2.0])
def test_crps_of_bins_equals_its_direct_sum(truth: float) -> None:
    torch.manual_seed(3)
    logits = 2 * torch.randn(1, 7, dtype=torch.float64)
    low, high = torch.tensor(-1.0).double(), torch.tensor(1.5).double()
    edges = torch.linspace(-1.0, 1.5, 8, dtype=torch.float64).numpy()
    heights = np.concatenate([[0.0], np.cumsum(logits.softmax(-1)[0].numpy())])
    grid = torch.arange(-2.0, 3.0, 1e-5, dtype=torch.float64) + 0.5e-5
    cumulative = torch.from_numpy(np.interp(grid.numpy(), edges, heights))
    found = Bins(logits, low, high).crps(torch.tensor([truth], dtype=torch.float64))
    assert found.item() == pytest.approx(direct_crps(cumulative, grid, truth), abs=2e-5)


@pytest.mark.parametrize("truth", [-0.81, 0.4567, 4.0])
def test_crps_of_a_mixture_equals_its_direct_sum(truth: float) -> None:
    torch.manual_seed(3)
    logits, means, raw = torch.randn(3, 1, 3, dtype=torch.float64)
    grid = torch.arange(-30.0, 30.0, 1e-4, dtype=torch.float64) + 0.5e-4
    each = torch.special.ndtr((grid.unsqueeze(-1) - means) / raw.exp())
    found = Mixture(logits, means, raw.exp()).crps(torch.tensor([truth], dtype=torch.float64))
    assert found.item() == pytest.approx(
        direct_crps((each * logits.softmax(-1)).sum(-1), grid, truth), abs=2e-4
    )


def test_exact_crps_is_what_many_draws_score() -> None:
    torch.manual_seed(0)
    bins = Bins(torch.randn(4, 6), torch.tensor(-2.0), torch.tensor(2.0))
    mixture = Mixture(torch.randn(4, 3), torch.randn(4, 3), torch.rand(4, 3) + 0.1)
    truth = torch.randn(4)
    for found in (bins, mixture):
        wide = type(found)(*(part if part.dim() == 0 else part.expand(20_000, *part.shape) for part in found))
        drawn = wide.sample(torch.Generator().manual_seed(1))
        torch.testing.assert_close(found.crps(truth), crps(drawn, truth), atol=0.02, rtol=0.0)


def test_bins_are_a_density_and_draws_fall_into_them() -> None:
    torch.manual_seed(0)
    bins = Bins(torch.randn(1, 5), torch.tensor(-1.0), torch.tensor(4.0))
    grid = torch.arange(-1.0, 4.0, 1e-3) + 5e-4
    density = Bins(bins.logits.expand(len(grid), 1, 5), bins.low, bins.high).log_prob(grid[:, None]).exp()
    assert float(density.sum() * 1e-3) == pytest.approx(1.0, abs=1e-4)
    wide = Bins(bins.logits.expand(40_000, 1, 5), bins.low, bins.high)
    drawn = wide.sample(torch.Generator().manual_seed(0)).squeeze(-1)
    shares = torch.histc(drawn, 5, -1.0, 4.0) / len(drawn)
    torch.testing.assert_close(shares, bins.logits.softmax(-1)[0], atol=0.01, rtol=0.0)
    ends = bins.log_prob(torch.tensor([-9.0])), bins.log_prob(torch.tensor([9.0]))
    torch.testing.assert_close(torch.cat(ends), bins.logits.log_softmax(-1)[0, [0, -1]])


def test_bins_reach_beyond_the_increments_seen() -> None:
    model = Forecaster(ForecastConfig(2, "mlp", "categorical", width=4))
    model.normalise(torch.tensor([[[0.0, 0.0], [1.0, 3.0], [0.0, 0.0]]]))
    step = math.sqrt(5.0)  # increments 1, 3, −1, −3
    assert (model.low.item(), model.high.item()) == pytest.approx((-3.3 / step, 3.3 / step), rel=1e-4)


def test_the_score_of_the_next_state_by_hand() -> None:
    train = trajectories("lorenz96", 1, 40, seed=0)
    model = Forecaster(ForecastConfig(40, "mlp", "deterministic", width=4))
    task = ForecastTask(model, train, train, FitConfig(n_steps=1), batch_size=2)
    torch.nn.init.zeros_(model.head.weight)  # type: ignore[arg-type]
    torch.nn.init.zeros_(model.head.bias)  # type: ignore[arg-type]
    expected = train.diff(dim=1).abs().mean().item() / task.climate.std
    assert task.crps_next() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("head", ["deterministic", "distributional", "categorical"])
@pytest.mark.parametrize("trunk", ["separable", "mlp", "convolution"])
def test_every_model_reads_the_past_alone_and_learns(trunk: str, head: str) -> None:
    torch.manual_seed(0)
    config = ForecastConfig(40, trunk, head, width=16, n_layers=2, n_context=3, rank=8)
    model = Forecaster(config)
    train, test = (trajectories("lorenz96", 2, 60, seed=seed) for seed in (0, 1))
    task = ForecastTask(model, train, test, FitConfig(n_steps=60), batch_size=32)
    states = train[:, :3].clone()
    with torch.no_grad():
        before = model(states)
        states[:, 2] += 1.0
        assert torch.equal(before[:, :2], model(states)[:, :2])
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    losses = []
    for step in range(60):
        loss, _ = task.loss(task.batch(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < np.mean(losses[:3]) - 0.2
    assert set(task.evaluate()) == {"crps", "crps_last", "rmse_last", "spread_error", "crps_next", "score"}
    drawn = roll_out(model, train[:, :3], 2, torch.Generator().manual_seed(0))
    again = roll_out(model, train[:, :3], 2, torch.Generator().manual_seed(0))
    other = roll_out(model, train[:, :3], 2, torch.Generator().manual_seed(1))
    assert torch.equal(drawn, again)
    assert torch.equal(drawn, other) == (head == "deterministic")


def test_the_convolution_does_not_care_where_the_ring_begins() -> None:
    model = Forecaster(ForecastConfig(40, "convolution", width=8))
    states = torch.randn(2, 1, 40)
    torch.testing.assert_close(model(states).roll(7, 2), model(states.roll(7, 2)), atol=1e-5, rtol=1e-4)


def test_the_loss_by_hand() -> None:
    model = Forecaster(ForecastConfig(3, "mlp", "deterministic", width=4))
    model.normalise(torch.tensor([[[0.0, 2.0, 4.0], [2.0, 4.0, 6.0], [0.0, 2.0, 4.0]]]))
    assert model.step.item() == pytest.approx(2.0)
    torch.nn.init.zeros_(model.head.weight)  # type: ignore[arg-type]
    torch.nn.init.zeros_(model.head.bias)  # type: ignore[arg-type]
    now, after = torch.zeros(1, 1, 3), torch.tensor([[[2.0, 4.0, 6.0]]])
    assert model.loss(now, after).item() == pytest.approx((1 + 4 + 9) / 3)


def test_noise_is_added_to_what_is_read_alone() -> None:
    train = trajectories("lorenz96", 2, 60, seed=0)
    model, fit = Forecaster(ForecastConfig(40, "mlp", width=4)), FitConfig(n_steps=1)
    plain, noisy = (ForecastTask(model, train, train, fit, 500, noise) for noise in (0.0, 0.1))
    (read, after), (changed, same) = plain.batch(3), noisy.batch(3)
    assert torch.equal(after, same)
    assert torch.equal(changed, noisy.batch(3)[0])
    assert (changed - read).std().item() == pytest.approx(0.1 * train.std().item(), rel=0.03)


@pytest.mark.parametrize("trunk", ["mlp", "convolution"])
def test_equal_parameters(trunk: str) -> None:
    config = ForecastConfig(40, trunk, "distributional", n_layers=3)
    found = equal_parameters(config, 150_000)
    count = sum(parameter.numel() for parameter in Forecaster(found).parameters())
    assert 0.97 * 150_000 < count <= 150_000
    with pytest.raises(UsageError, match="more than 10"):
        equal_parameters(config, 10)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trunk": "mlpp"}, "did you mean 'mlp'"),
        ({"head": "x"}, "unknown head"),
        ({"width": 6}, "multiple of the 4"),
    ],
)
def test_wrong_models_are_one_sentence(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ForecastConfig(40, **changes)  # type: ignore[arg-type]
