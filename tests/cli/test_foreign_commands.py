"""Commands, options and formats that users of other tools type: the error says what to type here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from beam_datasets import advice, foreign_names
from beam_datasets.cli import adopt, append, build, head, info, materialize, new, site, stats, verify
from beam_datasets.cli.explorer import app
from beam_datasets.cli.history import GC, PRUNE, TAG
from beam_datasets.cli.main import COMMANDS, main
from beam_datasets.cli.materialize import EXPORT
from beam_datasets.cli.resolve import FORMATS
from tests.files.in_process import option_names
from tests.reading.conftest import write_dataset

GUESSES = [
    ("ls --data_dir 'my data'", "Use `beam-datasets list --data_dir 'my data'`."),
    ("show digits --data-dir d", "Use `beam-datasets info digits --data_dir d`, and `beam-datasets head digits`"),
    ("rm --data_dir d digits", "Use `beam-datasets prune digits --keep 1`"),
    ("download digits", "`bd.load('digits', data_dir='gs://bucket/data')`"),
    ("convert digits", "Use `beam-datasets export digits --format parquet --to DIR`"),
    ("push digits s3://bucket", "Use `beam-datasets materialize digits --source_data_dir FROM --data_dir TO`"),
    ("validate digits", "Use `beam-datasets verify digits`."),
    ("repair digits", "Use `beam-datasets verify digits --repair`."),
    ("tail digits -n 3", "Use `beam-datasets head digits -n 3`."),
    ("init digits", "Use `beam-datasets new digits`."),
    ("download-and-prepare digits.py", "Use `beam-datasets build digits.py`."),
    ("ui", "Use `beam-datasets explore`."),
    ("commit -m x", "Use `beam-datasets append NAME --from SOURCE`"),
    ("build-croissant --jsonld x", "Use `beam-datasets site DATA_DIR --to DIR`"),
    ("scan-cache", "Use $BEAM_DATASETS_CACHE_DIR"),
    ("python digits.py", "Use `beam-datasets build digits.py`."),
    ("build csv --pattern a.csv --publish_dir out", "Use `--data_dir out`"),
    ("build csv --pattern a.csv --nondeterministic_order", "Leave it out: the keys decide the order."),
    ("build csv --pattern a.csv --fail_if_exists", "Use `--skip_published`"),
    ("build csv --pattern a.csv --download_only", "Use `--download_dir DIR`"),
    ("build csv --pattern a.csv --config_idx 1", "Use `NAME/CONFIG`"),
    ("compare {} {x}", "Use `beam-datasets diff '{}' '{x}'`."),
    ("build csv --file a.csv", "Use `--pattern a.csv`."),
    ("build csv --data-files='a b.csv'", "Use `--pattern 'a b.csv'`."),
    ("build csv --pattern a.csv --sep ';'", "Use `--delimiter ';'`."),
    ("build csv --pattern a.csv --na_values NA", "Use `--missing NA`."),
    ("build csv --pattern a.csv --index_col id", "Use `--key id`."),
    ("build csv --pattern a.csv --dtype price=float", "Use `--feature NAME=TYPE`"),
    ("build csv --pattern a.csv --usecols a,b", "Use `--feature NAME=drop`"),
    ("build csv --pattern a.csv --names a,b", "Use `--columns a,b,c`"),
    ("build csv --pattern a.csv --nrows 5", "Use `--max_examples_per_split 5`."),
    ("build csv --pattern a.csv --on_bad_lines skip", "Use `--skip_bad`."),
    ("build csv --pattern a.csv --test_size 0.2", "Use `--split train=80% --split test=20%`."),
    ("build csv --pattern a.csv --target kind", "Use `--feature kind=class`"),
    ("build csv --pattern a.csv --label kind", "Use `--feature kind=class`"),
    ("build csv --pattern a.csv --date_format %d.%m.%Y", "datetime.strptime(e['day'].decode(), '%d.%m.%Y')"),
    ("build csv --pattern a.csv --parse_dates day", "np.datetime64(e['day'])"),
    ("build csv --pattern a.csv --seed 3", "Leave it out: the keys decide the order."),
    ("build csv --pattern a.csv --output_dir out", "Use `--data_dir out`."),
    ("build csv --pattern a.csv --num_proc 8", "Use `--num_workers 8`."),
    ("build csv --pattern a.csv --force", "Use `--overwrite`."),
    ("build csv --pattern a.csv --format parquet", "`beam-datasets export NAME --format parquet --to DIR`"),
    ("build csv --pattern a.csv -v", "Use `--debug` for the traceback"),
    ("build image_folder --root a --resize 224", "Leave it out: images are stored as they are."),
    ("build json --pattern a.json", "Use `beam-datasets build jsonl`."),
    ("build audio_folder --root a", "Use `beam-datasets build sound_folder`."),
    ("build excel --pattern a.xlsx", "pandas.read_excel"),
    ("build mnist", "Use `tfds.load('mnist')`"),
    ("head digits --limit 3", "Use `--count 3`."),
    ("head digits train", "Did you mean '--split train'?"),
    ("stats digits --columns a", "Use `--features a`."),
    ("verify digits --fix", "Use `--repair`."),
    ("export digits --format csv --to out", "Use `bd.load(name, split='train').to_pandas().to_csv('train.csv')`"),
    ("materialize digits --output out", "Use `--data_dir out`."),
    ("materialize digits --name few", "Use `--to few`."),
    ("append digits --data new.csv", "Use `--from csv --pattern new.csv`"),
    ("append digits new.csv", "--from FORMAT --pattern new.csv"),
    *((f"append digits {name} --pattern 'new*'", f"Use `--from {name}`.") for name in FORMATS),
    ("append digits --pattern new.csv csv --key id", "Use `--from csv`."),
    ("append digits ways/birds.py --pattern a.csv", "Use `--from ways/birds.py`."),
    ("append digits 'my birds.py:Birds/small'", "Use `--from 'my birds.py:Birds/small'`."),
    ("append digits beam_datasets.files.csv:Csv", "Use `--from beam_datasets.files.csv:Csv`."),
    ("append digits train", "Did you mean '--split train'?"),
    ("prune digits --keep_last 3 --keep 2", "Use `--keep 3`."),
    ("info --dataset digits", "such as `beam-datasets info NAME`"),
    ("head digits --splits test", "Use `--split test`."),
    ("stats digits --splits test", "Use `--split test`, also several times."),
    ("list digits", "Use `beam-datasets info digits` for one dataset."),
    ("head digits 5", "Did you mean '--count 5'?"),
    ("diff digits 1.0.0 2.0.0", "`beam-datasets diff NAME:1.0.0 NAME:2.0.0`"),
    ("stats digits --output x.html", "Use `--html x.html`."),
    ("materialize digits --splits train[:10%]", "Use `--split 'train[:10%]'`"),
    ("gc data --dry_run", "Use `--yes` to remove what it lists; without it nothing is removed."),
    ("verify digits --checksums", "which compares all checksums"),
    ("new digits --format conversational", "each builder has one form"),
    ("convert_format --root_data_dir x", "Use `beam-datasets export NAME --format arrayrecord --to DIR`"),
    ("tfds build digits", "Use `beam-datasets build digits`."),
    ("datasets-cli convert digits", "Use `beam-datasets convert digits`."),
    ("search digits", "`bd.load('digits', split='train').filter(function)`"),
    ("sql digits", "Use `bd.load("),
    ("resume digits", "Use `beam-datasets build digits --resume`."),
    ("status", "Use the engine's own commands"),
    ("cache list", "$BEAM_DATASETS_CACHE_DIR"),
    ("config set data_dir x", "$BEAM_DATASETS_DATA_DIR"),
    ("completion bash", "docs/reference/command.md"),
    ("upgrade", "published datasets need no change"),
    ("register digits", "beam-datasets build FILE.py"),
    ("compact digits", "Use `beam-datasets materialize digits --num_shards 8"),
    ("unpublish digits", "Use `beam-datasets prune digits --keep 1`"),
    ("diff digits", "Type `beam-datasets diff NAME:1.0.0 NAME:2.0.0 --data_dir DIR`"),
    ("export digits --out out", "Use `--to out`. Type `beam-datasets export NAME --format parquet --to DIR"),
    ("export digits", "Type `beam-datasets export NAME --format parquet --to DIR --data_dir DIR`"),
    ("export digits --to out --format parquet --limit 3", "Use `--split 'train=train[:3]'`"),
    ("export digits --to out --format parquet --compression zstd", "its files are compressed"),
    ("export digits --to out --format parquet --overwrite", "a directory that does not exist"),
    ("build", "Type `beam-datasets build csv --name NAME --pattern FILES --data_dir DIR`"),
    ("build image_folder images", "Type `beam-datasets build image_folder --name NAME --root DIR --data_dir DIR`"),
    ("build csv --pattern a.csv --keys id", "Use `--key id`."),
    ("build csv --pattern a.csv --split 0.8", "--split train=80% --split test=20%"),
    ("build csv --pattern a.csv --feature stars", "--feature price=float32"),
    ("build csv --pattern a.csv --feature stars=integer", "Did you mean 'int64'?"),
    ("build csv --pattern a.csv --feature kind=category", "Did you mean 'class'?"),
    ("build csv --pattern a.csv --license mit", "Use `--description mit`"),
    ("build csv --pattern a.csv --tag best", "Use `beam-datasets tag NAME:1.0.0 best` after it is published"),
    ("build csv --pattern a.csv --where 'a > 3'", "beam-datasets materialize NAME --where 'a > 3' --to PART"),
    ("build csv --train_files a.csv --test_files b.csv", "Use `--split train=FILES --split test=FILES`"),
    ("build csv --pattern a --recursive", "`--pattern 'DIR/**/*'`"),
    ("build csv --pattern a.csv --low_memory", "memory is bounded"),
    ("build jsonl --pattern a.jsonl --flatten", "nested objects are features such as `a.b`"),
    ("info", "Type `beam-datasets info NAME --data_dir DIR`"),
    ("info digits 1.0.0", "`beam-datasets info NAME:1.0.0`"),
    ("info digits --version 1.0.0", "Use `NAME:1.0.0`, the version as a part of the name"),
    ("info digits --config small", "Use `NAME/small`"),
    ("info digits --features", "features, splits and sizes are printed"),
    ("head digits -5", "Did you mean '--count 5'?"),
    ("head -5 digits", "Did you mean '--count 5'?"),
    ("append digits --pattern new.csv", "Use `--from csv --pattern new.csv`"),
    ("build --file a.csv", "Use `beam-datasets build csv --name NAME --pattern a.csv`"),
    ("sort digits", "Use `bd.load('digits', split='train').to_pandas().sort_values('column')`"),
    ("head digits --skip 5", "Use `--split 'train[5:]'`"),
    ("head digits --random", "examples are in random order"),
    ("head digits --key 3", "`ds[ds.find('3')]`"),
    ("head digits --where 'a > 3'", "beam-datasets materialize NAME --where 'a > 3' --to PART"),
    ("head digits --columns a", "beam-datasets explore NAME"),
    ("slices digits", "Type `beam-datasets slices NAME 'train[:10%]' --data_dir DIR`"),
    ("stats digits --csv", "Use `--json`"),
    ("stats digits --force", "Use `--again`."),
    ("stats digits --sample 10", "Use `--split 'train[:10%]'`"),
    ("stats digits label", "Did you mean '--features label'?"),
    ("materialize digits 'train[:10%]' --to few", "Did you mean '--split train[:10%]'?"),
    ("lint digits.py", "Use `beam-datasets plan digits.py` for a builder"),
    ("stats digits train", "Did you mean '--split train'?"),
    ("stats digits test[:10]", "Did you mean '--split test[:10]'?"),
    ("info digits --split train", "features, splits and sizes are printed"),
    ("materialize digits few", "--to gives the new name, such as --to few;"),
    ("materialize digits --features a b", "features are joined by commas, as in --features A,b"),
    ("new MyBirds", "such as my_birds"),
    ("new my-birds", "such as 'my_birds'"),
    ("build csv --pattern a.csv --name my-birds", "such as 'my_birds'"),
    ("build csv --pattern a.csv --name birds:1.2.0", "such as 'birds'"),
    ("build birds.Birds", "A class stands after a colon: birds:Birds"),
    ("verify digits --quick", "reads more shards at once"),
    ("verify digits --num_workers 2", "--jobs N reads N shards at once"),
    ("list --all", "Use `--versions`"),
    ("list -l", "Use `--versions`"),
    ("materialize digits --limit 10", "Use `--split 'train[:10]'`."),
    ("materialize digits --seed 3", "Use `--reshuffle 3`"),
    ("materialize digits --drop text", "the features to keep"),
    ("materialize digits --overwrite", "a published one never changes"),
    ("materialize digits --rename a=b", "a builder that reads the dataset"),
    ("append digits", "Type `beam-datasets append NAME --from csv --pattern NEW.csv --data_dir DIR`"),
    ("append digits --from csv --pattern a.csv --on_duplicate overwrite", "Use `--on_duplicate replace`."),
    ("append digits --from csv --pattern a.csv --on_duplicate skip", "Use `--on_duplicate keep_old`."),
    ("append digits --from csv --pattern a.csv --upsert", "Use `--on_duplicate replace`."),
    ("append digits --from csv --pattern a.csv --skip_duplicates", "Use `--on_duplicate skip_identical`"),
    ("append digits --delete id=3", "expected a file of keys, one per line"),
    ("append digits --delete_keys 3", "Use `--delete FILE`"),
    ("append digits --bump major", "the smallest number that the change allows"),
    (
        "append digits --runner FlinkRunner --flink_master=a:8081",
        "append runs on this machine, without an engine. `build`",
    ),
    ("append digits --from csv --pattern a.csv --flink_master=a:8081 --runner=FlinkRunner", "append it with --from.\n"),
    ("head digits --runner FlinkRunner", "head runs on this machine, without an engine.\n"),
    ("prune digits", "Type `beam-datasets prune NAME --keep 3 --data_dir DIR`"),
    ("prune digits --older_than 30d", "Use `--keep 3`"),
    ("tag digits:1.0.0", "Type `beam-datasets tag NAME:1.0.0 TAG --data_dir DIR`"),
    ("tag digits:1.0.0 best --delete", "Use `--remove`."),
    ("tag --list", "beam-datasets list --versions"),
    ("gc data --all", "Use `--yes`."),
    ("gc data 1.0.0", "unrecognized arguments: 1.0.0.\nusage"),
    ("gc data --keep 3", "Use `beam-datasets prune NAME --keep 3`."),
    ("publish data", "Type `beam-datasets publish RESULT --version 2.0.0`"),
    ("site data --out web", "Use `--to web`. Type `beam-datasets site DATA_DIR --to DIR`"),
    ("site --data_dir data --to web", "Use `beam-datasets site DATA_DIR --to DIR`."),
    ("new digits --features a=int64", "`_info` of its builder"),
    ("new", "Type `beam-datasets new NAME`"),
    ("doctor --engine FlinkRunner", "Use `beam-datasets doctor --runner FlinkRunner`."),
    ("adopt a.tfrecord --schema s.json", "Use `--features s.json`."),
    ("--verbose build", "Type `beam-datasets COMMAND [options]`"),
    ("--data_dir data list", "expected a command, got '--data_dir'"),
    ("reindex digits", "Use `beam-datasets verify digits --repair`"),
    ("build --config small csv --pattern a.csv", "`beam-datasets build csv --config small --pattern a.csv`"),
    ("build --config small digits", "the dataset comes first: `beam-datasets build digits --config small`"),
    ("build --name jsonl csv --pattern a.csv", "`beam-datasets build csv --name jsonl --pattern a.csv`"),
    ("build --pattern a.csv --name jsonl csv", "`beam-datasets build csv --pattern a.csv --name jsonl`"),
    ("build --name csv --pattern 'a b.csv' csv", "`beam-datasets build csv --name csv --pattern 'a b.csv'`"),
    ("build --config csv jsonl", "`beam-datasets build jsonl --config csv`"),
    ("build --config csv digits", "`beam-datasets build digits --config csv`"),
    ("build --data-dir csv jsonl --pattern a", "`beam-datasets build jsonl --data-dir csv --pattern a`"),
    ("build --data_dir my/digits.py csv", "`beam-datasets build csv --data_dir my/digits.py`"),
    ("build --pattern a.py csv", "`beam-datasets build csv --pattern a.py`"),
    ("build --skip_bad csv --pattern a.csv", "`beam-datasets build csv --skip_bad --pattern a.csv`"),
    ("build --overwrite digits", "`beam-datasets build digits --overwrite`"),
    ("build --name=jsonl csv", "`beam-datasets build csv --name=jsonl`"),
    ("build --yes --name=x mine", "`beam-datasets build mine --yes --name=x`"),
    ("build --name jsonl --pattern a.jsonl", "the dataset comes first: NAME_OR_FILE"),
    ("build --version 2.0.0 my/digits.py:Digits", "`beam-datasets build my/digits.py:Digits --version 2.0.0`"),
    ("build --datasets=mnist,cifar10", "Use `beam-datasets build NAME` for each dataset"),
    ("build csv --pattern a.csv --extract_dir x", "Use `--download_dir x`"),
    ("build csv --pattern a.csv --checksums_dir x", "Use `--register_checksums`"),
    ("build csv --pattern a.csv --try_gcs", "Leave it out: only the builder downloads"),
    ("build csv --pattern a.csv --file_format tfrecord", "Leave it out: shards are TFRecord files"),
    ("build csv --pattern a.csv -y", "Use `--yes`."),
    ("build csv --pattern a.csv --stratify a", "--split test=20%, got none"),
    ("new digits --data_format conll", "Leave it out: each builder has one form"),
    ("new digits --dir here", "Use `--to here`."),
    ("head digits --format json", "Use `--json`."),
    ("head digits --width 80", "Leave it out: long values are cut"),
    ("diff --stat digits digits", "Use `--json`, or no option"),
    ("tag -a v1 -m x", "Use `beam-datasets tag NAME:1.0.0 TAG`."),
    ("explore --share", "Use `--host 0.0.0.0 --token`"),
    ("export digits out --format parquet", "Use `--to out`."),
    ("export digits --to out --format parquet --push_to_hub me/x", "whose files can be uploaded to 'me/x'"),
    ("slices digits train test", "Slices are joined by +, as in 'train[:10%]+test'."),
    ("versions digits", "Use `beam-datasets list --versions`"),
    ("list datasets", "Use `beam-datasets info datasets` for one dataset."),
    ("mv digits numbers", "Use `beam-datasets materialize digits --to numbers --data_dir DIR`"),
    ("add digits a.csv", "Use `beam-datasets append digits --from csv --pattern a.csv`"),
    ("add 'a b.csv'", "Use `beam-datasets append NAME --from csv --pattern 'a b.csv'`"),
    ("stash", "Use `beam-datasets list --versions`"),
    ("HEAD houses", "Did you mean 'head'?"),
    ("LS", "Use `beam-datasets list`."),
    ("list --remote --data_dir data", "Use `--data_dir DIR`, a directory or a URL"),
    ("list --remote s3://b/x", "Use `--data_dir s3://b/x`, a directory or a URL"),
    ("-v", "`beam-datasets --version` prints the version."),
    *(
        (f"build image_folder --{name} X", "Use `--root X`.")
        for name in ("directory", "dir", "input_dir", "path", "files")
    ),
    *(
        (f"plan sound_folder --{name}=X", "Use `--root X`.")
        for name in ("directory", "root_dir", "audio_path", "paths")
    ),
    *(
        (f"build {file_format} --name rows --{name} X", "Use `--pattern X`.")
        for file_format in ("csv", "jsonl", "parquet", "text_lines", "tfrecord")
        for name in ("directory", "dir", "input_dir", "path", "files", "input_path")
    ),
    ("build csv --pattern a.csv --directory out", "Use `--data_dir out`."),
    ("build csv --directory a --data_dir out", "Use `--pattern a`."),
    ("build image_folder --root a --dir=out", "Use `--data_dir out`."),
    ("append digits --from csv --directory X", "Use `--pattern X`."),
    ("append digits --from csv --files X", "Use `--pattern X`."),
    ("append digits --from image_folder --directory X", "Use `--root X`."),
    ("append digits --files X", "Use `--from csv --pattern X`, or jsonl, parquet."),
    ("head digits --directory X", "Use `--data_dir X`."),
]


@pytest.mark.parametrize("guess, expected", GUESSES, ids=[guess for guess, _ in GUESSES])
def test_an_error_says_what_to_type(capsys: pytest.CaptureFixture[str], guess: str, expected: str) -> None:
    assert main(shlex.split(guess)) == 2
    assert expected in capsys.readouterr().err


def test_build_says_that_a_dataset_is_published_whose_builder_is_unknown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data_dir = tmp_path / "my data"
    write_dataset(data_dir / "tits" / "1.0.0", {"train": [3]})
    assert main(["build", "tits", "--data_dir", str(data_dir)]) == 2
    problem = capsys.readouterr().err
    assert f"tits is published in {data_dir}: `beam-datasets info tits --data_dir '{data_dir}'`" in problem
    info_command, append_command = re.findall("`beam-datasets ([^`]+)`", problem)[:2]
    assert main(shlex.split(info_command)) == 0
    assert "train" in capsys.readouterr().out
    source = shlex.quote(str(data_dir / "tits" / "1.0.0"))
    assert main([*shlex.split(append_command.replace("SOURCE", source)), "--on_duplicate", "skip_identical"]) == 0
    assert "Nothing changes" in capsys.readouterr().out
    assert main(["build", "tots", "--data_dir", str(data_dir)]) == 2
    assert "published" not in capsys.readouterr().err


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == main(["help", "build"]) == 0
    assert "usage: beam-datasets build" in capsys.readouterr().out


def test_each_option_of_the_table_is_one_of_a_command() -> None:
    commands = {"build": build.COMMAND, "append": append.COMMAND, "export": EXPORT, "head": head.HEAD}
    commands |= {
        "materialize": materialize.MATERIALIZE,
        "stats": stats.COMMAND,
        "verify": verify.COMMAND,
        "prune": PRUNE,
        "tag": TAG,
        "gc": GC,
        "list": info.LIST,
        "info": info.INFO,
        "site": site.COMMAND,
        "new": new.COMMAND,
        "adopt": adopt.COMMAND,
        "explore": app.COMMAND,
    }
    options = {name: set(command.parser()._option_string_actions) for name, command in commands.items()}
    for file_format in ("csv", "image_folder", "sound_folder"):
        options["build"] |= option_names(file_format)
        options["append"] |= option_names(file_format)
    every = {"--debug", "--quiet", "--runner"}.union(*options.values())
    for text in foreign_names.OPTIONS:
        command, _, _ = text.rpartition(": `--")
        for option in re.findall(r"--\w+", text):
            assert option in options.get(command, every), text


def test_no_command_of_the_table_exists() -> None:
    assert not advice.rows_of(foreign_names.COMMANDS).keys() & COMMANDS.keys()
