"""A plot of rates: for each way of reading or writing a line a workload, on one logarithmic scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ratios import OURS, best_rates, limit
from report import times
from steps import LIMITS, OPEN

if TYPE_CHECKING:
    from pathlib import Path

    from report import Measurement

    Row = tuple[str, str, dict[str, float], float | None]  # way, workload, system -> rate, limit

COLOURS = {  # start of a system's name -> colour; Okabe and Ito's, which the colour-blind can distinguish
    OURS: "#0072b2",
    "TFDS": "#d55e00",
    "tf.data": "#d55e00",
    "ArrayRecord": "#e69f00",
    "MosaicML MDS": "#009e73",
    "WebDataset": "#cc79a7",
    "Hugging Face datasets": "#56b4e9",
    "Lance": "#000000",
    "LitData": "#f0e442",
}


def rows(measurements: list[Measurement]) -> list[Row]:
    """Returns what has a line: each way and workload for which another system was measured, too."""
    rates = best_rates(measurements)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (way, workload, system), rate in rates.items():
        if way not in (LIMITS, OPEN):
            found.setdefault((way, workload), {})[system] = rate
    return [
        (way, workload, systems, (limit(rates, way, workload) or (None, None))[1])
        for (way, workload), systems in found.items()
        if any(not system.startswith(OURS) for system in systems)
    ]


def save(measurements: list[Measurement], path: Path) -> None:
    """Writes the plot as SVG; needs matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, of a tenth of the size of its outlines
    matplotlib.rcParams["svg.hashsalt"] = "beam_datasets"  # the same file for the same rates
    from matplotlib import pyplot

    lines = rows(measurements)
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.28 * len(lines)), layout="constrained")
    for y, (_, _, systems, bound) in enumerate(lines):
        for start, colour in COLOURS.items():
            found = [rate for system, rate in systems.items() if system.startswith(start)]
            size = 60 if start == OURS else 28
            axes.scatter(
                found, [y] * len(found), size, colour, zorder=3, label=None if y or start == "tf.data" else start
            )
        if bound:
            axes.plot([bound], [y], "|k", markersize=11, label="limit" if not y else None)
        others = [rate for system, rate in systems.items() if not system.startswith(OURS)]
        if OURS in systems:
            ratio = times(systems[OURS] / max(others))
            axes.annotate(ratio, (1.01, y), xycoords=("axes fraction", "data"), va="center")
    axes.set(xscale="log", xlabel="examples a second; on the right: beam_datasets / fastest of the others")
    axes.set_yticks(range(len(lines)), [f"{way}, {workload}" for way, workload, *_ in lines])
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
