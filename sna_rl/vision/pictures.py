"""Images filled in by a model, as a picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from sna_rl.runs.atomic import atomic_write
from sna_rl.runs.fit_config import step_generator
from sna_rl.vision.classify import centred, scaled
from sna_rl.vision.embeddings import from_patches, to_patches
from sna_rl.vision.images import Images
from sna_rl.vision.mask import hide, patch_size, reconstruct
from sna_rl.vision.model import IterativeModel

PICTURED = 8


def picture(
    model: IterativeModel, images: Images, path: Path, *, share: float, n_rounds: int, n_iterations: int
) -> None:
    """Draw images, what was left of them, and what the model made of it, one below the other.

    Args:
        model: trained, in evaluation mode.
        images: the first eight are drawn.
        path: a png file.
        share: of each that is hidden.
        n_rounds: of decoding.
        n_iterations: of each layer.
    """
    device = next(model.parameters()).device
    whole = centred(scaled(images.pixels[:PICTURED])).to(device)
    n_places = model.embed.get_buffer("places").shape[0]
    hidden = hide(len(whole), n_places, (share, share), step_generator(0, 0)).to(device)
    size = patch_size(model)
    seen = from_patches(to_patches(whole, size).masked_fill(hidden.unsqueeze(-1), 0.0), size, images.shape)
    filled = reconstruct(model, whole, hidden, n_rounds, n_iterations)
    figure = Figure(figsize=(len(whole), 3), dpi=120)
    for row, pixels in enumerate((whole, seen, filled)):
        for column, image in enumerate((pixels / 2.0 + 0.5).clamp(0.0, 1.0).cpu()):
            axes = figure.add_axes((column / len(whole), (2 - row) / 3, 0.98 / len(whole), 0.98 / 3))
            axes.imshow(image.movedim(0, -1).squeeze(-1).numpy(), cmap="gray", vmin=0.0, vmax=1.0)
            axes.set_axis_off()
    with atomic_write(path) as file:
        figure.savefig(file, format="png")
