#!/usr/bin/env python3
"""Measures what the product promises about its own cost and writes bench/RESULTS.md; `./dev bench` calls it.

Whole processes are started and reaped here directly: no shell, no interpreter in the timed part. Exit code 1 when a
limit is missed. Environment: DGXMM, DGXMM_BENCH_DIR, DGXMM_LLAMA_SERVER, DGXMM_TEST_MODEL, DGXMM_COMMIT.
"""

import argparse
import contextlib
import dataclasses
import datetime
import http.client
import json
import os
import pathlib
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FITS, DOES_NOT_FIT = 0, 3


@dataclasses.dataclass
class Figure:
    what: str
    limit: float
    unit: str
    measured: float  # what is compared with the limit
    detail: str

    @property
    def ok(self):
        return self.measured <= self.limit

    def row(self):
        limit, measured = f"≤ {self.limit:g} {self.unit}", f"{digits(self.measured)} {self.unit}"
        return f"| {self.what} | {limit} | {measured} | {self.detail} | {'yes' if self.ok else '**no**'} |"


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values, unit):
    return f"p95 {digits(quantile(values, 0.95))} {unit}, least {digits(min(values))} {unit}, {len(values)} runs"


# --- whole processes --------------------------------------------------------------------------------------------------


def run_once(arguments, environment, accepted):
    """Wall time and processor time of one process, in milliseconds."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    before = time.perf_counter_ns()
    pid = os.posix_spawn(arguments[0], arguments, environment, file_actions=null)
    _, status, usage = os.wait4(pid, 0)
    wall_ms = (time.perf_counter_ns() - before) / 1e6
    code = os.waitstatus_to_exitcode(status)
    if code not in accepted:
        sys.exit(f"measure.py: {' '.join(arguments)} ended with {code}")
    return wall_ms, (usage.ru_utime + usage.ru_stime) * 1e3


def fit_figure(what, limit_ms, program, model, environment, runs):
    arguments = [program, "fit", str(model), "--json"]
    for _ in range(5):  # the files are in the page cache from here on
        run_once(arguments, environment, (FITS, DOES_NOT_FIT))
    samples = [run_once(arguments, environment, (FITS, DOES_NOT_FIT)) for _ in range(runs)]
    wall = [sample[0] for sample in samples]
    processor = statistics.median(sample[1] for sample in samples)
    return Figure(what, limit_ms, "ms", statistics.median(wall), f"{spread(wall, 'ms')}; processor {processor:.3g} ms")


def without_daemon(environment):
    """A port that nobody listens on, and that nobody can take meanwhile."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    return holder, environment | {"DGXMM_LISTEN": f"127.0.0.1:{holder.getsockname()[1]}"}


# --- one tick ---------------------------------------------------------------------------------------------------------


