"""Advice of errors: every option and command that an error proposes, collected from the source.

The name of an advice is where it is in the source: `files/csv.py:check_names --columns`. A test that follows it has the
decorator `follows`; `FOLLOWED_ELSEWHERE` names the tests of others.
"""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_datasets.cli import main
from beam_datasets.errors import BeamDatasetsError
from tests.files.in_process import advised, publish

PACKAGE = Path(main.__code__.co_filename).parents[1]
KINDS = ("csv", "jsonl", "parquet", "text_lines", "tfrecord", "image_folder", "sound_folder")
PROGRAMS = "iconv|jq|pip|beam-datasets|heif-convert|ffmpeg|mogrify|magick|git|printf|sed"
COMMAND = re.compile(rf"(?<![\w-])(?:{PROGRAMS}) [\w'{{-][^\s,;()]*(?: \S+)?")
QUOTED_COMMAND = re.compile(r"`([a-z][\w-]*) [^`]+`")
OPTION = re.compile(r"(?<![\w-])--[a-z]\w*")

_APPENDED, _LOOKING = "tests/files/test_appending_files.py", "tests/cli/test_looking.py"
_FILES = "tests/files/test_file_builders.py"
_SELECTIONS = "tests/files/test_appending_selections.py"
_APPEND, _TRIAL, _VERIFY = "tests/cli/test_append.py", "tests/cli/test_trial.py", "tests/cli/test_verify.py"
_PROPOSED = "tests/cli/test_printed_names.py::test_what_errors_propose_works"
FOLLOWED_ELSEWHERE = {
    "cli/adopt.py:_split_patterns --split": f"{_APPEND}::test_directory_of_its_own",
    "cli/adopt.py:run --split": f"{_APPEND}::test_directory_of_its_own",
    "cli/append.py:_parse_append --delete": f"{_APPEND}::test_errors",
    "cli/append.py:_parse_append beam-datasets append {}`": _PROPOSED,
    "cli/append.py:_check_slices --splits": _PROPOSED,
    "cli/append.py:_read_keys --delete": _PROPOSED,
    "cli/build.py:_resume_value --resume": "tests/cli/test_options.py::test_values_of_resume",
    "cli/main.py:_run_command beam-datasets COMMAND [options]`": "tests/cli/test_foreign_commands.py",
    "cli/options.py:_hint_on_positional --features": _PROPOSED,
    "cli/options.py:_hint_on_positional --to": "tests/cli/test_foreign_commands.py",
    "cli/verify.py:_check_options --jobs": _PROPOSED,
    "cli/build.py:_plan_of_sources --max_rejected": "tests/end_to_end/test_rejected.py",
    "cli/append.py:_parse_append --from": f"{_APPEND}::test_errors",
    "cli/append.py:_is_published --from": f"{_APPEND}::test_errors",
    "cli/append.py:_create_builder --splits": f"{_APPEND}::test_errors",
    "cli/build.py:_note_on_configs --config": f"{_TRIAL}::test_a_directory_with_a_builder_is_a_dataset",
    "cli/build.py:_confirm_overwrite --yes": f"{_TRIAL}::test_overwrite_asks_on_a_terminal",
    "cli/head.py:_format_reads --json": f"{_LOOKING}::test_of_many_shards_the_first_are_shown",
    "cli/history.py:run_prune --yes": "tests/materializing/test_history.py::test_the_commands",
    "cli/history.py:run_gc --yes": "tests/publishing/test_leftovers.py",
    "cli/info.py:run_list --data_dir": f"{_LOOKING}::test_list_of_an_empty_directory",
    "cli/main.py:_describe_error --debug": "tests/cli/test_main.py::test_debug_raises",
    "cli/materialize.py:_parse_source --source": "tests/cli/test_materialize.py",
    "cli/options.py:_option_of --from": "tests/cli/test_foreign_commands.py",
    "cli/options.py:_option_of --pattern": "tests/cli/test_foreign_commands.py",
    "cli/options.py:_option_of --count": "tests/cli/test_foreign_commands.py",
    "cli/options.py:_option_of beam-datasets info {}`": "tests/cli/test_foreign_commands.py",
    "cli/options.py:check_beam_options --resume": "tests/cli/test_materialize.py",
    "cli/options.py:num_shards --num_shards": "tests/cli/test_options.py::test_no_numbers_of_shards",
    "cli/data_files.py:ways_to_build_folder --name": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/data_files.py:ways_to_build_folder --root": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/data_files.py:ways_to_build_folder beam-datasets build {}": (
        f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says"
    ),
    "cli/data_files.py:way_to_build --name": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/data_files.py:way_to_build --root": f"{_TRIAL}::test_a_folder_of_images_is_built_as_the_error_says",
    "cli/data_files.py:way_to_build beam-datasets build image_folder": "tests/cli/test_resolve.py",
    "cli/data_files.py:way_to_build beam-datasets build sound_folder": "tests/cli/test_resolve.py",
    "cli/data_files.py:way_to_build --help": "tests/cli/test_resolve.py",
    "cli/data_files.py:way_to_build beam-datasets build --help`": "tests/cli/test_resolve.py",
    "cli/resolve.py:builder_file --help": "tests/cli/test_resolve.py",
    "cli/resolve.py:builder_file beam-datasets build --help`": "tests/cli/test_resolve.py",
    "files/csv.py:_text_warnings --feature": "tests/files/test_text_notes.py",
    "files/glob.py:_files_in_store pip install 'apache-beam[{}]'": "tests/files/test_glob.py",
    "files/infer.py:_field --skip_bad": "tests/files/test_infer.py",
    "files/labeled_folder.py:find_labeled_files --feature": "tests/files/test_text_notes.py",
    "files/extension_types.py:note_on_extensions --feature": "tests/files/test_text_notes.py",
    "files/text_notes.py:note_on_missing --feature": "tests/files/test_text_notes.py",
    "files/text_notes.py:note_on_text_columns --feature": "tests/files/test_text_notes.py",
    "cli/explorer/app.py:make_app beam-datasets explore": "tests/cli/test_explore.py",
    "cli/explorer/app.py:run --port": "tests/cli/test_explore.py",
    "cli/explorer/app.py:run beam-datasets explore": "tests/cli/test_explore.py",
    "cli/head.py: --decode": "tests/cli/test_damaged_values.py::test_verify",
    "cli/head.py: beam-datasets verify --decode": "tests/cli/test_damaged_values.py::test_verify",
    "cli/options.py: --num_shards": "tests/cli/test_options.py::test_no_numbers_of_shards",
    "cli/append.py:_check_stray_arguments --from": f"{_APPEND}",
    "cli/options.py:_engine_note --from": "tests/materializing/test_appending.py",
    "cli/options.py:_with_expectation --builder": (
        "tests/cli/test_options.py::test_arguments_with_the_names_of_options_of_the_command"
    ),
    "cli/resolve.py: pip install tensorflow`": "tests/test_tfds_ports.py",
    "cli/stats.py:_save_statistics --no_save": "tests/cli/test_stats.py::test_a_place_that_cannot_be_written",
    "cli/stats.py:lines --imports": f"{_LOOKING}::test_imports_registers_what_a_dataset_needs",
    "cli/verify.py:_check_options --beam": f"{_VERIFY}::test_wrong_usage",
    # options that were given, which are named
    "cli/append.py:_create_builder --split": f"{_APPEND}::test_errors",
    "cli/append.py:_why_not_published --dry_run": f"{_APPEND}",
    "cli/build.py:_try_build --trial": f"{_TRIAL}",
    "cli/build.py:run --overwrite": f"{_TRIAL}",
    "cli/materialize.py:run_export --dry_run": "tests/cli/test_stats.py::test_dry_run_writes_nothing",
    "cli/materialize.py:run_materialize --dry_run": "tests/cli/test_materialize.py",
    "cli/verify.py:repair_lines --dry_run": f"{_VERIFY}",
    "files/builder.py:__init__ --name": "tests/files/test_arguments.py::test_builders_of_files_have_no_configs",
    "files/builder.py:_check_names_that_no_row_has --feature": f"{_FILES}::test_a_feature_whose_name_is_mistyped",
    "files/builder.py:_row_options --key": _APPENDED,
    "files/builder.py:_adopt_row_options --key": _APPENDED,
    "files/late_types.py:describe_late_types --feature": "tests/files/test_late_types.py",
    "files/late_types.py:describe_late_types --union_features": "tests/files/test_late_types.py",
    "files/convert.py:missing_problem --union_features": "tests/files/test_appending_published_types.py",
    "files/published.py:newly_missing_problem --union_features": "tests/files/test_appending_published_types.py",
    "files/split_assignment.py:as_options --split_by": _APPENDED,
    "files/split_assignment.py:as_options --splits": _APPENDED,
    "files/split_assignment.py:check_single_split --split_by": _SELECTIONS,
    "files/split_assignment.py:check_single_split --splits": _SELECTIONS,
    "files/split_assignment.py:as_options --stratify": _APPENDED,
    "files/split_assignment.py:as_options --train_until": _APPENDED,
    "intake/video_layout.py: ffmpeg -i FILE": "tests/features/test_media.py::test_videos_that_are_cut_off",
    # the name of the command itself
    "cli/options.py:parser beam-datasets {}": "tests/cli/test_options.py::test_the_options_of_a_command",
    "cli/options.py:usage_line beam-datasets {} {}": "tests/cli/test_options.py::test_the_options_of_a_command",
    "cli/site.py:_sample beam-datasets site": "tests/cli/test_site.py",
    "cli/site.py:run beam-datasets site": "tests/cli/test_site.py",
}


