"""The manifests: valid by Kubernetes's own definitions, and consistent with each other."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

FOLDER = Path(__file__).parent
MANIFESTS = {
    one["kind"]: one for one in yaml.safe_load_all((FOLDER / "triton.yaml").read_text())
}
SCHEMAS = json.loads((FOLDER / "schemas_1_31.json").read_text())


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


def test_one_pod_a_node_with_one_gpu():
    pod = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ][0]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
