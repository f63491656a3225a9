"""The manifests: valid by Kubernetes's own definitions, and consistent with each other."""

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from emmichel import EmMichelTrack, infer, save_onnx
from service import EMMICHEL, Triton, triton_python
from service.triton_models import OPTIONS
from sonic import Sonic

FOLDER = Path(__file__).parent
MANIFESTS = {
    one["kind"]: one for one in yaml.safe_load_all((FOLDER / "triton.yaml").read_text())
}
SCHEMAS = json.loads((FOLDER / "schemas_1_31.json").read_text())


POD = {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
META = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
SCHEMAS["kinds"]["Pod"] = {"properties": {"spec": POD, "metadata": META}}
CONFIG = (FOLDER / "model_repository/emmichel/config.pbtxt").read_text()


def validate(manifest):
    rules = SCHEMAS["kinds"][manifest["kind"]] | {"definitions": SCHEMAS["definitions"]}
    jsonschema.Draft202012Validator(rules).validate(manifest)


@pytest.mark.parametrize("kind", sorted(MANIFESTS))
def test_a_manifest_is_valid_by_its_schema(kind):
    validate(MANIFESTS[kind])


def test_an_unknown_field_and_a_wrong_type_are_found():
    for change in ({"replica": 1}, {"template": "triton"}):
        broken = MANIFESTS["Deployment"] | {"spec": MANIFESTS["Deployment"]["spec"] | change}
        with pytest.raises(jsonschema.ValidationError):
            validate(broken)


def test_selectors_ports_and_names_fit_together():
    pod = MANIFESTS["Deployment"]["spec"]["template"]
    assert MANIFESTS["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    container = pod["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {p["targetPort"]: p["port"] for p in MANIFESTS["Service"]["spec"]["ports"]} == ports
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["relabel_configs"][0]["regex"] in ports
    rule = MANIFESTS["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert (
        rule["name"] == MANIFESTS["Service"]["metadata"]["name"]
        and rule["port"]["name"] in ports
    )
    target = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == MANIFESTS["Deployment"]["metadata"]["name"]
    claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == MANIFESTS["PersistentVolumeClaim"]["metadata"]["name"]


def test_the_claim_is_filled_and_a_server_is_ready_when_it_has_its_model():
    fills, pod = MANIFESTS["Pod"]["spec"], MANIFESTS["Deployment"]["spec"]["template"]["spec"]
    for one in (fills, pod):
        assert one["volumes"][0]["persistentVolumeClaim"]["claimName"] == "models"
    assert "/models/emmichel/" in fills["containers"][0]["command"][2]
    [server] = pod["containers"]
    assert "--model-repository=/models" in server["args"]
    for probe in ("startupProbe", "readinessProbe"):
        assert server[probe]["httpGet"]["path"] == f"/v2/models/{EMMICHEL.name}/ready"
    assert re.fullmatch(r"nvcr\.io/nvidia/tritonserver:[\w.-]+", server["image"])


def dims(part):
    """{name: shape} of `input` or `output` in the configuration."""
    block = re.search(rf"^{part} \[\n(.*?)^\]", CONFIG, re.M | re.S)[1]
    found = re.findall(r'name: "(\w+)", data_type: TYPE_FP32, dims: \[ ([\d, ]+) \]', block)
    return {name: tuple(map(int, shape.split(", "))) for name, shape in found}


def test_the_repository_s_configuration_is_that_of_the_model_and_of_the_servers_here():
    assert (
        dims("input") == {EMMICHEL.input: EMMICHEL.row} and dims("output") == EMMICHEL.outputs
    )
    assert f'name: "{EMMICHEL.name}"' in CONFIG and 'backend: "onnxruntime"' in CONFIG
    assert f"max_batch_size: {OPTIONS['max_batch']}" in CONFIG
    assert f"max_queue_delay_microseconds: {OPTIONS['delay_us']} " in CONFIG


BACKEND = """
import sys
sys.path[:0] = {paths!r}
import numpy as np
import triton_python_backend_utils as backend
from onnx_model import OnnxModel


class TritonPythonModel:
    def initialize(self, told):
        self.model = OnnxModel({path!r})

    def execute(self, requests):
        return [self.answer(one) for one in requests]

    def answer(self, one):
        patches = backend.get_input_tensor_by_name(one, "patches").as_numpy()
        found = self.model({{"patches": patches}})
        return backend.InferenceResponse([backend.Tensor(*pair) for pair in found.items()])
"""


@pytest.mark.skipif(not triton_python(), reason="TRITON_PYTHON is not set")
def test_triton_loads_the_repository(tmp_path):
    """The wheel has no ONNX backend: in its place stand a few lines of the Python backend, and
    a processor in place of a GPU; names, sizes and batches are the configuration's."""
    network = EmMichelTrack(filters=2, pool=4)
    path = str(save_onnx(network, tmp_path / "small.onnx"))
    telling = [triton_python(), "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    paths = json.loads(subprocess.run(telling, capture_output=True, text=True).stdout)
    home = tmp_path / "models/emmichel"
    (home / "1").mkdir(parents=True)
    text = CONFIG.replace('"onnxruntime"', '"python"').replace("KIND_GPU", "KIND_CPU")
    (home / "config.pbtxt").write_text(text)
    told = {"paths": [str(FOLDER.parent / "service"), *paths], "path": path}
    (home / "1/model.py").write_text(BACKEND.format(**told))
    patches = np.random.default_rng(0).random((70, 48, 48), np.float32)
    with (
        Triton({}, repository=str(home.parent)) as server,
        Sonic([server.address], EMMICHEL, 32) as sonic,
    ):
        found = sonic(patches)
    for got, want in zip(found, infer(network, patches), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_one_pod_a_node_with_one_gpu():
    pod = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ][0]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
