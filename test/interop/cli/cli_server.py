"""The official command line tool against a server: cli_server.py URL BASE_MODEL REPORT.

Runs every command that the installed release offers (found from its own command tree) and checks what it prints. push-hf uploads to
a stand-in for the Hub that only notes what it is given.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import tinker
from cli_run import make_run

URL, BASE_MODEL, REPORT = sys.argv[1:4]
TOOL = str(pathlib.Path(sys.executable).parent / "tinker")
HOME = tempfile.mkdtemp()
ENVIRONMENT = {**os.environ, "TINKER_BASE_URL": URL, "TINKER_API_KEY": "tml-cli", "HOME": HOME, "NO_COLOR": "1"}

training, WEIGHTS, SAMPLER = make_run(URL, BASE_MODEL, f"-{os.getpid()}")
RUN = training.model_id
SESSION = RUN.split(":")[0]


def tool(*args, ok=True, stdin=None):
    done = subprocess.run([TOOL, *args], env=ENVIRONMENT, capture_output=True, text=True, timeout=120, input=stdin)
    assert (done.returncode == 0) == ok, f"{args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + ("" if ok else done.stderr)


def data(*args):
    return json.loads(tool("-f", "json", *args))


CHECKS = {}


def check(name):
    return lambda function: CHECKS.setdefault(name, function)


@check("version")
def _():
    assert tinker.__version__ in tool("version")


@check("run list")
def _():
    assert RUN in [r["training_run_id"] for r in data("run", "list", "--limit", "0")["runs"]]
    assert "training run" in tool("run", "list").lower()


@check("run info")
def _():
    assert data("run", "info", RUN)["base_model"] == BASE_MODEL
    assert "not found" in tool("run", "info", "nobody:train:0", ok=False).lower()


@check("checkpoint list")
def _():
    listed = [c["tinker_path"] for c in data("checkpoint", "list", "--run-id", RUN)["checkpoints"]]
    assert {WEIGHTS, SAMPLER} <= set(listed)
    assert WEIGHTS in [c["tinker_path"] for c in data("checkpoint", "list", "--limit", "0")["checkpoints"]]


@check("checkpoint info")
def _():
    assert data("checkpoint", "info", WEIGHTS)["lora_rank"] == 4


@check("checkpoint publish")
def _():
    tool("checkpoint", "publish", WEIGHTS)
    assert data("checkpoint", "info", WEIGHTS)["public"] is True


@check("checkpoint unpublish")
def _():
    tool("checkpoint", "unpublish", WEIGHTS)
    assert data("checkpoint", "info", WEIGHTS)["public"] is False


@check("checkpoint set-ttl")
def _():
    tool("checkpoint", "set-ttl", WEIGHTS, "--ttl", "7200")
    assert data("checkpoint", "info", WEIGHTS)["expires_at"] is not None
    tool("checkpoint", "set-ttl", WEIGHTS, "--remove")
    assert data("checkpoint", "info", WEIGHTS)["expires_at"] is None


@check("checkpoint download")
def _():
    folder = tempfile.mkdtemp()
    answer = data("checkpoint", "download", WEIGHTS, "--output", folder)
    names = sorted(p.name for p in pathlib.Path(answer["destination"]).iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"], names
    from safetensors import safe_open

    with safe_open(f"{answer['destination']}/adapter_model.safetensors", "np") as file:
        assert any(name.endswith("lora_A.weight") for name in file.keys())


@check("checkpoint push-hf")
def _():
    # in process, with the Hub's client replaced by one that notes what it is given
    script = f"""
import sys, pathlib
import huggingface_hub
seen = {{}}
class Hub:
    def __init__(self, *a, **k): pass
    def __getattr__(self, name):
        def call(*args, **kwargs):
            if name == "upload_folder": seen["files"] = sorted(p.name for p in pathlib.Path(kwargs["folder_path"]).iterdir())
            if name == "whoami": return {{"name": "someone"}}
            if name in ("repo_exists", "file_exists", "revision_exists"): return False
            return type("R", (), {{"repo_id": "someone/repo", "repo_url": "x", "commit_url": "x", "pr_url": None}})()
        return call
huggingface_hub.HfApi = Hub
huggingface_hub.hf_hub_download = lambda *a, **k: (_ for _ in ()).throw(FileNotFoundError())
from click.testing import CliRunner
from tinker.cli.__main__ import main_cli as cli
result = CliRunner().invoke(cli, ["-f", "json", "checkpoint", "push-hf", {WEIGHTS!r}, "--repo", "someone/repo"])
print(result.output)
assert result.exit_code == 0, (result.output, result.exception)
assert {{"adapter_config.json", "adapter_model.safetensors"}} <= set(seen["files"]), seen
"""
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@check("checkpoint delete")
def _():
    path = training.save_state(f"gone-{os.getpid()}").result().path
    assert data("checkpoint", "delete", path, "-y")["deleted_count"] == 1
    assert path not in [c["tinker_path"] for c in data("checkpoint", "list", "--run-id", RUN)["checkpoints"]]


@check("checkpoint copy")
def _():
    copied = tool("-f", "json", "checkpoint", "copy", WEIGHTS, "--project", "p-9")
    assert "tinker://" in copied and RUN not in json.dumps(json.loads(copied).get("destination", ""))


@check("session export-trace")
def _():
    file = pathlib.Path(tempfile.mkdtemp()) / "trace.json"
    tool("session", "export-trace", SESSION, "--output", str(file))
    assert any(e.get("name") == "optim_step" for e in json.loads(file.read_text())["traceEvents"])


@check("billing usage")
def _():
    today = datetime.date.today()
    span = (str(today - datetime.timedelta(days=1)), str(today + datetime.timedelta(days=2)))
    events = [e["event_info"] for e in data("billing", "usage", *span)["data"] if e["session_id"] == SESSION]
    assert sum(e["token_count"] for e in events if e["type"] == "training") == 3, events
    assert "token_count" in tool("billing", "usage", *span, "--csv", "-")


@check("billing checkpoint-storage")
def _():
    assert sum(item["size_bytes"] for item in data("billing", "checkpoint-storage")["data"]) > 0


@check("model list")
def _():
    assert BASE_MODEL in [m["model_name"] for m in data("model", "list")["models"]]


@check("auth whoami")
def _():
    assert data("auth", "whoami")["user_urn"].startswith("tml:user:")


@check("auth status")
def _():
    tool("auth", "status")


def commands():
    """Every leaf of the tool's own command tree."""
    from tinker.cli.__main__ import main_cli as cli

    def walk(command, path):
        if not hasattr(command, "list_commands"):
            yield " ".join(path)
            return
        import click

        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), [*path, name])

    return list(walk(cli, []))


rows = []
for name in commands():
    body = CHECKS.get(name)
    if body is None:
        rows.append({"command": name, "result": "not checked", "note": ""})
        continue
    try:
        body()
        rows.append({"command": name, "result": "ok", "note": ""})
    except BaseException as error:  # noqa: BLE001
        rows.append({"command": name, "result": "FAILED", "note": f"{type(error).__name__}: {str(error)[-600:]}"})
with open(REPORT, "w") as file:
    json.dump({"version": tinker.__version__, "rows": rows}, file, indent=1)
for row in rows:
    if row["result"] != "ok":
        print(f"{row['result']:11} {row['command']}: {row['note']}")
bad = [r for r in rows if r["result"] == "FAILED"]
print(f"tinker CLI {tinker.__version__}: {sum(r['result'] == 'ok' for r in rows)} commands ok, {len(bad)} bad")
sys.stdout.flush()
os._exit(1 if bad else 0)
