"""deploy/compose.yaml and deploy/kubernetes: valid, without a secret, without rights, and enough to start a process.

That the image runs so is tried by `make image-test`; here the files are held to their schemas and to the code.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import kubernetes_validate
import pytest
from click.testing import CliRunner
from compose_spec import PyCompose

from tayho.cli.main import main
from tayho.config import ConfigurationRefused, load_settings
from tayho.config.database_url import database_url_from
from tayho.config.variables import DRAIN_SECONDS, IDENTITY_VARIABLES, VARIABLES
from tests.deploy.manifests import COMPOSE, KUBERNETES, Contained, contained, documents, of_kubernetes, pods
from tests.docs.markdown import ROOT, text_of
from tools.image.compose_secrets import main as make_secrets
from tools.image.pip_settings import settings_text

# The oldest that the manifests are meant for, and the newest whose schemas there are.
KUBERNETES_VERSIONS = ("1.29", "1.37")
# The last handlers are cancelled, the ends are written, the connections closed.
AFTER_DRAIN_SECONDS = 15
UID = 10001
CONTAINED = contained()
STARTED = [one for one in CONTAINED if one.command[0] == "run"]
# A live chain asks for three hosts that vote.
SECRETS = {
    "DATABASE_URL": "postgresql://tayho:word@db:5432/tayho",
    "REDIS_URL": "redis://redis:6379",
    "RPC_URL": "https://write.example",
    "RPC_READ_URLS": "https://one.example https://two.example https://three.example",
}


def named(one: Contained) -> str:
    return one.place


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_object_is_as_its_schema_says(version: str) -> None:
    """Goal: the cluster takes them. Method: Kubernetes' own schemas, in which no field is free, of two versions; one
    object with a misspelt field is refused."""
    for one in of_kubernetes():
        kubernetes_validate.validate(one, version, strict=True)
    (deployment,) = (one for one in of_kubernetes() if one["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["terminationGraceSeconds"] = 90
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, version, strict=True)


def test_the_compose_file_is_as_its_schema_says() -> None:
    """Goal: Compose takes it. Method: a reader that knows the whole specification, and refuses a misspelt field."""
    (compose,) = documents(COMPOSE)
    taken = PyCompose.from_json(json.dumps(compose))
    assert set(taken.service_names()) == {"postgres", "redis", "node", "migrate", "automation"}
    compose["services"]["automation"]["read_onyl"] = True
    with pytest.raises(ValueError, match="read_onyl"):
        PyCompose.from_json(json.dumps(compose))


def test_two_replicas_outlive_every_planned_disruption() -> None:
    """Goal: one of two goes on whatever is planned. Method: the numbers of both files, and the labels that tie them."""
    by_kind = {one["kind"]: one for one in of_kubernetes()}
    deployment, budget = by_kind["Deployment"]["spec"], by_kind["PodDisruptionBudget"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget["minAvailable"] == 1
    labels = deployment["template"]["metadata"]["labels"]
    pod = deployment["template"]["spec"]
    selectors = [deployment["selector"], budget["selector"], by_kind["NetworkPolicy"]["spec"]["podSelector"]]
    selectors += [constraint["labelSelector"] for constraint in pod["topologySpreadConstraints"]]
    assert all(selector["matchLabels"] == labels for selector in selectors)
    assert documents(COMPOSE)[0]["services"]["automation"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("one", STARTED, ids=named)
def test_the_drain_ends_before_the_kill(one: Contained) -> None:
    """Goal: no drain is cut off. Method: the grace period against DRAIN_SECONDS, which each file says itself."""
    assert one.grace_seconds >= int(one.environment[DRAIN_SECONDS.name]) + AFTER_DRAIN_SECONDS


@pytest.mark.parametrize("one", CONTAINED, ids=named)
def test_each_container_names_only_what_is_there(one: Contained) -> None:
    """Goal: no variable without an effect, no command that is none, no secret that nobody mounts and none for nothing.
    Method: the table of variables, the command line itself, and the mounts."""
    variables = (*VARIABLES, *IDENTITY_VARIABLES.values())
    names = {variable.name for variable in variables}
    masked = {variable.name for variable in variables if variable.is_masked}
    assert {name.removesuffix("_FILE") for name in one.environment} <= names
    # Every secret is a file: none stands in the environment, which is shown to whoever may look at the container.
    assert set(one.secret_paths) <= masked
    assert not masked & one.environment.keys()
    assert set(one.secret_paths.values()) == one.mounted
    assert CliRunner().invoke(main, [*one.command, "--help"]).exit_code == 0


def test_no_manifest_carries_a_secret() -> None:
    """Goal: nothing to leak in deploy/. Method: no object of kind Secret, no URL with a password, nothing of a key's
    length."""
    assert "Secret" not in {one["kind"] for one in of_kubernetes()}
    for path in (COMPOSE, *KUBERNETES):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"://[^/\s]*:[^/\s]*@", text), path
        assert not re.search(r"\b(0x)?[0-9a-fA-F]{40,}\b", text), path


@pytest.mark.parametrize("one", STARTED, ids=named)
def test_a_process_starts_with_what_it_is_given(one: Contained, tmp_path: Path) -> None:
    """Goal: the files are complete. Method: the configuration of the role, read from exactly the environment of the
    container, its secrets from the files that are mounted; without any one of those files it is refused."""
    make_secrets(tmp_path)
    texts = {name: (tmp_path / name.lower()).read_text() for name in ("SIGNER_KEYS", "TX_JOURNAL_KEYS")}
    ring = json.loads(texts["TX_JOURNAL_KEYS"])
    texts["TX_JOURNAL_KEYS"] = json.dumps({one.environment["TX_JOURNAL_ACTIVE_KEY_ID"]: ring["local"]})
    files = {path: (SECRETS | texts)[name] for name, path in one.secret_paths.items()}

    def load(files: dict[str, str]) -> tuple[str, ...]:
        def read_file(path: Path) -> str:
            if str(path) not in files:
                raise FileNotFoundError(2, "No such file", str(path))
            return files[str(path)]

        return load_settings(one.environment, one.command[1:], read_file=read_file).warnings

    load(files)
    for path in files:
        with pytest.raises(ConfigurationRefused):
            load({other: text for other, text in files.items() if other != path})


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=[name for name, _ in pods()])
def test_no_pod_has_a_right_that_it_does_not_need(name: str, pod: dict[str, object]) -> None:
    """Goal: the restricted profile of Kubernetes' own pod security standards. Method: each of its fields."""
    manifest = json.loads(json.dumps(pod))
    assert manifest["automountServiceAccountToken"] is False, name
    identity = manifest["securityContext"]
    assert (identity["runAsNonRoot"], identity["runAsUser"], identity["fsGroup"]) == (True, UID, UID)
    assert identity["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in manifest["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= container["resources"].keys()
        assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert all(volume["secret"]["defaultMode"] == 0o440 for volume in manifest["volumes"])


def test_no_service_of_ours_in_compose_has_a_right_that_it_does_not_need() -> None:
    """Goal: the same on one machine. Method: each service that is built here, and a Redis that forgets nothing."""
    services = documents(COMPOSE)[0]["services"]
    for service in (services["migrate"], services["automation"]):
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert "--maxmemory-policy noeviction" in " ".join(services["redis"]["command"])
    assert services["automation"]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def test_the_secrets_of_compose_fit_it_and_stay(tmp_path: Path) -> None:
    """Goal: the two commands of the file's head are enough. Method: make the secrets twice: every file that the stack
    mounts is there, and is the same the second time; the URL is one that `db migrate` takes."""
    make_secrets(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    make_secrets(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == made
    compose = documents(COMPOSE)[0]
    assert made.keys() == compose["secrets"].keys()
    assert all(one == {"file": f"./secrets/{name}"} for name, one in compose["secrets"].items())
    assert made["postgres_password"] in database_url_from({"DATABASE_URL_FILE": str(tmp_path / "database_url")})
    ignored = text_of(".gitignore").splitlines()
    assert "deploy/secrets/" in ignored


def test_the_image_is_built_and_run_without_root() -> None:
    """Goal: what `make image-test` finds at length is seen at once. Method: the order of the Dockerfile's words:
    hashes are required, the user is a number and comes after the last step that needs root, no shell is in front."""
    lines = [line for line in text_of("Dockerfile").replace("\\\n", " ").splitlines() if not line.startswith("#")]
    words = [line.split(maxsplit=1) for line in lines if line]
    stages = [number for number, (word, *_) in enumerate(words) if word == "FROM"]
    assert [words[number][1] for number in stages] == ["${BASE} AS build", "${BASE}"]
    shipped = words[stages[1] :]
    order = [word for word, *_ in shipped]
    assert order.index("USER") > max(number for number, word in enumerate(order) if word in {"RUN", "COPY"})
    told = dict(shipped)
    assert told["USER"] == f"{UID}:{UID}"
    assert json.loads(told["ENTRYPOINT"]) == ["tayho"]
    assert json.loads(told["HEALTHCHECK"].partition("CMD ")[2]) == ["tayho", "health"]
    assert told["STOPSIGNAL"] == "SIGTERM"
    installed = [rest for word, rest in words if word == "RUN" and "requirement" in rest]
    assert all(rest.count("--require-hashes") == rest.count("--requirement ") for rest in installed)
    assert len(installed) == 1


def test_nothing_but_the_product_goes_into_the_build() -> None:
    """Goal: no secret, no test and no history in a layer. Method: .dockerignore takes all away and gives back what the
    Dockerfile copies, and nothing else."""
    lines = [line for line in text_of(".dockerignore").splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    given_back = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source
        for line in text_of("Dockerfile").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == given_back
    assert all((ROOT / source).exists() for source in copied)


def test_the_builders_network_is_told_without_its_folders() -> None:
    """Goal: a build behind a mirror gets the mirror, whichever way this machine names it. Method: lines as pip prints
    them, with a folder, a doubled option and one that does not concern a build."""
    told = [
        ":env:.timeout='7'",
        "global.timeout='60'",
        "global.index-url='https://mirror.example/simple'",
        "global.extra-index-url='file:///opt/wheels https://more.example/simple'",
        "global.find-links='/opt/wheels'",
        "global.constraint='/etc/constraints.txt'",
    ]
    assert settings_text(told).splitlines() == [
        "[global]",
        "cert = /etc/ssl/certs/ca-certificates.crt",
        "timeout = 7",
        "index-url = https://mirror.example/simple",
        "extra-index-url = https://more.example/simple",
    ]
