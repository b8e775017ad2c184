"""Separable functions of several modes: networks, parameter budgets and spectra; torch alone."""

from sna_rl.separable import spectrum
from sna_rl.separable.budget import n_parameters, rank_for_parameters, width_for_parameters
from sna_rl.separable.factors import FactorConfig
from sna_rl.separable.forms import Bilinear, Part
from sna_rl.separable.initial import InitConfig
from sna_rl.separable.linear import EnsembleHead, EnsembleLayerNorm, EnsembleLinear, EnsembleTower
from sna_rl.separable.network import SeparableNetwork

__all__ = [
    "Bilinear",
    "EnsembleHead",
    "EnsembleLayerNorm",
    "EnsembleLinear",
    "EnsembleTower",
    "FactorConfig",
    "InitConfig",
    "Part",
    "SeparableNetwork",
    "n_parameters",
    "rank_for_parameters",
    "spectrum",
    "width_for_parameters",
]