def follows(*keys):
    """Marks a test as one that follows advice."""
    return lambda test: test


def followed():
    """Returns the advice that tests in this folder follow, as their decorators say."""
    advice = set()
    for path in Path(__file__).parent.glob("test_advice*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "follows":
                advice.update(map(ast.literal_eval, node.args))
    return advice


def text_of(node):
    """Returns a string of the source, with {} for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def strings_of(node, function="") -> Iterator[tuple[str, str]]:
    """Yields (function, string) of the strings in a part of the source, without docstrings and tests of values."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = node.name if isinstance(node, ast.FunctionDef) else function
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("advice", "feature_option"):
        yield function, "--feature"
    if text := text_of(node):
        yield function, text
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from strings_of(child, function)


HELP_AND_TEMPLATES = ("cli/main.py", "cli/new.py")
"""Modules whose constants are no advice: the help of all commands, and the files that `new` writes."""


def problems_of(tree, *, with_constants: bool) -> Iterator[tuple[str, str]]:
    """Yields (function, string) of what a command says; not of the help of options, and not the options themselves.

    Args:
        tree: the source of the command.
        with_constants: whether strings outside of functions are messages.
    """
    for statement in tree.body:
        calls = [getattr(call.func, "id", "") for call in ast.walk(statement) if isinstance(call, ast.Call)]
        if isinstance(statement, ast.Assign | ast.AnnAssign) and {"Command", "Option", "Flag", "Group"} & {*calls}:
            continue
        for function, text in strings_of(statement):
            if (function or with_constants) and not OPTION.fullmatch(text):
                yield function, text


def messages() -> Iterator[tuple[str, str, str]]:
    """Yields (module, function, string) of what errors may say."""
    for folder in ("files", "intake", "cli"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            tree, module = ast.parse(path.read_text()), path.relative_to(PACKAGE).as_posix()
            is_advice = module not in HELP_AND_TEMPLATES
            pairs = problems_of(tree, with_constants=is_advice) if folder == "cli" else strings_of(tree)
            yield from ((module, function, text) for function, text in pairs)


@cache
def collected():
    """Returns {advice: the strings that have it}."""
    found: dict[str, set[str]] = {}
    for module, function, text in messages():
        is_given = module.startswith("cli/")  # `--count is -1`: what a string begins with names what was given
        items = [each[0] for each in OPTION.finditer(text) if each.start() or not is_given]
        for item in [*items, *(each[0] for each in COMMAND.finditer(text))]:
            found.setdefault(f"{module}:{function} {item}", set()).add(text)
    return found


def refused(kind, path, *given):
    """Returns the error of a build."""
    with pytest.raises((BeamDatasetsError, ValueError)) as caught:
        publish(kind, path, *given)
    return str(caught.value)


def rows(kind, path, *given):
    return publish(kind, path, *given).rows


def advises(problem, *given):
    """Checks that an error proposes options, and returns them."""
    pairs = list(zip(given[::2], given[1::2]))
    assert set(pairs) <= set(advised(problem)), problem
    return given


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(folder, *values):
    return write(folder, "in.jsonl", "".join(f"{json.dumps(value)}\n" for value in values))


def parquet(folder, columns, name="in.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name
