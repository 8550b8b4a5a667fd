"""The command bench."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained_dnc.cli.parsing import parse
from constrained_dnc.cli.telling import tell
from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.files import write_atomically


@dataclass(frozen=True)
class _Bench:
    json: bool = False
    """Print one JSON object instead of a table."""
    repeats: int = 15
    """Iterations per contestant; the median counts."""
    grow: bool = True
    """Also measure how the iteration grows with memory size, length and batch size."""
    plot: Path | None = None
    """Write a picture of the comparison and the growth to this PNG file."""
    against: str | None = None
    """Time another implementation beside ours instead, on one core: dnc, the package on PyPI."""


def bench(arguments: list[str]) -> int:
    """Time a training iteration: fused, pure, and the floor of its matrix products.

    One core, then all of them, taking turns in one process. A few minutes, most of it compiling
    the pure path; the machine should be idle. With --against, ours beside another implementation.
    """
    asked = parse(_Bench, arguments, "cdnc bench", bench.__doc__)
    require_integer("repeats", asked.repeats, 1)
    if asked.plot is not None and asked.plot.suffix != ".png":
        raise SettingError("plot", str(asked.plot), "a file whose name ends in .png")
    if asked.against is not None:
        return _bench_against(asked, asked.against)
    from constrained_dnc.bench import measure  # noqa: PLC0415 - slow to import

    result = measure(asked.repeats, asked.grow, _say)
    print(json.dumps(result) if asked.json else table(result))
    if asked.plot is not None:
        draw(result, asked.plot)
    return 0


def _say(line: str) -> None:
    tell(f"… {line}")


def _bench_against(asked: _Bench, name: str) -> int:
    if asked.plot is not None:
        raise SettingError("plot", str(asked.plot), "nothing when another implementation is timed")
    from constrained_dnc.peers import measure_against  # noqa: PLC0415 - slow to import

    result = measure_against(name, asked.repeats, _say)
    print(json.dumps(result) if asked.json else table_against(result))
    return 0


def table_against(result: dict[str, Any]) -> str:
    """Ours beside a peer in Markdown."""
    load, name = result["load"], result["against"]
    versions = ", ".join(f"{package} {found}" for package, found in result["versions"].items())
    rows = {
        f"ours ({result['backend']}), ms": (
            result["fastest_ms"]["ours"],
            result["median_ms"]["ours"],
        ),
        f"{name}, ms": (result["fastest_ms"]["theirs"], result["median_ms"]["theirs"]),
        f"{name} / ours": (result["fastest_ratio"], result["median_ratio"]),
    }
    return "\n".join(
        [
            f"One of {result['machine']['cores']} cores, {result['machine']['cpu']}; {versions}; "
            f"batch {load['batch_size']}, N = {load['memory_size']}, W = {load['word_size']}, "
            f"R = {load['num_reads']}, H = {load['hidden_size']}, {load['task']} with "
            f"L = {load['length']}; {result['runs']} runs each, in turns",
            "",
            "| a training iteration | fastest | median |",
            "|---|---|---|",
            *(f"| {what} | {least:.1f} | {median:.1f} |" for what, (least, median) in rows.items()),
        ]
    )


def table(result: dict[str, Any]) -> str:
    """The result in Markdown, as kept in benchmarks/README.md."""
    machine = result["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, "
        f"{result['date']}; backend {result['backend']}"
        + (f" ({result['fused_missing']})" if result["fused_missing"] else ""),
        "",
        "| a training iteration | one core | all cores |",
        "|---|---|---|",
    ]
    rows = {
        "fused, ms": "fused_ms",
        "fused, fastest run, ms": "fused_fastest_ms",
        "pure, ms": "pure_ms",
        "floor: its matrix products alone, ms": "floor_ms",
        "pure / fused": "pure_over_fused",
        "fused / floor": "fused_over_floor",
        "first iteration with fused, s": "fused_first_s",
        "first iteration with pure (compiling), s": "pure_first_s",
    }
    for what, key in rows.items():
        cells = [result[cores][key] for cores in ("one_core", "all_cores")]
        lines.append(f"| {what} | {' | '.join('-' if c is None else f'{c:.1f}' for c in cells)} |")
    lines += ["", "| forward only, one core | samples x steps per second |", "|---|---|"]
    for size in (50, 500):
        lines.append(f"| {size} slots | {result[f'forward_steps_per_second_{size}']:,.0f} |")
    for axis, values in result.get("growth_ms", {}).items():
        times = " | ".join(f"{value:.1f}" for value in values.values())
        lines += [
            "",
            f"| {axis} | {' | '.join(map(str, values))} |",
            f"|---{'|---' * len(values)}|",
            f"| fused, one core, fastest run, ms | {times} |",
        ]
    lines += ["", f"Peak memory {result['peak_memory_mb']:.0f} MB."]
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """The comparison as bars, the growth as lines."""
    import matplotlib as mpl  # noqa: PLC0415 - only when a picture is wanted

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    growths = result.get("growth_ms", {})
    figure, axes = plt.subplots(
        1, 1 + len(growths), figsize=(4 * (1 + len(growths)), 3.6), layout="constrained"
    )
    bars, *lines = _as_list(axes)
    for place, cores in enumerate(("one_core", "all_cores")):
        for offset, (name, colour) in enumerate(
            (("pure", "#bbbbbb"), ("fused", "#0072b2"), ("floor", "#009e73"))
        ):
            value = result[cores][f"{name}_ms"]
            if value is not None:
                bar = bars.bar(place + (offset - 1) * 0.28, value, 0.26, color=colour)
                bars.bar_label(bar, fmt="%.0f", fontsize=8)
                if place == 0:
                    bar.set_label(name)
    bars.set_xticks([0, 1], ["one core", "all cores"])
    bars.set_ylabel("ms per training iteration")
    bars.legend(frameon=False)
    for axis, (name, values) in zip(lines, growths.items(), strict=True):
        axis.loglog(list(values), list(values.values()), "o-", color="#0072b2")
        axis.set_xticks(list(values), [str(v) for v in values])
        axis.set_yticks(list(values.values()), [f"{v:.0f}" for v in values.values()])
        axis.minorticks_off()
        axis.set_xlabel(name)
        axis.set_title("fused, one core, fastest run, ms", fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    write_atomically(path, file.getvalue())


def _as_list(axes: Any) -> list[Any]:
    """matplotlib gives one axis as itself, several as an array."""
    return list(axes) if hasattr(axes, "__len__") else [axes]
