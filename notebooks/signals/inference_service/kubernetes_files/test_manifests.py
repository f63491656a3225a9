"""The manifests: valid by Kubernetes's own schemas where they are installed, and consistent
with each other.
"""

from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parent
MANIFESTS = {
    one["kind"]: one for one in yaml.safe_load_all((FOLDER / "triton.yaml").read_text())
}


@pytest.mark.parametrize("kind", sorted(MANIFESTS))
def test_a_manifest_is_valid_by_its_schema(kind):
    checker = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    checker.validate(MANIFESTS[kind], "1.31", strict=True)


def test_selectors_ports_and_names_fit_together():
    pod = MANIFESTS["Deployment"]["spec"]["template"]
    assert MANIFESTS["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    container = pod["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {p["targetPort"]: p["port"] for p in MANIFESTS["Service"]["spec"]["ports"]} == ports
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    rule = MANIFESTS["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert (
        rule["name"] == MANIFESTS["Service"]["metadata"]["name"]
        and rule["port"]["name"] in ports
    )
    target = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == MANIFESTS["Deployment"]["metadata"]["name"]
    claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == MANIFESTS["PersistentVolumeClaim"]["metadata"]["name"]


def test_one_pod_a_node_with_one_gpu():
    pod = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ][0]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
