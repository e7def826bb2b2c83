"""Whether what stands in deploy/ works, as far as that can be seen without containers: the files are read, and every service is
started here with the command, environment, configuration and health check that they give it, against a Postgres and a Redis of
this machine. The steps that build the image are done in a folder, without the compiler's.

    deploy.py BINARY POSTGRES-URL
"""

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[2]
# How long something that must come may take on a busy machine.
HANG = 60


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
        time.sleep(0.1)
    raise Failed(f"{what}: this did not come within {HANG} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def interpolated(value, env):
    """A value of the compose file with its variables, as `${NAME}` and `${NAME:-default}`."""
    if isinstance(value, dict):
        return {k: interpolated(v, env) for k, v in value.items()}
    if isinstance(value, list):
        return [interpolated(v, env) for v in value]
    if not isinstance(value, str):
        return value

    def one(found):
        name, default = found[1], found[2]
        must(name in env or default is not None, f"${{{name}}} has no default")
        return env.get(name) or default or ""

    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", one, value)


class Image:
    """What the container file says: its stages, and of the last one how a container of it is run."""

    def __init__(self, path):
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M).replace("\\\n", " ")
        self.stages = []
        self.env = {}
        self.entrypoint, self.cmd, self.health = [], [], []
        for line in filter(None, (line.strip() for line in text.splitlines())):
            step, rest = line.split(None, 1)
            if step == "FROM":
                self.stages.append([])
            elif step == "ENV":
                self.env |= dict(word.split("=", 1) for word in shlex.split(rest))
            elif step == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            elif step == "CMD":
                self.cmd = json.loads(rest)
            elif step == "HEALTHCHECK":
                self.health = json.loads(rest.split("CMD", 1)[1])
            else:
                self.stages[-1].append((step, shlex.split(rest) if step == "COPY" else rest))


def ignored():
    """The names that are left out of what the build sees."""
    return [line.removeprefix("**/") for line in (ROOT / "deploy/Containerfile.dockerignore").read_text().split()]


def build(image, folder):
    """Does the steps of the container file in a folder that stands for the root of all stages, apart from those that install
    packages or compile."""
    names = ignored()
    work = Path("/src")
    ran = []
    inside = lambda path: folder / str(work / path).lstrip("/")
    for stage in image.stages[:-1]:
        for step, rest in stage:
            if step == "WORKDIR":
                work = Path(rest)
                inside("").mkdir(parents=True, exist_ok=True)
            elif step == "COPY":
                between = rest[0].startswith("--from")
                *sources, target = [word for word in rest if not word.startswith("--")]
                for source in sources:
                    # Both stages have one root here, so what one makes the other finds.
                    origin = folder / source.lstrip("/") if between else ROOT / source
                    must(origin.exists(), f"COPY {source}: there is no such thing")
                    place = inside(target)
                    if origin.is_dir():
                        leave = shutil.ignore_patterns(*names)
                        leave = None if between else leave
                        if origin != place:
                            shutil.copytree(origin, place, ignore=leave, dirs_exist_ok=True)
                    else:
                        place.mkdir(parents=True, exist_ok=True)
                        shutil.copy(origin, place)
            elif step == "RUN" and not rest.startswith("apt-get"):
                for command in rest.split("&&"):
                    words = shlex.split(command)
                    if words[:2] == ["cargo", "build"]:
                        # What it would compile is all there, at the versions of the lock file.
                        package = words[words.index("-p") + 1]
                        words = ["cargo", "tree", "--locked", "-p", package, "--depth", "0"]
                    if words[0] != "strip":
                        subprocess.run(words, cwd=inside(""), check=True, stdout=subprocess.DEVNULL)
                    ran.append(words[0])
    must(ran.count("npm") == 2 and "cargo" in ran, f"only {ran} was run")
    must((folder / "src/web/dist/index.html").exists(), "the image has no page")
    for step, rest in image.stages[-1]:
        if step == "COPY" and not rest[0].startswith("--from"):
            must((ROOT / rest[-2]).exists(), f"COPY {rest[-2]}: there is no such thing")


class Database:
    """The database that the compose file describes, on a server that is there."""

    def __init__(self, server, described):
        self.server = server
        self.name = f"deploy_{secrets.token_hex(4)}"
        password = described["POSTGRES_PASSWORD"]
        self.psql(f"CREATE ROLE {self.name} LOGIN PASSWORD '{password}'", f"CREATE DATABASE {self.name} OWNER {self.name}")
        parts = urlsplit(server)
        self.host, self.port = parts.hostname, parts.port or 5432
        self.url = f"postgres://{self.name}:{password}@{self.host}:{self.port}/{self.name}"

    def psql(self, *statements):
        for statement in statements:
            subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", self.server, "-c", statement], check=True)

    def drop(self):
        self.psql(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)", f"DROP ROLE IF EXISTS {self.name}")


