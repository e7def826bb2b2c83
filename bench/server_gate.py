#!/usr/bin/env python3
"""Hold the server and the stores to their goals: one line per goal, exit 1 when one is missed.

    bench/server_gate.py            all gates, about ten minutes on two cores
    bench/server_gate.py --quick    fewer and shorter runs, under four minutes
    bench/server_gate.py --only S1,sqlite

S1, S2 and S5 are the server's own CPU per turn, beside that of a bare relay in the same run. The stores are measured on a
file, and on the Postgres that BENCH_POSTGRES names. See docs/performance.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gate  # noqa: E402
import run  # noqa: E402

POSTGRES = os.environ.get("BENCH_POSTGRES", "postgres://postgres@127.0.0.1:5432/test")
# The server gathers what comes within 25 ms of its last write, and so does this relay.
FLOOR = "relay-batch25"
# workload -> (goal in ms of CPU per turn, the client workload with the same text)
SERVED = {"S1": (1.2, "W1"), "S2": (2.0, "W2"), "S5": (6.5, "W2")}


def checked(name, workload, mock):
    row = run.through(name, workload, mock)
    if "error" in row:
        raise SystemExit(f"{workload} {name}: {row['error']}")
    return row


def cpu_ms(row):
    return row["relay_cpu_s"] * 1e3 / row["relay_turns"]


def gate_served(gates, workload, mock, runs):
    goal, client = SERVED[workload]
    floor_text = gate.once(run.REFERENCE, client, mock)["crc"]
    cpu, floors, walls, sizes = [], [], [], []
    for _ in range(runs):
        floors.append(cpu_ms(checked(FLOOR, workload, mock)))
        row = checked("turnbuckle", workload, mock)
        if row["crc"] != floor_text:
            raise SystemExit(f"{workload}: the text differs from the floor's")
        cpu.append(cpu_ms(row))
        walls.append(row["wall_s"])
        sizes.append(row["relay_rss_kb"] / 1024)
    print(f"{workload} {FLOOR} cpu_ms={statistics.median(floors):.2f}", flush=True)
    gates.check(workload, "cpu_ms", statistics.median(cpu), goal)
    if workload == "S5":
        gates.check(workload, "wall_s", statistics.median(walls), 6.5)
        gates.check(workload, "rss_mb", statistics.median(sizes), 100, 0)


def at_least(gates, name, what, value, goal):
    ok = value >= goal
    gates.missed += not ok
    print(f"{name} {what}={value:.0f} goal>={goal:g} {'ok' if ok else 'MISSED'}", flush=True)


def gate_store(gates, name, address, ceiling, quick):
    command = [run.STORES, address, *(["--quick"] if quick else [])]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {row["what"]: row for row in map(json.loads, out.splitlines())}
    filled, flat = rows["filled"], rows["flat"]
    print(f"{name} filled sessions={filled['sessions']} tenants={filled['tenants']} seconds={filled['seconds']:.0f}")
    at_least(gates, name, "steps_per_second", rows["steps-ceiling"]["per_second"], ceiling)
    gates.check(name, "step_ms_p99_at_300", rows["steps-paced"]["ms_p99"], 25, 1)
    gates.check(name, "turn_step_ms_p99_at_300", rows["turns-paced"]["ms_p99"], 25, 1)
    gates.check(name, "step_ratio_full", flat["step_ratio"], 1.3)
    gates.check(name, "turn_step_ratio_full", flat["turn_step_ratio"], 1.3)
    turns = rows["turns-ceiling"]
    print(f"{name} whole turns steps_per_second={turns['per_second']:.0f} turns_per_second={turns['turns_per_second']:.0f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--no-build", action="store_true")
    p.add_argument("--only", type=lambda s: s.split(","), default=[*SERVED, "sqlite", "postgres"])
    args = p.parse_args()
    if not args.no_build:
        gate.build("turnbuckle-bench-server", "turnbuckle-bench-stores")
    gates = gate.Gates()
    mock = run.Service([run.MOCK], 0)
    try:
        for workload in SERVED:
            if workload in args.only:
                gate_served(gates, workload, mock, 3)
    finally:
        mock.stop()
    if "sqlite" in args.only:
        with tempfile.TemporaryDirectory(dir=HERE.parent / "target") as folder:
            gate_store(gates, "sqlite", f"sqlite:{folder}", 3000, args.quick)
    if "postgres" in args.only:
        gate_store(gates, "postgres", POSTGRES, 1000, args.quick)
    if gates.missed:
        raise SystemExit(f"{gates.missed} gates missed")


if __name__ == "__main__":
    main()
