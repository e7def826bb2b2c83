"""Whether what stands in deploy/ works in containers. The image is made and run alone; then all services of the compose file, with
the restrictions that it names: a turn is cut off by `kill -9` and ended by a worker, and all is there again after `down` and `up`.

    containers.py ENGINE            every stage of deploy/Containerfile is built: takes as long as a release build
    containers.py ENGINE BINARY     only the last stage is, around a binary that runs on Linux

ENGINE is podman, with the podman-compose of requirements.txt, or docker, with its compose. Images are those that the engine has or
can pull. For the second form Debian, Postgres and Redis are else made of Debian's packages, with podman and mmdebstrap.
Images stay, named turnbuckle-test/; containers, volumes and networks do not.
"""

import json
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "deploy/Containerfile"
COMPOSE = ROOT / "deploy/compose.yaml"
STAND_INS = ROOT / "tests/containers"
OURS = "localhost/turnbuckle-test"
DEBIAN = "docker.io/library/debian:trixie-slim"
# Who the image runs as.
USER = 10001
# How long something that must come may take on a busy machine.
HANG = 90
# The pause of the rehearsal model after each word: there must be a middle of a turn to die in.
PACE_MS = 200
QUESTION = "Who works in billing?"


class Failed(Exception):
    pass


def must(holds, why):
    if not holds:
        raise Failed(why)