def refresh_figures(folder, processes, refreshes):
    program = folder / "bench" / "budget_refresh"
    done = subprocess.run([program, str(processes), str(refreshes)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"measure.py: {program}: {done.stderr}")
    result = json.loads(done.stdout)
    kinds = [(f"cgroup v{result['cgroup_version']}", "by_cgroup_us"), ("its process tree", "by_tree_us")]
    for source, key in kinds:
        if samples := [us / 1e3 for us in result[key]]:
            what = f"budget refresh, {result['processes']} processes, a deployment measured by {source}"
            yield Figure(what, 2, "ms", statistics.median(samples), spread(samples, "ms"))


# --- the catalog ------------------------------------------------------------------------------------------------------


def scan_figures(folder, temporary, models, runs):
    program = folder / "bench" / "scan_models"
    place = temporary / "models"
    place.mkdir()
    done = subprocess.run([program, str(models), str(runs), place], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"measure.py: {program}: {done.stderr}")
    result = json.loads(done.stdout)
    cold, again = result["cold_ms"], result["again_ms"]
    processor = statistics.median(result["cold_processor_ms"])
    what = f"scan of {models:,} models: a tenth with 150k tokens, most with 32k, a fifth in safetensors"
    yield Figure(what, 1000, "ms", statistics.median(cold), f"{spread(cold, 'ms')}; processor {digits(processor)} ms")
    yield Figure("the same again, nothing changed", 250, "ms", statistics.median(again), spread(again, "ms"))
    header_mib, peak_mib = (result[key] / 1024 / 1024 for key in ("header_bytes", "parse_peak_bytes"))
    yield Figure("memory to read a header of 150k tokens", round(2 * header_mib, 1), "MiB", peak_mib,
                 f"most that was allocated at once; the header has {header_mib:.3g} MiB, the limit is twice that")


# --- the daemon -------------------------------------------------------------------------------------------------------


class Daemon:
    """`dgxmm serve` on a free port, and the commands that ask it."""

    def __init__(self, program, environment, folder):
        self.program = program
        self.log = folder / "daemon.log"
        self.environment = environment | {"DGXMM_LISTEN": "127.0.0.1:0"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([program, "serve"], env=self.environment, stdout=log, stderr=log)
        address = self.wait_for(lambda: re.search(r"listening on http://(\S+)", self.log.read_text()), 20)
        self.environment["DGXMM_LISTEN"] = address.group(1)

    def wait_for(self, condition, limit_s):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if found := condition():
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the daemon did not come that far:\n{self.log.read_text()}")

    def ask(self, *arguments):
        command = [self.program, *arguments, "--json"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True).stdout

    def processor_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return {name: int(kib) / 1024 for name, kib in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@contextlib.contextmanager
def deployed(daemon, model):
    """One small deployment, ready and calibrated, so that the daemon has nothing left to do about it."""
    daemon.ask("deploy", str(model), "--ctx-size", "2048", "--parallel", "1", "--cache-ram", "0", "--name", "bench")
    try:
        daemon.wait_for(lambda: '"measured_bytes"' in daemon.ask("calibration"), 60)
        yield
    finally:
        daemon.ask("stop", "bench")


def idle_figures(daemon, seconds):
    time.sleep(3)
    before, began = daemon.processor_s(), time.monotonic()
    time.sleep(seconds)
    used, took = daemon.processor_s() - before, time.monotonic() - began
    memory = daemon.memory_mib()
    detail = f"PSS {memory['Pss']:.3g} MiB, anonymous {memory['Anonymous']:.3g} MiB"
    yield Figure("daemon's resident memory, idle with one deployment", 20, "MiB", memory["Rss"], detail)
    yield Figure("daemon's processor time, the same", 0.3, "% of a core", used / took * 100,
                 f"{used * 1000:.0f} ms in {took:.0f} s")


def decision_figure(daemon, model, runs):
    """From the request to the refusal with all its plans: what waits for nothing but the decision."""
    host, port = daemon.environment["DGXMM_LISTEN"].rsplit(":", 1)
    body = json.dumps({"model": str(model), "cache_ram_mib": 1024 * 1024})  # 1 TiB does not fit
    samples = []
    for _ in range(runs + 5):
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.connect()
        began = time.perf_counter_ns()
        connection.request("POST", "/api/v1/deployments", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        samples.append((time.perf_counter_ns() - began) / 1e6)
        connection.close()
        if answer.status != 409:
            sys.exit(f"measure.py: a deploy that cannot fit was answered with {answer.status}")
    samples = samples[5:]
    return Figure("decision on a deploy that does not fit, with its plans, over HTTP", 5, "ms",
                  statistics.median(samples), spread(samples, "ms"))


def daemon_figures(program, environment, folder, model, options):
    settings = {"DGXMM_SAFETY_MARGIN_GIB": "0.5", "DGXMM_OS_RESERVE_GIB": "0.5", "DGXMM_CALIBRATION_DELAY_S": "1",
                "DGXMM_LLAMA_SERVER": os.environ["DGXMM_LLAMA_SERVER"]}
    daemon = Daemon(program, environment | settings, folder)
    try:
        with deployed(daemon, model):
            yield from idle_figures(daemon, options.idle_seconds)
            yield fit_figure("`fit`, 49k vocabulary, through the daemon", 10, program, model, daemon.environment,
                             options.runs)
            yield decision_figure(daemon, model, options.runs)
    finally:
        daemon.end()


# --- the report -------------------------------------------------------------------------------------------------------


def micro_medians(folder):
    """By the benchmark's name: its aggregates."""
    command = [folder / "bench" / "micro_benchmarks", "--benchmark_format=json", "--benchmark_repetitions=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    by_name = {}
    for entry in json.loads(done.stdout)["benchmarks"]:
        if entry.get("run_type") == "aggregate":
            by_name.setdefault(entry["run_name"], {})[entry["aggregate_name"]] = entry
    return by_name


def plans_figure(medians):
    """What the planner takes for a crowded host, of the benchmark of that name."""
    entry = medians["make_plans/50_deployments_200_models"]["median"]
    milliseconds = entry["cpu_time"] * {"ns": 1e-6, "us": 1e-3, "ms": 1}[entry["time_unit"]]
    return Figure("all plans for one request, 50 deployments, 200 models", 10, "ms", milliseconds,
                  "processor time, median of 5 repetitions")


def micro_rows(medians):
    for name, aggregates in medians.items():
        median = aggregates["median"]
        rate = f"{median['bytes_per_second'] / 1e9:.2g} GB/s" if "bytes_per_second" in median else ""
        yield f"| {name} | {digits(median['cpu_time'])} {median['time_unit']} | {rate} |"


def value_of(file, key):
    found = re.search(rf"^{key}\s*:\s*(.+)$", pathlib.Path(file).read_text(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def build_type(folder):
    found = re.search(r"^CMAKE_BUILD_TYPE:\w+=(\w+)$", (folder / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else "unknown"


def report(figures, micro, folder, load):
    memory_gib = int(value_of("/proc/meminfo", "MemTotal").split()[0]) / 1024 / 1024
    cpu = value_of("/proc/cpuinfo", "model name") if platform.machine() == "x86_64" else platform.machine()
    busy = " (**busy**: wall times include waiting for a core)" if load[0] > os.cpu_count() / 2 else ""
    commit = os.environ.get("DGXMM_COMMIT") or "unknown"
    niceness = os.nice(0)
    priority = f"; measured with niceness {niceness}" if niceness else ""
    lines = [
        "# Benchmark results", "",
        "Written by `./dev bench`. Whole processes: median against the limit, files in the page cache.", "",
        f"- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"- commit: {commit} (\"+\": with changes), build type {build_type(folder)}",
        f"- machine: {cpu}, {os.cpu_count()} cores, {memory_gib:.1f} GiB, Linux {platform.release()}",
        f"- load average before: {load[0]:.2f}{busy}{priority}", "",
        "## Limits", "",
        "| what | limit | measured | detail | kept |", "| --- | --- | --- | --- | --- |",
        *(figure.row() for figure in figures), "",
        "## Parts (Google Benchmark, median of 5 repetitions)", "",
        "| what | processor time | rate |", "| --- | --- | --- |", *micro, "",
    ]
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="of each whole process (%(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=60, help="that the daemon is watched (%(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench" / "RESULTS.md")
    return parser.parse_args()


def main():
    options = parse_arguments()
    program, model = os.environ["DGXMM"], os.environ["DGXMM_TEST_MODEL"]
    folder = pathlib.Path(os.environ["DGXMM_BENCH_DIR"])
    load = os.getloadavg()
    figures = []
    with tempfile.TemporaryDirectory(prefix="dgxmm-bench-") as temporary:
        temporary = pathlib.Path(temporary)
        large = temporary / "large.gguf"
        subprocess.run([folder / "bench" / "write_model", large], check=True)
        # Nothing of this user's settings and state.
        environment = {"PATH": os.environ["PATH"], "HOME": str(temporary), "LANG": "C.UTF-8"}
        holder, offline = without_daemon(environment)
        with holder:
            figures.append(fit_figure("`fit`, 49k vocabulary", 10, program, model, offline, options.runs))
            figures.append(fit_figure("`fit`, 150k vocabulary", 20, program, large, offline, options.runs))
        figures.extend(refresh_figures(folder, processes=300, refreshes=1000))
        figures.extend(scan_figures(folder, temporary, models=2000, runs=10))
        figures.extend(daemon_figures(program, environment, temporary, model, options))
    medians = micro_medians(folder)
    figures.append(plans_figure(medians))
    text = report(figures, list(micro_rows(medians)), folder, load)
    options.output.write_text(text)
    print(text)
    sys.exit(0 if all(figure.ok for figure in figures) else 1)


if __name__ == "__main__":
    main()
