"""The manifests of the Flink deployment, which a real API server of Kubernetes accepts.

`make test-kubernetes` builds the server, which takes Go and minutes once; elsewhere the tests that use it are skipped.
"""

import contextlib
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.engines.jobs import ROOT
from tests.servers import free_port, served

MANIFESTS = ROOT / "templates" / "flink" / "kubernetes"
OPERATOR = "org.apache.flink:flink-kubernetes-operator-api:1.10.0"
TOKEN = "a-token-of-the-tests"
DEPLOYMENTS = "/apis/flink.apache.org/v1beta1/namespaces/default/flinkdeployments"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"

pytestmark = pytest.mark.slow


class ApiServer(NamedTuple):
    """A running API server."""

    port: int

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Returns the status and the JSON of an answer; a body is posted."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, headers)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def dry_run(self, path: str, manifest: Any) -> tuple[int, Any]:
        """Returns what the server answers to a manifest, of which it keeps nothing; unknown fields are errors."""
        return self.ask(f"{path}?dryRun=All&fieldValidation=Strict", manifest)

    def wait(self, path: str, seconds: float = 60) -> None:
        """Waits until the server has what is at a path."""
        deadline, found = time.monotonic() + seconds, (0, None)
        while found[0] != 200:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
            with contextlib.suppress(OSError, ValueError):
                found = self.ask(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server that knows the resources of the Flink operator."""
    if "BEAM_DATASETS_APISERVER" not in os.environ:
        pytest.skip("make test-kubernetes builds the API server")
    folder = tmp_path_factory.mktemp("kubernetes")
    (folder / "tokens.csv").write_text(f"{TOKEN},tests,tests,system:masters\n")
    key = folder / "service-accounts.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    port = free_port()
    command = [
        os.environ["BEAM_DATASETS_APISERVER"],
        str(folder),
        str(free_port()),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the account of pods
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
    ]
    with served(command, port, folder / "server.log", cwd=folder):
        running = ApiServer(port)
        running.wait("/api/v1/namespaces/default")
        resources = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, answer = running.ask(resources, definition(folder))
        assert status == 201, answer
        running.wait(DEPLOYMENTS)
        yield running


def definition(folder: Path) -> Any:
    """Returns the definition of a FlinkDeployment, out of the operator's own package."""
    copy = [
        "mvn",
        "--quiet",
        "--batch-mode",
        "dependency:copy",
        f"-Dartifact={OPERATOR}",
        f"-DoutputDirectory={folder}",
    ]
    subprocess.run(copy, check=True, cwd=folder)
    [package] = folder.glob("*.jar")
    with zipfile.ZipFile(package) as jar:
        return yaml.safe_load(jar.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))


def manifest(name: str) -> Any:
    return yaml.safe_load((MANIFESTS / name).read_text())


def test_the_deployment_is_accepted(server: ApiServer) -> None:
    deployment = manifest("flink-deployment.yaml")
    status, answer = server.dry_run(DEPLOYMENTS, deployment)
    assert status == 201, answer
    assert answer["spec"]["flinkConfiguration"] == deployment["spec"]["flinkConfiguration"]
    [pool] = answer["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"]
    assert pool["restartPolicy"] == "Always"
    deployment["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"][0]["comand"] = []
    status, answer = server.dry_run(DEPLOYMENTS, deployment)
    assert status == 400
    assert 'unknown field "spec.taskManager.podTemplate.spec.initContainers[0].comand"' in answer["message"]


def test_the_pod_of_a_task_manager_is_accepted(server: ApiServer) -> None:
    """The operator makes a pod of the template; the definition of a FlinkDeployment does not check what pods allow."""
    pod = manifest("flink-deployment.yaml")["spec"]["taskManager"]["podTemplate"]
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taskmanager"}}
    pod["spec"]["containers"][0]["image"] = "flink"  # as the operator adds it
    status, answer = server.dry_run(PODS, pod)
    assert status == 201, answer
    del pod["spec"]["initContainers"][0]["restartPolicy"]  # then it has to end before the TaskManager starts
    status, answer = server.dry_run(PODS, pod)
    assert status == 422
    assert "startupProbe" in answer["message"]


def test_the_job_is_accepted(server: ApiServer) -> None:
    job = manifest("generate-job.yaml")
    status, answer = server.dry_run(JOBS, job)
    assert status == 201, answer
    assert answer["spec"]["template"]["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    job["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    status, answer = server.dry_run(JOBS, job)
    assert status == 422
    assert "spec.template.spec.restartPolicy" in answer["message"]


def test_the_network_policy_is_accepted(server: ApiServer) -> None:
    status, answer = server.dry_run(POLICIES, manifest("network-policy.yaml"))
    assert status == 201, answer
    assert answer["spec"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in answer["spec"]  # a rule would allow connections


def test_the_network_policy_fits_the_job() -> None:
    labels = manifest("generate-job.yaml")["spec"]["template"]["metadata"]["labels"]
    assert manifest("network-policy.yaml")["spec"]["podSelector"]["matchLabels"] == labels


def test_the_launcher_fits_the_deployment() -> None:
    deployment, job = manifest("flink-deployment.yaml"), manifest("generate-job.yaml")
    pod = job["spec"]["template"]["spec"]
    [server], [launcher] = pod["initContainers"], pod["containers"]
    options = dict(part.removeprefix("--").split("=") for part in launcher["command"] if "=" in part)
    [workers] = deployment["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"]
    assert options["environment_config"] == f"localhost:{workers['command'][-1]}"
    assert options["flink_master"] == f"{deployment['metadata']['name']}-rest:8081"
    assert f"--flink-master={options['flink_master']}" in server["command"]
    assert f"--job-port={options['job_endpoint'].rpartition(':')[2]}" in server["command"]
    assert options["flink_version"] == deployment["spec"]["flinkVersion"][1:].replace("_", ".")
    slots = int(deployment["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert int(options["sdk_worker_parallelism"]) == slots
    assert int(options["parallelism"]) == slots * deployment["spec"]["taskManager"]["replicas"]
    assert workers["volumeMounts"] == launcher["volumeMounts"]
    assert server["startupProbe"]["tcpSocket"]["port"] == int(options["job_endpoint"].rpartition(":")[2])


def test_the_probe_of_the_pool(tmp_path: Path) -> None:
    """It fails until the pool of the manifest listens."""
    [workers] = manifest("flink-deployment.yaml")["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"]
    port = free_port()

    def here(command: list[str]) -> list[str]:
        """Returns a command of the container as it runs on this machine."""
        return [sys.executable, *(word.replace("50000", str(port)) for word in command[1:])]

    probe = here(workers["startupProbe"]["exec"]["command"])
    assert subprocess.run(probe, capture_output=True, check=False).returncode
    with served(here(workers["command"]), port, tmp_path / "pool.log", cwd=ROOT):
        assert not subprocess.run(probe, capture_output=True, check=False).returncode
