#!/usr/bin/env python3
"""Hold the engine to its goals: one line per workload, exit 1 when a gate is missed.

    bench/gate.py            all gates, about fifteen minutes on two cores
    bench/gate.py --quick    fewer and shorter runs, under five minutes
    bench/gate.py --peers    then the other frameworks, for comparison (installs them first)

Ratios are CPU time against `floor-typed`, a hand-written client that does the same turn. See docs/performance.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import pairs  # noqa: E402
import run  # noqa: E402

OURS = "turnbuckle"
# Model calls and tool calls of one W2 turn, each of which is journaled.
STEPS_OF_W2 = 6 + 5


# A second of W6 is three milliseconds of work between waits. What a wait costs changes by half from one second to the next, so
# whoever is compared must wait in the same seconds: one after the other, single pairs lie between 0.5 and 2, side by side between
# 0.5 and 1.
W6_RUNS = 9

# A journaled turn is ten waits for the disk; what they cost differs between runs by half.
JOURNAL_RUNS = 5


class Gates:
    def __init__(self):
        self.missed = 0

    def check(self, workload, name, value, goal, digits=2):
        ok = value <= goal
        self.missed += not ok
        print(f"{workload} {name}={value:.{digits}f} goal={goal:g} {'ok' if ok else 'MISSED'}", flush=True)


def build(*programs):
    chosen = [word for program in programs for word in ("--bin", program)]
    subprocess.run(["cargo", "build", "--profile", "speed", "--locked", "-q", "-p", "turnbuckle-bench", *chosen], cwd=HERE.parent, check=True)
    subprocess.run([HERE / "setup.sh", "floor"], check=True)


def cpu_ms(row):
    return (row["user_s"] + row["sys_s"]) * 1e3 / row["turns"]


def once(peer, workload, mock, turns=None):
    """One run of a peer, its output checked."""
    return together([peer], workload, mock, turns)[0]


def together(peers, workload, mock, turns=None):
    """A run of each of the peers in the same seconds, their output checked."""
    job, rounds, calls, by_class = run.WORKLOADS[workload]
    count, warmup = by_class[run.PEERS[peers[0]][0]]
    count = turns or count
    job = {**job, "base_url": mock.url + "/v1", "turns": count, "warmup": warmup}
    before = mock.stats()["requests"]
    with ThreadPoolExecutor(len(peers)) as side_by_side:
        rows = list(side_by_side.map(lambda peer: run.run_process(run.PEERS[peer][1], job, 0, 900), peers))
    requests = mock.stats()["requests"] - before
    for peer, row in zip(peers, rows):
        if "error" in row:
            raise SystemExit(f"{workload} {peer}: {row['error']}")
        if row["tool_calls"] != count * rounds * calls:
            raise SystemExit(f"{workload} {peer}: wrong number of tool calls")
    if requests != len(peers) * (count + warmup) * (rounds + 1):
        raise SystemExit(f"{workload} {' and '.join(peers)}: wrong number of requests")
    return rows


def same_text(workload, mock):
    """The engine must have received the very text that the floor received."""
    mine, floor = once(OURS, workload, mock), once(run.REFERENCE, workload, mock)
    if (mine["crc"], mine["text_chars"] / mine["turns"]) != (floor["crc"], floor["text_chars"] / floor["turns"]):
        raise SystemExit(f"{workload}: the text differs from the floor's")


def paired(workload, peer, mock, count, seconds):
    """Median ratio of adjacent runs in alternating order, and the floor against itself as a control."""
    turns = {}
    for name in {run.REFERENCE, peer}:
        probe = run.WORKLOADS[workload][3]["rust"][0]
        turns[name] = max(probe, int(seconds * 1e3 / pairs.measure(name, workload, probe, mock, 0)))
    mine, control = [], []
    for i in range(count):
        order = [run.REFERENCE, peer] if i % 2 == 0 else [peer, run.REFERENCE]
        got = {name: pairs.measure(name, workload, turns[name], mock, 0) for name in order}
        mine.append(got[peer] / got[run.REFERENCE])
        again = pairs.measure(run.REFERENCE, workload, turns[run.REFERENCE], mock, 0)
        control.append(again / got[run.REFERENCE])
    return statistics.median(mine), statistics.median(control)


def gate_pairs(gates, workload, peer, goal, mock, count, seconds):
    for _ in range(3):
        ratio, control = paired(workload, peer, mock, count, seconds)
        if 0.9 <= control <= 1.1:
            break
        print(f"{workload}: the floor against itself gave {control:.2f}; the machine is too busy, once more", file=sys.stderr)
    label = workload if peer == OURS else f"{workload}-{peer.removeprefix(OURS + '-')}"
    gates.check(label, "cpu_ratio", ratio, goal)


def best(peer, workload, mock, runs, value, turns=None):
    return min(value(once(peer, workload, mock, turns)) for _ in range(runs))


def read_anew(path):
    """Have the kernel forget what it keeps of a file. How it came to keep it, in small or in large pieces, decides how much of it
    is mapped around each page that is touched: of one and the same program between 11 and 14 MB."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def middle_ratio(workload, mock, runs):
    ratios = []
    for i in range(runs):
        order = [OURS, run.REFERENCE][:: 1 if i % 2 == 0 else -1]
        spent = {peer: cpu_ms(once(peer, workload, mock)) for peer in order}
        ratios.append(spent[OURS] / spent[run.REFERENCE])
    return statistics.median(ratios)


