"""Measures beam_datasets, alone or beside its peers; see docs/explanation/performance.md.

python tests/benchmarks/run.py generate read files open --peers
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import growth
import plot
import ratios
import remote
import report
from bench import Bench
from environments import REQUIREMENTS, python_of
from tasks import CHECKED, CHECKED_ROWS, ENVIRONMENTS, EVERY, PHOTOS, REPEAT, SECONDS, SHARES, TASKS, rows_of, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench import Made

COMMANDS = ("check", *TASKS, "growth")
WORDS = {3: "a third", 5: "a fifth", 10: "a tenth"}


def main() -> None:
    """Runs the commands and prints their tables."""
    arguments = _parser().parse_args()
    peers = [] if arguments.peers is None else arguments.peers or REQUIREMENTS
    pythons = dict(_pythons(["", *peers]))
    everything: list[report.Measurement] = []
    wrong = False
    load = os.getloadavg()[0]
    place = remote.served if "remote" in arguments.commands else tempfile.TemporaryDirectory
    with place(dir=arguments.directory) as directory:
        bench = Bench(Path(directory), pythons)
        for command in arguments.commands:
            rest = arguments.commands[arguments.commands.index(command) + 1 :]
            bench.wanted = frozenset(_wanted(rest, pythons, arguments))
            bench.memory, bench.seconds = arguments.memory or command == "memory", SECONDS.get(command)
            bench.failures.clear()
            if command == "check":
                wrong |= _check(bench, arguments)
                continue
            text, found = _growth(bench, arguments) if command == "growth" else _measure(bench, command, arguments)
            text += "\n" + report.setting(found, shlex.join(["python", *sys.argv]), load)
            text += "".join(f"- failed: {failure}\n" for failure in dict.fromkeys(bench.failures))
            print(text, flush=True)
            everything += found
            if arguments.markdown:
                report.put(text, _tables_page(arguments.markdown), command)
    if arguments.markdown and (rows := ratios.summary(everything)):
        report.put_rows(rows, arguments.markdown, "ratios")
    if arguments.markdown and peers and plot.rows(everything):
        image = arguments.markdown.with_suffix(".svg")
        plot.save(everything, image)
        report.put(f"![Rates of all systems, by way and workload]({image.name})", arguments.markdown, "plot")
    sys.exit(wrong)


def _tables_page(page: Path) -> Path:
    """Returns the page with the full tables, beside the page with the ratios."""
    return page.with_name(f"{page.stem}-tables.md")


def _pythons(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the environments that there are, or that can be made, with their interpreters."""
    for name in names:
        try:
            python = python_of(name)
            subprocess.run([python, "--version"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"Without the environment {name!r}: {error}", file=sys.stderr)
        else:
            yield name, python


def _rows(command: str, workload: str, arguments: argparse.Namespace) -> int:
    return arguments.rows or rows_of(command, workload)


def _wanted(commands: list[str], pythons: dict[str, str], arguments: argparse.Namespace) -> Iterator[Made]:
    """Yields the datasets that commands read."""
    for command in set(commands) & set(TASKS):
        for workload in arguments.workloads:
            for task in tasks_of(command, workload, pythons, arguments.skip):
                if source := task.source:
                    yield source, workload, source.rows(_rows(command, workload, arguments))


def _measure(bench: Bench, command: str, arguments: argparse.Namespace) -> tuple[str, list[report.Measurement]]:
    """Returns the tables of a command, and its measurements."""
    repeat, found, counts = arguments.repeat or REPEAT[command], [], []
    for workload in arguments.workloads:
        rows = _rows(command, workload, arguments)
        if tasks := tasks_of(command, workload, bench.pythons, arguments.skip):
            counts.append(f"{workload} {rows:,}")
            found += _kept(bench.run(tasks, workload, rows, repeat), command, arguments)
    notes = [f"Rows: {', '.join(counts)}{_shares(bench.pythons)}. {_best_of(repeat)}"]
    return "\n\n".join([*notes, *ratios.table(found), report.tables(found)]), found


def _growth(bench: Bench, arguments: argparse.Namespace) -> tuple[str, list[report.Measurement]]:
    repeat, rows = arguments.repeat or 1, arguments.rows or growth.ROWS
    found = [m for _ in range(repeat) for m in _kept(growth.measure(bench, rows), "growth", arguments)]
    return f"{_best_of(repeat)}\n\n{growth.tables(found)}", found


def _kept(
    found: Iterable[report.Measurement], command: str, arguments: argparse.Namespace
) -> Iterator[report.Measurement]:
    for m in found:
        if arguments.results:
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"command": command, **asdict(m)}) + "\n")
        yield m


def _shares(pythons: dict[str, str]) -> str:
    """Returns the systems that read fewer rows, in words."""
    names = {"peer_tfds": "TFDS", "peer_webdataset": "WebDataset", "peer_mds": "MDS", "peer_hf": "Hugging Face"}
    shares = [f"{names[m]} {WORDS[share]}" for m, share in SHARES.items() if ENVIRONMENTS[m] in pythons]
    because = "because their rates hardly depend on the number"
    return f". Fewer of these rows were read by some systems ({', '.join(shares)}), {because}" if shares else ""


def _best_of(repeat: int) -> str:
    return "One run of each." if repeat == 1 else f"The best of {repeat} runs of each."


def _check(bench: Bench, arguments: argparse.Namespace) -> bool:
    """Prints whether all systems read the values that were generated; returns whether something is wrong."""
    rows = arguments.rows or CHECKED_ROWS
    modules = dict.fromkeys(task.module for task in CHECKED if task.environment in bench.pythons)
    found = [line for module in modules if module != "plain" for line in bench.check(module, rows, arguments.workloads)]
    wrong = [line for line in found if line["wrong"]]
    print(f"{len(found) - len(wrong)} ways of reading {rows:,} rows gave the values that were generated.")
    for line in wrong:
        print(f"Not so: {line['workload']}, {line['way']}, {line['system']}: {', '.join(line['wrong'])}")
    for failure in bench.failures:
        print(f"Failed: {failure}")
    return bool(wrong or bench.failures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commands", nargs="+", choices=COMMANDS, metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--peers", nargs="*", choices=REQUIREMENTS, help="beside other systems; these alone, or all")
    parser.add_argument("--workloads", nargs="+", choices=EVERY + PHOTOS, default=list(EVERY))
    parser.add_argument("--skip", nargs="+", default=[], metavar="MODULE.STEP", help="such as peer_tfds.generate")
    parser.add_argument("--rows", type=int, help="of every workload; default: see docs/explanation/performance.md")
    parser.add_argument("--repeat", type=int, help="how many times each system runs")
    parser.add_argument("--memory", action="store_true", help="watch the peak memory; takes some of the processor")
    parser.add_argument("--directory", help="where datasets are put meanwhile; by default the one for temporary files")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="update a page and the tables and plot beside it")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append each measurement as a line of JSON")
    return parser


if __name__ == "__main__":
    main()
