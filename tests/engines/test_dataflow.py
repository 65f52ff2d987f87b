"""The Flex Templates without a cloud: metadata, launching a job, and the submitted job."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from beam_datasets import storage
from beam_datasets.cli import build, materialize, verify
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.dataflow_service import STAGING, Cloud

pytest.importorskip("google.cloud.dataflow_v1beta3")
pytest.importorskip("gcp_storage_emulator")
ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates" / "dataflow"
NAMES = ("generate", "materialize", "verify")
COMMANDS = {"generate": build.COMMAND, "materialize": materialize.MATERIALIZE, "verify": verify.COMMAND}
IMAGE = "europe-docker.pkg.dev/my-project/beam-datasets/generate:0.1.0"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"dataflow_{name}", TEMPLATES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parameters(name: str) -> dict[str, dict[str, Any]]:
    metadata = json.loads((TEMPLATES / "metadata" / f"{name}.json").read_text())
    return {each["name"]: each for each in metadata["parameters"]}


@pytest.mark.filterwarnings("ignore")  # of Google's libraries, about versions of Python
@pytest.mark.parametrize("name", NAMES)
def test_the_client_of_dataflow_takes_the_spec(name: str) -> None:
    from google.cloud.dataflow_v1beta3 import ContainerSpec, ParameterType, SDKInfo
    from google.protobuf.json_format import ParseError

    printed = subprocess.run(
        [sys.executable, TEMPLATES / "spec.py", name, "--image", IMAGE], capture_output=True, check=True
    )
    spec = ContainerSpec.from_json(printed.stdout)
    assert spec.image == spec.default_environment.sdk_container_image == IMAGE
    assert spec.sdk_info.language == SDKInfo.Language.PYTHON
    for each in spec.metadata.parameters:
        assert each.label
        assert each.help_text
        assert each.group_name
        assert (each.param_type == ParameterType.ENUM) == bool(each.enum_options)
    broken = json.loads(printed.stdout)
    broken["metadata"]["parameters"][0]["helptext"] = "?"
    with pytest.raises(ParseError, match="helptext"):
        ContainerSpec.from_json(json.dumps(broken))


@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_an_option_of_the_program(name: str) -> None:
    known = {word.lstrip("-"): action for action in COMMANDS[name].parser()._actions for word in action.option_strings}
    documented = parameters(name)
    assert documented.keys() - {"dataset", "options"} <= known.keys()
    assert {word for word, action in known.items() if action.required} <= documented.keys()
    required = {word for word, parameter in documented.items() if not parameter["isOptional"]}
    assert required == {"dataset", "report"} if name == "verify" else required == {"dataset", "data_dir"}
    for word, parameter in documented.items():
        if word in known and known[word].nargs == 0:
            assert parameter["paramType"] == "BOOLEAN"
        if word in known and known[word].choices:
            choices = ["true" if choice is True else choice for choice in known[word].choices]
            assert [option["value"] for option in parameter["enumOptions"]] == choices
        for regex in parameter.get("regexes", ()):
            assert re.fullmatch(regex, parameter.get("defaultValue", "")) or "defaultValue" not in parameter


def readme_runs() -> list[tuple[str, dict[str, str]]]:
    """Returns (template, parameters) of each `flex-template run` in the README."""
    text = (TEMPLATES / "README.md").read_text().replace("\\\n", " ")
    runs = []
    for line in re.findall(r"^gcloud dataflow flex-template run .*$", text, re.MULTILINE):
        words = shlex.split(line.replace("$BUCKET", "my-bucket"))
        given = [words[place + 1] for place, word in enumerate(words) if word == "--parameters"]
        template = re.search(r"templates/(\w+)\.json", line)
        assert template is not None
        runs.append((template[1], dict(each.split("=", 1) for each in given)))
    return runs


def test_the_parameters_of_the_readme_are_accepted() -> None:
    runs = readme_runs()
    assert {name for name, _ in runs} == set(NAMES)
    for name, given in runs:
        documented = parameters(name)
        assert given.keys() <= documented.keys()
        assert {word for word, parameter in documented.items() if not parameter["isOptional"]} <= given.keys()
        for word, value in given.items():
            assert all(re.fullmatch(regex, value) for regex in documented[word].get("regexes", ())), (word, value)


@pytest.mark.parametrize(
    "word, value",
    [("data_dir", "/home/me"), ("dataset", "my_dataset.py"), ("num_shards", "many"), ("max_shard_size", "large")],
)
def test_what_patterns_refuse(word: str, value: str) -> None:
    assert not any(re.fullmatch(regex, value) for regex in parameters("generate")[word]["regexes"])


def test_parameters_become_arguments() -> None:
    given = [
        "--dataset=csv", "--options=--pattern 'gs://b/a b/*.csv' --key id", "--num_shards=train=4; test=1",
        "--ignore_duplicates=true", "--skip_published=false", "--check_against=", "--resume=true", "--num_workers=3",
        "--labels={}",
    ]  # fmt: skip
    assert [*load("launch").arguments(given, parameters("generate"))] == [
        "--dataset=csv", "--pattern", "gs://b/a b/*.csv", "--key", "id", "--num_shards=train=4", "--num_shards=test=1",
        "--ignore_duplicates", "--resume", "--no_wait", "--", "--runner=DataflowRunner", "--num_workers=3",
        "--labels={}",
    ]  # fmt: skip


def launch(dataflow: Cloud, name: str, *given: str, **options: str | None) -> subprocess.CompletedProcess[str]:
    """Starts a template's program as its launcher does."""
    flex = {
        "runner": "DataflowRunner",
        "project": "my-project",
        "region": "europe-west1",
        "job_name": f"{name}-1",
        "temp_location": f"gs://{STAGING}/temp",
        "staging_location": f"gs://{STAGING}/staging",
        "sdk_container_image": IMAGE,
        "num_workers": "3",
        "dataflow_endpoint": f"http://localhost:{dataflow.dataflow}",
    } | options
    words = [*given, "--no_auth", *(f"--{word}={value}" for word, value in flex.items() if value is not None)]
    with tempfile.TemporaryDirectory() as image:  # as the Dockerfile makes it
        shutil.copytree(TEMPLATES / "metadata", Path(image, "metadata"))
        program = shutil.copyfile(TEMPLATES / "launch.py", Path(image, f"{name}.py"))
        return subprocess.run(
            [sys.executable, program, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, **dataflow.env},
            check=False,
            timeout=120,
        )


