"""What stands in deploy/, read as YAML, and what a container of it would be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen

from tests.docs.markdown import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


@frozen
class Contained:
    """One container as its orchestrator would start it."""

    place: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    # The paths of the secrets that are mounted into it.
    mounted: frozenset[str]
    grace_seconds: int

    @property
    def secret_paths(self) -> dict[str, str]:
        """The variable of each secret, and the file that it is in."""
        return {name.removesuffix("_FILE"): path for name, path in self.environment.items() if name.endswith("_FILE")}


def documents(path: Path) -> list[dict[str, Any]]:
    """Every document of a YAML file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kubernetes() -> list[dict[str, Any]]:
    """Every object of the manifests."""
    return [document for path in KUBERNETES for document in documents(path)]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the pod of each object that makes some."""
    for one in of_kubernetes():
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def contained() -> list[Contained]:
    """Every container of this image, of Compose and of Kubernetes."""
    return [*_in_compose(), *_in_kubernetes()]


def _in_compose() -> Iterator[Contained]:
    (compose,) = documents(COMPOSE)
    for name, service in compose["services"].items():
        if "build" in service:
            yield Contained(
                f"compose: {name}",
                tuple(service["command"]),
                service["environment"],
                frozenset(f"/run/secrets/{secret}" for secret in service["secrets"]),
                int(service.get("stop_grace_period", "10s").removesuffix("s")),
            )


def _in_kubernetes() -> Iterator[Contained]:
    objects = of_kubernetes()
    maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
    for name, pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            environment: dict[str, str] = {}
            for source in container.get("envFrom", ()):
                environment |= maps[source["configMapRef"]["name"]]
            # What is known only in the cluster has some value there.
            environment |= {one["name"]: one.get("value", "from-the-cluster") for one in container["env"]}
            mounted = {
                f"{mount['mountPath']}/{item['path']}"
                for mount in container["volumeMounts"]
                for item in volumes[mount["name"]]["secret"]["items"]
            }
            grace_seconds = pod.get("terminationGracePeriodSeconds", 30)
            yield Contained(
                f"kubernetes: {name}", tuple(container["args"]), environment, frozenset(mounted), grace_seconds
            )