def beside(workload, mock, runs):
    """Median ratio of runs side by side, and the floor beside itself as a control."""
    mine, control = [], []
    for i in range(runs):
        order = [OURS, run.REFERENCE][:: 1 if i % 2 == 0 else -1]
        spent = dict(zip(order, map(cpu_ms, together(order, workload, mock))))
        mine.append(spent[OURS] / spent[run.REFERENCE])
        one, other = together([run.REFERENCE, run.REFERENCE], workload, mock)
        control.append(cpu_ms(one) / cpu_ms(other))
    return statistics.median(mine), statistics.median(control)


def gate_w6(gates, mock, runs):
    for _ in range(3):
        ratio, control = beside("W6", mock, runs)
        if 0.9 <= control <= 1.1:
            break
        print(f"W6: the floor beside itself gave {control:.2f}; the machine is too busy, once more", file=sys.stderr)
    gates.check("W6", "cpu_ratio", ratio, 1.15)


def gate_w5(gates, mock, runs):
    ratios, walls, sizes = [], [], []
    for _ in range(runs):
        mine, floor = once(OURS, "W5", mock), once(run.REFERENCE, "W5", mock)
        ratios.append(cpu_ms(mine) / cpu_ms(floor))
        walls.append(mine["wall_s"])
        sizes.append(mine["rss_kb"] / 1024)
    gates.check("W5", "cpu_ratio", statistics.median(ratios), 1.4)
    gates.check("W5", "wall_s", statistics.median(walls), 5.2)
    gates.check("W5", "rss_mb", statistics.median(sizes), 60, 0)


def gate_linear(gates):
    out = subprocess.run([run.TURNBUCKLE, "--linear"], check=True, capture_output=True, text=True).stdout
    row = json.loads(out)
    gates.check("linear", "step_ratio_over_2000_messages", row["ratio"], 1.3)


def gate_journal(gates, mock, runs):
    added = []
    for i in range(max(runs, JOURNAL_RUNS)):
        order = ["turnbuckle-journal", OURS][:: 1 if i % 2 == 0 else -1]
        spent = {peer: cpu_ms(once(peer, "W2", mock)) for peer in order}
        added.append((spent["turnbuckle-journal"] - spent[OURS]) / STEPS_OF_W2)
    gates.check("W2-journal", "added_ms_per_step", statistics.median(added), 0.4, 3)


def gate_wires(gates):
    """What decoding costs on each wire; the benchmark judges by itself and prints a line for each."""
    wires = ["cargo", "bench", "-q", "--locked", "-p", "turnbuckle-wire", "--bench", "decode"]
    gates.missed += subprocess.run(wires, cwd=HERE.parent).returncode != 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--peers", action="store_true")
    p.add_argument("--no-build", action="store_true")
    args = p.parse_args()
    if not args.no_build:
        build("turnbuckle-bench")
    count, seconds, runs = (8, 0.3, 2) if args.quick else (10, 1.0, 5)
    gates = Gates()
    mock = run.Service([run.MOCK], 0)
    try:
        for workload in ["W1", "W2"]:
            same_text(workload, mock)
        gate_pairs(gates, "W1", OURS, 1.3, mock, count, seconds)
        gate_pairs(gates, "W2", OURS, 1.3, mock, count, seconds)
        gates.check("W0", "cpu_ms", best(OURS, "W0", mock, runs + 2, cpu_ms, 2000), 0.10, 3)
        gates.check("W3", "turn_ms_p50", best(OURS, "W3", mock, runs, lambda r: r["turn_ms_p50"]), 54, 1)
        gates.check("W4b", "cpu_ratio", middle_ratio("W4b", mock, runs), 1.0)
        gate_w5(gates, mock, 3 if args.quick else 5)
        gate_w6(gates, mock, max(runs, W6_RUNS))
        gates.check("W1", "cold_ms", best(OURS, "W1", mock, runs, lambda r: r["cold_ms"]), 10, 1)
        read_anew(run.TURNBUCKLE)
        gates.check("W1", "rss_mb", best(OURS, "W1", mock, 1, lambda r: r["rss_kb"] / 1024), 12, 1)
        gate_pairs(gates, "W1", "turnbuckle-t2", 2.0, mock, count, seconds)
        gate_journal(gates, mock, runs)
        gate_linear(gates)
        gate_wires(gates)
    finally:
        mock.stop()
    if args.peers:
        subprocess.run([HERE / "setup.sh"], check=True)
        subprocess.run([HERE / "run.py", "--rounds", "1"], check=True)
    if gates.missed:
        raise SystemExit(f"{gates.missed} gates missed")


if __name__ == "__main__":
    main()
