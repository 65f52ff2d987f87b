"""The command as a user types it: exit codes, and what it prints."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import beam_datasets
from beam_datasets.cli import main
from beam_datasets.cli.main import COMMANDS
from beam_datasets.errors import DatasetNotFoundError

SOURCE = """
import beam_datasets as bd

class Small(bd.DatasetBuilder, skip_registration=True):
    '''Small.

    Args:
        fail_at: the number that fails.
    '''
    VERSION = "1.2.3"

    def __init__(self, *, fail_at: int = -1, **common):
        self._fail_at = fail_at
        super().__init__(**common)

    def _info(self):
        return bd.DatasetInfo(
            builder=self, description="A few numbers.",
            features=bd.features.FeaturesDict({"n": bd.features.Scalar("int64"), "t": bd.features.Text()}),
        )

    def _split_generators(self):
        return {"train": self._numbers(20), "test": self._numbers(5)}

    def _numbers(self, count):
        for n in range(count):
            if n == self._fail_at:
                raise RuntimeError(f"number {n} is broken")
            yield n, {"n": n, "t": "x" * n}
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "bd_test_small.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.delitem(sys.modules, "bd_test_small", raising=False)


def test_build_and_again(small, tmp_path, run):
    data = ["--data_dir", str(tmp_path / "data")]
    code, out, _ = run("build", small, *data, "--dry_run", "--num_workers", "1")
    assert code == 0
    assert "small:1.2.3" in out
    assert re.search(r"split +examples +shards +size\ntrain .*\ntest ", out)
    assert not (tmp_path / "data").exists()

    code, out, _ = run("build", small, *data, "--num-workers=1", "--num_shards", "train=4", "--num_shards", "test=1")
    assert code == 0
    table = [line.split()[:3] for line in out.splitlines() if line.startswith(("train", "test", "all"))]
    assert table == [["train", "20", "4"], ["test", "5", "1"], ["all", "25", "5"]]
    assert f"Published in {tmp_path}/data/small/1.2.3" in out

    code, _, err = run("build", small, *data, "--num_workers", "1")
    assert code == 1
    assert "is already published" in err
    code, out, _ = run("build", small, *data, "--skip_published")
    assert (code, "published already" in out) == (0, True)


