"""Checks examples/kubernetes/train.yaml and runs it as processes of this host: kubernetes.py YOKE MANIFEST.

Each process gets the environment of its pod. Names of pods become 127.0.0.1, and mounted volumes directories here.
Exit status: 0 passed, 77 PyYAML is not installed. "skip: WHY": kubernetes-validate, which has the published schema, is not.
"""
import os
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("PyYAML is not installed")
    sys.exit(77)


def validate(documents):
    try:
        import kubernetes_validate
    except ImportError:
        print("skip: the published schema: kubernetes-validate is not installed")
        return
    version = kubernetes_validate.latest_version()
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
    broken = dict(documents[1], spec=dict(documents[1]["spec"], completion="4"))
    try:
        kubernetes_validate.validate(broken, version, strict=True)
    except kubernetes_validate.ValidationError:
        return
    sys.exit("the schema accepts an unknown field")


def check(service, job):
    """What the schema does not say: the parts refer to each other. Returns the container."""
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {e["name"]: e for e in container["env"]}
    name = job["metadata"]["name"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert env["WORLD_SIZE"]["value"] == str(spec["completions"])
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert env["MASTER_ADDR"]["value"] == f"{name}-0.{pod['subdomain']}"
    assert "secretKeyRef" in env["YOKE_TOKEN"]["valueFrom"]
    volumes = {v["name"] for v in pod["volumes"]}
    assert all(m["name"] in volumes for m in container["volumeMounts"])
    return container


def run(yoke, container, size, port):
    here = {m["mountPath"]: os.path.abspath(m["name"]) for m in container["volumeMounts"]}
    token = os.urandom(32).hex()  # the Secret
    processes = []
    for index in range(size):
        env = dict(os.environ, JOB_COMPLETION_INDEX=str(index))
        for e in container["env"]:
            env[e["name"]] = e.get("value", token)
        env.update(MASTER_ADDR="127.0.0.1", YOKE_PORT=str(port))
        args = container["args"]
        for path, directory in here.items():
            args = [directory + a[len(path):] if a.startswith(path + "/") else a for a in args]
        processes.append(subprocess.Popen([yoke, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [p.communicate(timeout=100)[0] for p in processes]
    assert [p.returncode for p in processes] == [0] * size, "\n".join(outputs)
    assert "4 processes" in outputs[0] and "examples       4000" in outputs[0], outputs[0]
    assert token not in "".join(outputs)


def main(yoke, manifest, port):
    with open(manifest) as f:
        documents = list(yaml.safe_load_all(f))
    validate(documents)
    container = check(*documents)
    run(yoke, container, documents[1]["spec"]["completions"], port)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