def until(what, ask):
    ends = time.monotonic() + HANG
    while time.monotonic() < ends:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.2)
    raise Failed(f"{what}: this did not come within {HANG} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def call(*words, env=None, seconds=600):
    """What a command prints. What it says besides is told when it fails."""
    words = [str(word) for word in words]
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    must(done.returncode == 0, f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


class Engine:
    """Podman or docker."""

    def __init__(self, program):
        self.program = program
        self.podman = Path(program).name == "podman"
        self.compose = [Path(sys.executable).parent / "podman-compose"] if self.podman else [program, "compose"]
        self.env = dict(os.environ)

    def __call__(self, *words, **how):
        return call(self.program, *words, env=self.env, **how)

    def does(self, *words):
        try:
            self(*words)
        except Failed:
            return False
        return True

    def build(self, name, *words):
        # Podman's own format has no place for a health check.
        form = ["--format", "docker"] if self.podman else []
        self("build", *form, "--tag", name, *words, seconds=3600)

    def make_ready(self, image, folder):
        """Sees that containers can be run. A machine that is itself a container or a small virtual one may lack what podman takes
        for granted: the right to raise limits, or cgroups of one version only. Then it is told to do with what there is."""
        works = ["run", "--rm", "--entrypoint", "true", image]
        if not self.podman or "CONTAINERS_CONF" in self.env or self.does(*works):
            return
        most = {"nofile": (resource.RLIMIT_NOFILE, 2**20), "nproc": (resource.RLIMIT_NPROC, 2**15)}
        limits = []
        for name, (kind, usual) in most.items():
            allowed = resource.getrlimit(kind)[1]
            limit = usual if allowed == resource.RLIM_INFINITY else min(usual, allowed)
            limits.append(f"{name}={limit}:{limit}")
        conf = folder / "containers.conf"
        runtime = '[engine]\nruntime = "runc"\n' if shutil.which("runc") else ""
        conf.write_text(f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n{runtime}")
        self.env["CONTAINERS_CONF"] = str(conf)
        self(*works)

    def keep_address(self, network):
        """Has the bridge of a network keep its address. An older podman's takes another one as containers come and go, and those
        that know the former do not reach their name server for half a minute."""
        (described,) = json.loads(self("network", "inspect", network))
        bridge = described.get("network_interface", "")
        address = Path("/sys/class/net", bridge, "address")
        if bridge and address.exists() and os.geteuid() == 0:
            call("ip", "link", "set", "dev", bridge, "address", address.read_text().strip())

    def healthy(self, container):
        """What the health check of a container says. Podman has systemd ask, which is not everywhere, so it is asked here."""
        if self.podman:
            return self.does("healthcheck", "run", container)
        return self("inspect", "--format", "{{.State.Health.Status}}", container) == "healthy"

    def ended_well(self, container):
        code = self("inspect", "--format", "{{.State.ExitCode}}", container)
        must(code == "0", f"{container} ended with {code}")


class Bases:
    """What stands under everything, by the names that deploy/ gives: the same, or a stand-in."""

    def __init__(self, engine, folder, official):
        self.engine = engine
        self.taken = {}
        for name, target in official.items():
            there = engine.does("image", "inspect", name) or engine.does("pull", "--quiet", name)
            self.taken[name] = name if there else self.stand_in(target)
            if name == DEBIAN:
                engine.make_ready(self.taken[name], folder)

    def stand_in(self, target):
        name = f"{OURS}/{target}"
        if target != "debian":
            self.engine.build(name, "--target", target, "--build-arg", f"DEBIAN={self.taken[DEBIAN]}", STAND_INS)
        elif not self.engine.does("image", "inspect", name):
            must(shutil.which("mmdebstrap"), "no registry of images can be reached, and there is no mmdebstrap")
            memory = Path("/dev/shm")
            with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
                archive = Path(folder) / "debian.tar"
                leave = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale")]
                how = ["--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", *leave]
                call("mmdebstrap", *how, "trixie", archive, env=os.environ | {"TMPDIR": folder})
                self.engine("import", archive, name)
        return name


class Api:
    """The HTTP API of a server on this machine."""

    def __init__(self, port):
        self.port = port
        self.key = None

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("accept", "application/json")
        if self.key:
            request.add_header("authorization", f"Bearer {self.key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=HANG) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path):
        status, body = self.ask("GET", path)
        must(status == 200, f"GET {path} got {status}: {body}")
        return json.loads(body)

    def post(self, path, body):
        status, answer = self.ask("POST", path, body)
        must(status in (201, 202), f"POST {path} got {status}: {answer}")
        return json.loads(answer)

    def begin(self):
        """Asks the question in a session of its own."""
        session = self.post("/v1/sessions", {})["id"]
        self.post(f"/v1/sessions/{session}/turns", {"content": QUESTION})
        return session

    def messages(self, session):
        return self.get(f"/v1/sessions/{session}")["messages"]

    def ended(self, session):
        return [turn["status"] for turn in self.get(f"/v1/sessions/{session}/turns")["items"]] == ["finished"]

    def events(self, session):
        return [event["type"] for event in self.get(f"/v1/sessions/{session}/events?after=0&limit=1000")["items"]]

    def closed(self):
        """Whether the server is reached with all that it needs, and asks for a key."""
        until("the server is ready", lambda: self.get("/readyz") == {"ready": True, "problems": []})
        must(self.ask("GET", "/v1/sessions")[0] == 401, "it asks for no key")

    def serves(self):
        status, page = self.ask("GET", "/")
        must(status == 200 and b"<html" in page, "there is no page")
        session = self.begin()
        until("the turn ends", lambda: self.ended(session))
        return session


def said(messages):
    """The words of the last answer."""
    answer = messages[-1]
    must(answer["role"] == "assistant", f"the last message is no answer: {answer}")
    return [part["text"] for part in answer["parts"] if part["type"] == "text"]


def restricted(engine, container):
    """What the first process of a container may do is next to nothing."""
    status = dict(line.split(":\t", 1) for line in engine("exec", container, "cat", "/proc/1/status").splitlines())
    wanted = {"Uid": USER, "Gid": USER, "CapEff": 0, "CapBnd": 0, "NoNewPrivs": 1}
    got = {name: int(status[name].split()[0], 16 if name.startswith("Cap") else 10) for name in wanted}
    must(got == wanted, f"{container} runs with {got}")
    mounts = [line.split() for line in engine("exec", container, "cat", "/proc/1/mounts").splitlines()]
    root = next(mount for mount in mounts if mount[1] == "/")
    must("ro" in root[3].split(","), f"{container} can write everywhere")


def run_alone(engine, image):
    """The image as it is, with a volume and the embedded database."""
    name = f"turnbuckle-test-{secrets.token_hex(4)}"
    api = Api(free_port())
    volume = ["--volume", f"{name}:/data", "--env", "TURNBUCKLE_MODEL=rehearsal"]
    shut = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp"]
    try:
        key = engine("run", "--rm", *volume, *shut, image, "keys", "create", "me", "--roles", "admin")
        engine("run", "--detach", "--name", name, "--publish", f"127.0.0.1:{api.port}:7777", *volume, *shut, image)
        until("the container is healthy", lambda: engine.healthy(name))
        restricted(engine, name)
        api.closed()
        api.key = key
        before = api.messages(api.serves())
        engine("stop", "--time", "40", name)
        engine.ended_well(name)
        engine("start", name)
        until("the container is healthy again", lambda: engine.healthy(name))
        sessions = api.get("/v1/sessions")["items"]
        must([api.messages(session["id"]) for session in sessions] == [before], "the volume does not keep what was said")
    except BaseException:
        tell(engine, name)
        raise
    finally:
        engine.does("rm", "--force", "--volumes", name)
        engine.does("volume", "rm", name)


class Stack:
    """The services of the compose file, two workers among them."""

    def __init__(self, engine, described, image, bases, folder):
        self.engine = engine
        self.project = f"turnbuckle-test-{secrets.token_hex(4)}"
        self.api = Api(free_port())
        # What the file asks of the environment is not what this machine happens to have.
        asked = dict.fromkeys(re.findall(r"\$\{(\w+)", COMPOSE.read_text()), "")
        self.env = engine.env | asked | {"TURNBUCKLE_PORT": str(self.api.port), "TURNBUCKLE_WORKERS": "2"}
        ours = {
            "image": image,
            "environment": {"TURNBUCKLE_MODEL": "rehearsal", "TURNBUCKLE_REHEARSAL_PACE_MS": str(PACE_MS)},
        }
        services = {n: ours if "build" in s else {"image": bases.taken[s["image"]]} for n, s in described["services"].items()}
        self.changes = folder / "compose.yaml"
        self.changes.write_text(yaml.safe_dump({"services": services}))

    def __call__(self, *words):
        files = ["--file", COMPOSE, "--file", self.changes]
        return call(*self.engine.compose, *files, "--project-name", self.project, *words, env=self.env)

    def containers(self, service):
        labels = {"project": self.project, "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        return self.engine("ps", "--all", "--quiet", *filters).split()

    def server(self):
        (container,) = self.containers("turnbuckle")
        return container

    def up(self):
        up = ["up", "--detach", "--no-build"]
        if self.engine.podman:
            # Podman before 4.6 cannot wait for health, as the file wants it.
            self(*up, "postgres", "redis")
            until("postgres and redis are healthy", lambda: all(map(self.engine.healthy, self.given())))
            self.engine.keep_address(f"{self.project}_default")
        self(*up)
        until("the server is healthy", lambda: self.engine.healthy(self.server()))

    def given(self):
        return self.containers("postgres") + self.containers("redis")

    def ended_by(self, worker, session):
        """The messages of a session as the store has them, once its turn has ended, asked without the server."""
        shown = self.engine("exec", worker, "turnbuckle", "sessions", "show", session, "--json")
        messages = [json.loads(line) for line in shown.splitlines()]
        return messages if messages[-1]["role"] == "assistant" and messages[-1]["state"]["state"] == "finished" else None


def run_stack(stack):
    engine, api = stack.engine, stack.api
    stack.up()
    api.closed()
    api.key = stack("exec", "-T", "turnbuckle", "turnbuckle", "keys", "create", "me", "--roles", "admin")
    server, workers = stack.server(), stack.containers("worker")
    must(len(workers) == 2, f"there are {len(workers)} workers")
    for container in (server, *workers):
        restricted(engine, container)
    whole = said(api.messages(api.serves()))

    # With the workers away the server begins a turn, and it is the server that dies.
    for worker in workers:
        engine("stop", "--time", "40", worker)
        engine.ended_well(worker)
    session = api.begin()
    until("a tool has answered", lambda: "tool-call-completed" in api.events(session))
    engine("kill", "--signal", "KILL", server)
    # It may come back by itself, sooner than its session is let go of.
    engine("stop", "--time", "40", server)
    for worker in workers:
        engine("start", worker)
    until("a worker ends the turn", lambda: stack.ended_by(workers[0], session))
    engine("start", server)
    until("the server is healthy again", lambda: engine.healthy(server))
    must("assistant-message-resumed" in api.events(session), "nobody took the turn over")
    cut = api.messages(session)
    must(said(cut) == whole, f"the turn that was cut off says {said(cut)}, and one that was not {whole}")

    stack("down")
    must(not stack.containers("turnbuckle") + stack.containers("worker") + stack.given(), "`down` leaves containers")
    stack.up()
    must(api.messages(session) == cut, "`down` and `up` lose what was said")


def tell(engine, container):
    try:
        done = subprocess.run([engine.program, "logs", "--tail", "60", container], env=engine.env, capture_output=True, text=True)
        print(f"== {container}\n{done.stdout}{done.stderr}", file=sys.stderr)
    except OSError as error:
        print(f"== {container}: {error}", file=sys.stderr)


def main(program, binary=None):
    engine = Engine(program)
    described = yaml.safe_load(COMPOSE.read_text())
    services = {s["image"]: name for name, s in described["services"].items() if "build" not in s}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        bases = Bases(engine, folder, {DEBIAN: "debian"} | services)
        if binary:
            image = f"{OURS}/around-binary"
            place = folder / "binary/src/target/release/turnbuckle"
            place.parent.mkdir(parents=True)
            call("strip", "-o", place, binary)
            # Docker wants the base of `page`, too, unless that is replaced as well.
            stages = dict.fromkeys(("page", "binary"), folder / "binary")
            contexts = stages | {DEBIAN: f"docker-image://{bases.taken[DEBIAN]}"}
            words = [word for name, place in contexts.items() for word in ("--build-context", f"{name}={place}")]
        else:
            image, words = f"{OURS}/whole", []
        print(f"Building {image} with {program}{'' if binary else '; this takes as long as a release build'}.", flush=True)
        engine.build(image, *words, "--file", CONTAINERFILE, ROOT)
        run_alone(engine, image)
        stack = Stack(engine, described, image, bases, folder)
        try:
            run_stack(stack)
        except BaseException:
            for service in described["services"]:
                for container in stack.containers(service):
                    tell(engine, container)
            raise
        finally:
            stack("down", "--volumes", "--timeout", "1")
    print(f"deploy/ works with {program}.")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failed as failed:
        sys.exit(f"FAILED: deploy/: {failed}")