def submitted(dataflow: Cloud) -> tuple[dict[str, Any], beam_runner_api_pb2.Pipeline]:
    """Returns the job that was submitted last, and its graph."""
    path, job = dataflow.jobs[-1]
    assert path == "/v1b3/projects/my-project/locations/europe-west1/jobs"
    graph = dataflow.staged(job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"])
    assert len(json.dumps(job)) + len(graph) < 20_000_000
    pool = job["environment"]["workerPools"][0]
    assert pool["numWorkers"] == 3
    assert [image["containerImage"] for image in pool["sdkHarnessContainerImages"]] == [IMAGE]
    assert [package["name"] for package in pool["packages"]] == ["submission_environment_dependencies.txt"]
    return job, beam_runner_api_pb2.Pipeline.FromString(graph)


def key_coders(graph: beam_runner_api_pb2.Pipeline) -> Mapping[str, str]:
    """Returns {name of a GroupByKey: URNs of the coder of its keys, from outside in}."""
    coders = graph.components.coders

    def urns(identity: str) -> str:
        parts = [urns(each) for each in coders[identity].component_coder_ids]
        return coders[identity].spec.urn + (f"({', '.join(parts)})" if parts else "")

    found = {}
    for transform in graph.components.transforms.values():
        if transform.spec.urn == "beam:transform:group_by_key:v1":
            (source,) = transform.inputs.values()
            pair = coders[graph.components.pcollections[source].coder_id]
            found[transform.unique_name] = urns(pair.component_coder_ids[0])
    return found


def stages(graph: beam_runner_api_pb2.Pipeline) -> set[str]:
    return {part for each in graph.components.transforms.values() for part in each.unique_name.split("/")}


@pytest.mark.slow
def test_generate_is_launched_and_left(dataflow: Cloud) -> None:
    done = launch(
        dataflow,
        "generate",
        "--dataset=digits",
        f"--data_dir={dataflow.data}/generated",
        "--num_shards=train=4;test=2",
        "--ignore_duplicates=true",
    )
    assert done.returncode == 0, done.stderr
    assert f"will publish in {dataflow.data}/generated/digits/1.0.0" in done.stdout
    assert done.stderr.startswith("DataflowRunner: job job-1, https://console.cloud.google.com")
    job, graph = submitted(dataflow)
    assert job["name"] == "generate-1"
    assert stages(graph) >= {"Encode train", "Encode test", "Plan", "Route", "GroupByShard", "Write", "Join", "Publish"}
    coders = key_coders(graph)
    assert any("GroupByShard" in name for name in coders)
    assert all("pickle" not in urn and "fast_primitives" not in urn for urn in coders.values()), coders
    staging, records = storage.list_dir(f"{dataflow.data}/generated/digits")  # stay, for the job
    assert staging.startswith("incomplete.")
    assert records == "incomplete.runs.1.0.0"


@pytest.mark.slow
def test_names_of_files_take_little_space_in_the_graph(dataflow: Cloud) -> None:
    for number in range(200):
        dataflow.stage(f"rows/{number:05d}-{'long' * 50}.jsonl", b'{"id": %d, "text": "x"}\n' % number)
    options = f"--options=--pattern gs://{STAGING}/rows/*.jsonl --key id"
    done = launch(dataflow, "generate", "--dataset=jsonl", f"--data_dir={dataflow.data}/rows", options)
    assert done.returncode == 0, done.stderr
    _, graph = submitted(dataflow)
    content = graph.SerializeToString()
    assert b"00150-long" not in content
    assert len(content) < 130_000  # the names alone have 43,000 bytes, and would be there twice


@pytest.mark.slow
@pytest.mark.parametrize("reshuffle", [[], ["--reshuffle=pepper"]], ids=["copy", "reshuffle"])
def test_materialize_and_verify_are_launched(dataflow: Cloud, reshuffle: list[str]) -> None:
    data = f"{dataflow.data}/{'salted' if reshuffle else 'kept'}"
    Numbers(data_dir=data, count=500).build(num_shards=2, num_workers=1)
    split = "--split=train=train[:80%]; rest=train[80%:]+test"
    done = launch(dataflow, "materialize", "--dataset=numbers", f"--data_dir={data}", split, "--to=few", *reshuffle)
    assert done.returncode == 0, done.stderr
    _, graph = submitted(dataflow)
    wanted = {"GroupByShard", "Route", "Write", "Publish"} if reshuffle else {"Copy", "Publish"}
    assert stages(graph) >= wanted
    done = launch(dataflow, "verify", "--dataset=numbers", f"--data_dir={data}", f"--report={data}/report.json")
    assert done.returncode == 0, done.stderr
    assert f"report will be {data}/report.json" in done.stdout
    _, graph = submitted(dataflow)
    assert stages(graph) >= {"Verify", "Conclude", "Save"}


@pytest.mark.slow
def test_a_job_written_to_a_file_is_not_waited_for(dataflow: Cloud) -> None:
    """The launcher of a Flex Template has the program write the job to such a file, and starts it from there."""
    template = f"gs://{STAGING}/jobs/job_object"
    count = len(dataflow.jobs)
    arguments = ["--dataset=digits", f"--data_dir={dataflow.data}/written"]
    done = launch(dataflow, "generate", *arguments, template_location=template)
    assert done.returncode == 0, done.stderr
    assert len(dataflow.jobs) == count
    assert json.loads(dataflow.staged(template))["name"] == "generate-1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, options, said",
    [
        (
            ["--dataset=digits", "--data_dir=/home/me"],
            {},
            "data_dir is '/home/me/.*cannot see. Give one in a bucket: gs://",
        ),
        (["--dataset=digits", "--data_dir={data}"], {"temp_location": None, "staging_location": None}, "--temp_locat"),
        (["--dataset=digits", "--data_dir={data}"], {"temp_location": "/tmp"}, "temp_location is '/tmp'.*gs://"),
        (["--dataset=digits", "--data_dir={data}"], {"region": None}, "needs --region"),
        (["--dataset=nothing", "--data_dir={data}"], {}, "unknown dataset 'nothing'"),
        (["--dataset=digits", "--data_dir={data}"], {"template_location": "gs://b/digits"}, "Use a Flex Template"),
    ],
    ids=["data_dir", "temp_location", "local temp_location", "region", "dataset", "template"],
)
def test_what_is_refused_before_a_job(
    dataflow: Cloud, arguments: list[str], options: dict[str, str | None], said: str
) -> None:
    count = len(dataflow.jobs)
    data = f"{dataflow.data}/refused"
    done = launch(dataflow, "generate", *(argument.format(data=data) for argument in arguments), **options)
    assert done.returncode in (1, 2)
    assert re.search(said, done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.stderr
    assert len(dataflow.jobs) == count
    assert not storage.exists(data)


@pytest.mark.slow
def test_a_job_that_the_service_refuses(dataflow: Cloud) -> None:
    """One message with the service's reason; the version is not reserved, so that the next launch can publish it."""
    data = f"{dataflow.data}/denied"
    dataflow.states[:] = [403]
    try:
        done = launch(dataflow, "generate", "--dataset=digits", f"--data_dir={data}")
    finally:
        dataflow.states[:] = ["DONE"]
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    [message] = [line for line in done.stderr.splitlines() if line.startswith("beam-datasets: ")]
    assert "403" in message
    assert message.endswith("the caller may not")
    assert storage.list_dir(f"{data}/digits") == ["incomplete.runs.1.0.0"]  # which says that the run was given up
    again = launch(dataflow, "generate", "--dataset=digits", f"--data_dir={data}")
    assert again.returncode == 0, again.stderr
