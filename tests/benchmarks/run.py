"""Measures beam_datasets, alone or beside its peers; docs/performance.md says how and holds the tables.

python tests/benchmarks/run.py generate read files open --peers
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import growth
import plot
import ratios
import report
from bench import Bench
from environments import REQUIREMENTS, python_of
from tasks import CHECKED_ROWS, EVERY, REPEAT, SECONDS, SHARES, TASKS, rows_of, tasks_of

COMMANDS = ("check", *TASKS, "growth")
WORDS = {3: "a third", 5: "a fifth", 10: "a tenth"}


def main() -> None:
    """Runs the commands and prints their tables."""
    arguments = _parser().parse_args()
    peers = [] if arguments.peers is None else arguments.peers or REQUIREMENTS
    pythons = {name: python_of(name) for name in ("", *peers)}
    everything: list[report.Measurement] = []
    wrong = False
    for command in arguments.commands:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            bench = Bench(Path(directory), pythons, arguments.memory or command == "memory", SECONDS.get(command))
            if command == "check":
                wrong |= _check(bench, arguments)
                continue
            text, found = _growth(bench, arguments) if command == "growth" else _measure(bench, command, arguments)
        text += "\n" + report.setting(found, shlex.join(["python", *sys.argv]))
        text += "".join(f"- failed: {failure}\n" for failure in dict.fromkeys(bench.failures))
        print(text)
        everything += found
        if arguments.markdown:
            report.put(text, arguments.markdown, command)
    if arguments.markdown and peers and plot.rows(everything):
        arguments.markdown.with_suffix(".svg").write_text(plot.svg(everything), encoding="utf-8")
    sys.exit(wrong)


def _measure(bench: Bench, command: str, arguments: argparse.Namespace) -> tuple[str, list[report.Measurement]]:
    """Returns the tables of a command, and its measurements."""
    repeat, found, counts = arguments.repeat or REPEAT[command], [], []
    for workload in arguments.workloads:
        rows = arguments.rows or rows_of(command, workload)
        if tasks := tasks_of(command, workload, bench.pythons, arguments.skip):
            counts.append(f"{workload} {rows:,}")
            with tempfile.TemporaryDirectory(dir=bench.directory) as directory:
                own = Bench(Path(directory), bench.pythons, bench.memory, bench.seconds, bench.failures)
                found += _kept(own.run(tasks, workload, rows, repeat), command, arguments)
    notes = [f"Rows: {', '.join(counts)}{_shares(bench.pythons)}. {_best_of(repeat)}"]
    return "\n\n".join([*notes, *ratios.table(found), report.tables(found)]), found


def _growth(bench: Bench, arguments: argparse.Namespace) -> tuple[str, list[report.Measurement]]:
    repeat = arguments.repeat or 1
    found = [m for _ in range(repeat) for m in growth.measure(bench, arguments.rows or growth.ROWS)]
    return f"{_best_of(repeat)}\n\n{growth.tables(_kept(found, 'growth', arguments))}", found


def _kept(found: list[report.Measurement], command: str, arguments: argparse.Namespace) -> list[report.Measurement]:
    if arguments.results:
        with arguments.results.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({"command": command, **asdict(m)}) + "\n" for m in found)
    return found


def _shares(pythons: dict[str, str]) -> str:
    shared: dict[str, list[str]] = {WORDS[share]: [] for share in SHARES.values()}
    names = {"peer_tfds": "TFDS", "peer_webdataset": "WebDataset", "peer_mds": "MDS", "peer_hf": "Hugging Face"}
    for module, share in SHARES.items():
        shared[WORDS[share]].append(names[module])
    texts = [f"{word} of them for {' and '.join(systems)}" for word, systems in shared.items()]
    return f"; {', '.join(texts)}, whose rates do not depend on it" if len(pythons) > 1 else ""


def _best_of(repeat: int) -> str:
    return "One run of each." if repeat == 1 else f"The best of {repeat} runs of each."


def _check(bench: Bench, arguments: argparse.Namespace) -> bool:
    """Prints whether all systems read the values that were generated; returns whether something is wrong."""
    rows = arguments.rows or CHECKED_ROWS
    modules = dict.fromkeys(task.module for task in TASKS["read"] if task.environment in bench.pythons)
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
    parser.add_argument("--workloads", nargs="+", choices=EVERY, default=list(EVERY))
    parser.add_argument("--skip", nargs="+", default=[], metavar="MODULE.STEP", help="such as peer_tfds.generate")
    parser.add_argument("--rows", type=int, help="of every workload; by default as docs/performance.md says")
    parser.add_argument("--repeat", type=int, help="how many times each system runs")
    parser.add_argument("--memory", action="store_true", help="watch the peak memory; takes some of the processor")
    parser.add_argument("--directory", help="where datasets are put meanwhile; by default the one for temporary files")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the tables into a page, the plot beside it")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append each measurement as a line of JSON")
    return parser


if __name__ == "__main__":
    main()