class Site:
    """The services of the compose file as processes."""

    def __init__(self, compose, image, binary, database, folder):
        self.compose, self.image, self.binary, self.database = compose, image, binary, database
        self.folder = folder
        self.redis_port, self.port = free_port(), free_port()
        self.processes = {}
        (folder / "bin").mkdir()
        (folder / "bin/turnbuckle").symlink_to(binary)
        (folder / "bin/turnbuckle-ready").symlink_to(ROOT / "deploy/ready")

    def service(self, name):
        return self.compose["services"][name]

    def environment(self, name):
        """What the image and the compose file set, with the addresses of this machine in the place of theirs."""
        service = self.service(name)
        env = self.image.env | service["environment"]
        postgres = self.service("postgres")["environment"]
        store = urlsplit(env["TURNBUCKLE_STORE"])
        must(
            (store.hostname, store.username, store.password, store.path)
            == ("postgres", postgres["POSTGRES_USER"], postgres["POSTGRES_PASSWORD"], "/" + postgres["POSTGRES_DB"]),
            f"{name} and postgres disagree about the database",
        )
        env["TURNBUCKLE_STORE"] = self.database.url
        must(urlsplit(env["TURNBUCKLE_BUS"]).hostname == "redis", f"{name} has no bus")
        env["TURNBUCKLE_BUS"] = f"redis://127.0.0.1:{self.redis_port}"
        inner = int(env["TURNBUCKLE_LISTEN"].rsplit(":", 1)[1])
        env["TURNBUCKLE_LISTEN"] = f"127.0.0.1:{self.port}"
        must(env["TURNBUCKLE_DATA"] == "/data", "what is written has another place than /data")
        kept = [m.split(":")[1] for m in service.get("volumes", [])] + [m.split(":")[0] for m in service["tmpfs"]]
        must("/data" in kept, f"{name} has no place to write to")
        data = self.folder / f"data-{name}"
        data.mkdir(exist_ok=True)
        env["TURNBUCKLE_DATA"] = str(data)
        for given in service["configs"]:
            path = self.folder / "config" / given["target"].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.compose["configs"][given["source"]]["content"])
            env = {k: str(path) if v == given["target"] else v for k, v in env.items()}
        for published in service.get("ports", []):
            must(published.rsplit(":", 1)[1] == str(inner), f"{name} publishes a port that nobody listens on")
        env["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env["HOME"] = str(data)
        return env

    def start(self, name):
        command = [*self.image.entrypoint, *(self.service(name).get("command") or self.image.cmd)]
        env = self.environment(name)
        log = open(self.folder / f"{name}.log", "wb")
        self.processes[name] = subprocess.Popen(
            command, env=env, cwd=env["TURNBUCKLE_DATA"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def start_redis(self):
        service = self.service("redis")
        words = [*service["command"], "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        self.processes["redis"] = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        check = service["healthcheck"]["test"]
        must(check[0] == "CMD", "the health check of redis is no command")
        words = [check[1], "-p", str(self.redis_port), *check[2:]]
        until("redis is healthy", lambda: subprocess.run(words, capture_output=True).stdout.strip() == b"PONG")

    def check_postgres(self):
        kind, check = self.service("postgres")["healthcheck"]["test"]
        must(kind == "CMD-SHELL", "the health check of postgres is no line of a shell")
        line = f"{check} -h {self.database.host} -p {self.database.port}"
        until("postgres is healthy", lambda: subprocess.run(line, shell=True, capture_output=True).returncode == 0)

    def healthy(self):
        """What the health check of the image says."""
        env = self.environment("turnbuckle") | {"TURNBUCKLE_PORT": str(self.port)}
        return subprocess.run(self.image.health, env=env, capture_output=True).returncode == 0

    def runs(self, name, *arguments):
        """What a command in a container of the service prints."""
        done = subprocess.run(arguments, env=self.environment(name), stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout

    def stop(self, name):
        """Ends a service as the compose file does."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        grace = int(self.service(name)["stop_grace_period"].removesuffix("s"))
        must(process.wait(grace) == 0, f"{name} ended with {process.returncode}")

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def ask(self, method, path, key=None, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if key:
            request.add_header("authorization", f"Bearer {key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=HANG) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None


def serve(site):
    site.check_postgres()
    site.start_redis()
    must(not site.healthy(), "it is called healthy before it runs")
    site.start("turnbuckle")
    site.start("worker")
    until("the server is healthy", site.healthy)
    must(site.ask("GET", "/v1/sessions")[0] == 401, "it asks for no key")
    key = site.runs("turnbuckle", "turnbuckle", "keys", "create", "me", "--roles", "admin").strip()
    must(site.ask("GET", "/v1/sessions", key)[0] == 200, "it does not take its own key")
    _, session = site.ask("POST", "/v1/sessions", key, {})
    turns = f"/v1/sessions/{session['id']}/turns"
    status, _ = site.ask("POST", turns, key, {"content": "Who works in billing?"})
    must(status == 202, f"a message got {status}")
    listed = lambda: site.ask("GET", turns, key)[1]["items"]
    until("the turn ends", lambda: [turn["status"] for turn in listed()] == ["finished"])
    site.stop("worker")
    site.stop("turnbuckle")
    must(not site.healthy(), "it is called healthy after its end")


def main(binary, postgres):
    image = Image(ROOT / "deploy/Containerfile")
    compose = interpolated(yaml.safe_load((ROOT / "deploy/compose.yaml").read_text()), {})
    with tempfile.TemporaryDirectory() as folder:
        build(image, Path(folder))
    database = Database(postgres, compose["services"]["postgres"]["environment"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            site = Site(compose, image, Path(binary).resolve(), database, Path(folder))
            try:
                serve(site)
            except BaseException:
                for name in ("turnbuckle", "worker"):
                    log = Path(folder) / f"{name}.log"
                    print(f"== {name}\n{log.read_text() if log.exists() else 'not started'}", file=sys.stderr)
                raise
            finally:
                site.end()
    finally:
        database.drop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failed as failed:
        sys.exit(f"FAILED: deploy/: {failed}")