def test_ctrl_c_says_that_the_version_is_published(small, tmp_path, run, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("beam_datasets.cli.build.splits_table", pressed)
    code, _, err = run("build", small, "--data_dir", str(tmp_path / "data"), "--num_workers", "1")
    assert (code, err.splitlines()[-1]) == (130, f"interrupted; {tmp_path}/data/small/1.2.3 is published")


def test_errors_are_one_message(small, tmp_path, run):
    data = ["--data_dir", str(tmp_path / "data")]
    code, _, err = run("build", small, *data, "--num_workers", "1", "--fail_at", "3")
    assert code == 1
    assert "number 3 is broken" in err
    assert "bd_test_small.py" in err
    assert "Traceback" not in err
    assert not (tmp_path / "data" / "small" / "1.2.3").exists()
    code, out, err = run("build", small, *data, "--num_shards", "trian=3")
    assert (code, len(out.splitlines())) == (2, 1)
    assert "Did you mean 'train'" in err


@pytest.mark.parametrize(
    "args, problem",
    [
        ([], "usage"),
        (["frob"], "unknown command 'frob'; expected build, plan, new, "),
        (["bild", "digits"], "unknown command 'bild'; .* Did you mean 'build'"),
        (["build"], "NAME_OR_FILE"),
        (["build", "--data_dir", "x"], "the dataset comes first"),
        (["build", "digits", "--num_shards", "x"], "--num_shards is 'x'"),
        (["build", "digits", "--min_shard_size", "x"], "'x' is not a size"),
        (["build", "digits", "--num_shard", "4"], "unknown option --num_shard: .* Did you mean '--num_shards'"),
        (["build", "digits", "--payload", "x"], "--payload: expected one of .*inline.*spilled.*, got 'x'"),
        (["build", "digits:9.9.9"], "9.9.9"),
        (["build", "csv"], "Csv: no input"),
        (["build", "csv", "--pattern", "x", "--split", "a=b"], "with a pattern for all splits"),
        (["build", "csv", "--pattern", "x", "--feature", "a=int65"], "'int65' is not a type of a feature"),
        (["build", "csv", "--pattern", "x", "--encoding", "utf-99"], "Csv: encoding 'utf-99' is unknown"),
        (["build", "csv", "--pattern", "x", "--delimiter", ";;"], "Csv: delimiter is ';;'"),
        (["build", "jsonl", "--pattern", "x", "--encoding", "utf-16"], "lines cannot be cut in 'utf-16'"),
        (["build", "csv", "--pattern", __file__, "--feature", "zz=bool"], "Csv: feature 'zz' is not in the files"),
        (["build", "csv", "--pattern", "none*"], "no file matches .*none"),
        (["build", "digits", "--num_workers", "-1"], "num_workers is -1"),
        (["build", "digits", "--max_examples_per_split", "0"], "max_examples_per_split is 0; give at least 1"),
        (["build", "image_folder"], "required: --root"),
        (["info"], "NAME_OR_DIR"),
    ],
)
def test_wrong_usage(args, problem, tmp_path, run):
    code, out, err = run(*args)
    assert code in (1, 2)
    assert re.search(problem, err + out)
    assert "Traceback" not in err


def test_debug_raises(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        main(["info", "nothing", "--data_dir", str(tmp_path), "--debug"])


@pytest.mark.parametrize("fault", ["DatasetNotFoundError(url)", "ValueError('cannot open ' + url)"])
def test_debug_shows_no_password_of_a_url(tmp_path, fault):
    """Not even of errors that the author's code raises."""
    (tmp_path / "module_of_a_user.py").write_text(
        "from beam_datasets.errors import DatasetNotFoundError\n"
        "url = 'http://me:very-' + 'secret@host/x'\n"
        f"raise {fault}\n"
    )
    command = [sys.executable, "-m", "beam_datasets.cli", "--imports", "module_of_a_user.py", "list", "--debug"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "***@host/x" in done.stderr
    assert "very-secret" not in done.stderr


@pytest.mark.slow
def test_worker_processes_find_the_file(small, tmp_path):
    command = [sys.executable, "-m", "beam_datasets.cli", "build", small, "--data_dir", "data", "--num_workers=2"]
    done = subprocess.run([*command, "--quiet"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "Published" in done.stdout
    assert "FeaturesDict" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "source, said, line",
    [
        ("import bd_test_nothing", "ModuleNotFoundError: No module named 'bd_test_nothing'", 1),
        ("from apache_beam import NoSuch", "ImportError: cannot import name 'NoSuch'", 1),
        ("import apache_beam.no_such", "ModuleNotFoundError: No module named 'apache_beam.no_such'", 1),
        ("class X(:", "SyntaxError: invalid syntax", 1),
        (SOURCE.replace("return bd.DatasetInfo", "return 1 / 0, bd.DatasetInfo"), "ZeroDivisionError: division", 17),
        (SOURCE.replace("self._numbers(20)", "open('bd_test_nothing')"), "FileNotFoundError: .*bd_test_nothing", 23),
    ],
)
def test_an_error_of_the_author_is_one_message_that_names_the_place(source, said, line, tmp_path, run):
    path = tmp_path / f"bd_test_author_{line}_{len(source)}.py"
    path.write_text(source)
    code, _, err = run("build", str(path), "--data_dir", str(tmp_path / "data"), "--num_workers", "1")
    assert code == 1
    assert re.search(said, err)
    assert f"{path}:{line}" in err
    assert "Traceback" not in err


ENDS = {
    "sys.exit(1)": "SystemExit: 1",
    "sys.exit(0)": "SystemExit: 0",
    "sys.exit('no credentials')": "SystemExit: no credentials",
    "raise BrokenPipeError('of a server')": "BrokenPipeError: of a server",
}
"""Statement -> what the command says of it."""


@pytest.mark.parametrize(
    ("place", "statement"),
    [
        ("VERSION = ", "sys.exit(0)"),
        *(pytest.param("VERSION = ", end, marks=pytest.mark.slow) for end in ENDS if end != "sys.exit(0)"),
        *(pytest.param(place, "sys.exit(0)", marks=pytest.mark.slow) for place in ("return {", "for n in")),
    ],
)
def test_code_that_ends_the_process_is_an_error(place, statement, small, tmp_path, run):
    """At the import, in the methods of the builder, and in the generator that `--trial` runs in this process."""
    line = next(line for line in SOURCE.splitlines() if line.lstrip().startswith(place))
    indentation = line[: len(line) - len(line.lstrip())]
    changed = SOURCE.replace(line, f"{indentation}{statement}\n{line}")
    Path(small).write_text(f"import sys\n{changed}")
    code, _, err = run("build", small, "--data_dir", tmp_path / "data", "--trial", "3")
    assert (code, ENDS[statement] in err, f"{small}:" in err) == (1, True, True), err


def test_version(run):
    code, out, _ = run("--version")
    assert (code, out) == (0, f"beam_datasets {beam_datasets.__version__}\n")


@pytest.mark.parametrize("arguments", ["info x", "list", "stats x", "verify x", "build digits", "materialize x"])
def test_an_empty_directory_is_an_error_of_usage(run, arguments):
    code, _, err = run(*arguments.split(), "--data_dir", "")
    assert code == 2
    assert "--data_dir is empty" in err


@pytest.mark.parametrize("options", [["--num_shards", "foo=3"], ["--num_shards", "0"], ["--min_shard_size", "0"]])
def test_shards_that_cannot_be_are_an_error_of_a_dry_run_too(small, tmp_path, run, options):
    errors = []
    for how in ([], ["--dry_run"]):
        code, _, err = run("build", small, "--data_dir", str(tmp_path), "--num_workers", "1", *options, *how)
        assert code == 2
        errors.append(err)
    assert errors[0] == errors[1]


HEAVY = {"numpy", "google", "crc32c", "apache_beam", "pyarrow", "PIL", "imagecodecs", "tqdm"}


def modules_after(*arguments):
    """Returns the modules that a command loads in a new interpreter."""
    code = (
        "import sys\nfrom beam_datasets.cli import main\n"
        f"code = main({list(arguments)!r})\nprint('\\n', *sys.modules, code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    *modules, exit_code = done.stderr.split()
    assert exit_code == "0"
    return set(modules)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_command(option):
    """`--version` and `--help` import no command, no NumPy, no protobuf and no Beam."""
    loaded = modules_after(option)
    assert not HEAVY & {name.partition(".")[0] for name in loaded}
    assert not {f"beam_datasets.cli.{module}" for module, _ in COMMANDS.values()} & loaded


SHARED = {name: {"build"} for name in ("append", "export", "materialize")} | {
    "explore": {"info"},
    "site": {"diff", "info"},
}
"""Command -> modules of other commands whose functions it calls."""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_other_command(command):
    """The help of a command imports its module, and of others only what it calls, but not Beam."""
    loaded = modules_after(command, "--help")
    own = {COMMANDS[command][0], *SHARED.get(command, ())}
    assert {module for module, _ in COMMANDS.values() if f"beam_datasets.cli.{module}" in loaded} == own
    assert not {"apache_beam", "pyarrow", "PIL"} & loaded


@pytest.mark.parametrize(
    "file, module, is_shown",
    [
        ("/p/apache_beam/runners/portability/portable_runner.py", "grpc._channel", False),
        ("/p/apache_beam/runners/dataflow/dataflow_runner.py", "google.api_core.exceptions", False),
        ("/home/me/dataset.py", "grpc._channel", True),
        ("/home/me/dataset.py", "google.protobuf.message", True),
        ("/p/apache_beam/runners/portability/portable_runner.py", "builtins", True),
    ],
)
def test_errors_of_threads(monkeypatch, capsys, file, module, is_shown):
    """Those of lost connections in threads of Beam alone are left out, as the command reports them itself."""
    names = {"Lost": type("Lost", (Exception,), {"__module__": module})}
    exec(compile("def run(): raise Lost('no answer')", file, "exec"), names)

    def command(args):
        thread = threading.Thread(target=names["run"])
        thread.start()
        thread.join()
        return 0

    monkeypatch.setattr(sys.modules["beam_datasets.cli.main"], "_run_command", command)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    assert main(["list"]) == 0
    assert ("Lost: no answer" in capsys.readouterr().err) == is_shown


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(tmp_path, closed):
    """The files of the run must not get their numbers, under which workers print."""
    rows = "".join(f'{{"id": {n}}}\n' for n in range(100))
    (tmp_path / "rows.jsonl").write_text(rows)
    code = "import sys; from beam_datasets.cli import main; sys.exit(main())"
    words = f"build jsonl --name rows --pattern rows.jsonl --key id --data_dir {tmp_path} --num_workers 2"
    command = f'exec "$0" -c "$1" {words} {closed}'
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, code], cwd=tmp_path, env=env, timeout=300, check=False
    )
    assert done.returncode == 0
    assert not beam_datasets.verify(tmp_path / "rows" / "1.0.0").findings
    numbers = [int(example["id"]) for example in beam_datasets.load("rows", split="train", data_dir=tmp_path)]
    assert sorted(numbers) == list(range(100))
