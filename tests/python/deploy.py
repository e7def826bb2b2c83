"""Whether the stages of deploy/Containerfile that build the page and the binary find what they need: their steps are done in a
folder, without those that install packages or compile. `containers.py` does the rest, or all of it when there is time.

    deploy.py
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    pass


def must(holds, why):
    if not holds:
        raise Failed(why)


def stages(path):
    """The steps of each stage of a container file."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M).replace("\\\n", " ")
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        step, rest = line.split(None, 1)
        if step == "FROM":
            found.append([])
        else:
            found[-1].append((step, shlex.split(rest) if step == "COPY" else rest))
    return found


def ignored():
    """The names that are left out of what the build sees."""
    return [line.removeprefix("**/") for line in (ROOT / "deploy/Containerfile.dockerignore").read_text().split()]


def build(stages, folder):
    """Does the steps of the container file in a folder that stands for the root of all stages, apart from those that install
    packages or compile."""
    names = ignored()
    work = Path("/src")
    ran = []
    inside = lambda path: folder / str(work / path).lstrip("/")
    for stage in stages[:-1]:
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        build(stages(ROOT / "deploy/Containerfile"), Path(folder))


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"FAILED: deploy/: {failed}")
