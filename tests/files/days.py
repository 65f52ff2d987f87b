"""Files of several days, as tests of appending write them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

import beam_datasets as bd


def rows_of(directory, split="train"):
    return [dict(row) for row in bd.builder_from_directory(directory).as_dataset(split)]


def csv(folder, name, *lines):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def parquet(path, rows, names):
    pq.write_table(pa.Table.from_pylist([{name: row[name] for name in names} for row in rows]), path)


def csv_file(path, rows, names):
    csv(path.parent, path.name, ",".join(names), *(",".join(str(row[name]) for name in names) for row in rows))


def json_lines(path, rows, names):
    path.write_text("".join(json.dumps({name: row[name] for name in names}) + "\n" for row in rows))
