"""The manifest of ``init --on kubernetes`` and the Helm chart, against Kubernetes' schemas.

They need the package ``kubernetes-validate``, the chart also ``helm``: ``make charts``.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_repl.cli.main import main

ROOT = Path(__file__).parents[3]
VERSION = "1.33"
BUCKET = "s3://bucket/lake"
HELM = shutil.which("helm") or shutil.which("helm", path=str(ROOT / ".cache" / "charts"))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    words = ["--offline", "--on", "kubernetes", "--host", "db.example.com", "--target", BUCKET]
    assert main(["init", "--config", str(tmp_path / "my.toml"), *words]) == 0
    return tmp_path


def documents(text: str) -> list[Any]:
    """Return the documents of a stream after a schema has accepted each of them."""
    checker = pytest.importorskip("kubernetes_validate", reason="make charts")
    found = list(yaml.safe_load_all(text))
    for document in found:
        checker.validate(document, VERSION, strict=True)
    return found


def charted(config: Path, *words: str) -> list[Any]:
    if HELM is None:
        pytest.skip("no helm: make charts")
    command = [HELM, "template", "shop", str(ROOT / "conf" / "helm" / "spark-repl"), *words]
    command += ["--set-file", f"config={config}"]
    return documents(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_the_manifest_is_valid(written: Path) -> None:
    kinds = [one["kind"] for one in documents((written / "kubernetes.yaml").read_text("utf-8"))]
    assert kinds == ["ConfigMap", "StatefulSet"]


def test_a_wrong_manifest_is_seen(written: Path) -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="make charts")
    text = (written / "kubernetes.yaml").read_text("utf-8").replace("replicas: 1", "replicas: one")
    with pytest.raises(checker.ValidationError):
        documents(text)


def test_the_chart_makes_the_pod_of_the_manifest(written: Path) -> None:
    settings, pod = charted(written / "my.toml", "--set", "passwordSecret.name=spark-repl-default")
    own_settings, own = documents((written / "kubernetes.yaml").read_text("utf-8"))
    assert settings["data"] == own_settings["data"]
    spec, own_spec = (one["spec"]["template"]["spec"] for one in (pod, own))
    spec["volumes"][0]["configMap"] = own_spec["volumes"][0]["configMap"]
    spec["containers"][0].pop("imagePullPolicy")
    assert spec == own_spec
    assert pod["spec"]["volumeClaimTemplates"] == own["spec"]["volumeClaimTemplates"]


def test_every_value_of_the_chart_leads_to_a_valid_pod(written: Path) -> None:
    values = written / "values.yaml"
    values.write_text(
        """
        storage: {className: fast}
        serviceAccountName: lake
        env: [{name: AWS_REGION, value: eu-central-1}]
        extraVolumes: [{name: tls, secret: {secretName: ca}}]
        extraVolumeMounts: [{name: tls, mountPath: /etc/tls}]
        nodeSelector: {disk: ssd}
        tolerations: [{key: db, operator: Exists}]
        """
    )
    _, pod = charted(written / "my.toml", "--values", str(values))
    spec = pod["spec"]["template"]["spec"]
    assert [one["name"] for one in spec["containers"][0]["env"]] == ["AWS_REGION"]
    assert len(spec["volumes"]) == 2 and spec["serviceAccountName"] == "lake"
    assert spec["nodeSelector"] and spec["tolerations"]


def test_a_chart_without_a_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        charted(tmp_path / "empty.toml")
    assert "give the configuration" in caught.value.stderr
