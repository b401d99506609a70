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
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FITS, DOES_NOT_FIT = 0, 3
DAEMON_SETTINGS = {"DGXMM_SAFETY_MARGIN_GIB": "0.5", "DGXMM_OS_RESERVE_GIB": "0.5", "DGXMM_CALIBRATION_DELAY_S": "1"}


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


def full_refresh_figures(folder, refreshes):
    """A tick with NVML, and all that is read to say who holds the memory, in processor time of all threads."""
    program, double = folder / "bench" / "full_refresh", folder / "bench" / "libnvidia-ml.so.1"
    done = subprocess.run([program, "1000", "20", str(refreshes), double], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"measure.py: {program}: {done.stderr}")
    result = json.loads(done.stdout)
    gpu, tick, everything = result["gpu_ms"], result["tick_ms"], result["all_ms"]
    version = result["cgroup_version"]
    groups = f"{result['deployments']} engines' cgroups v{version}" if version else f"{result['deployments']} trees"
    what = f"meminfo, {groups}, NVML double with {result['gpu_processes']} processes"
    both = [sum(parts) for parts in zip(gpu, tick, strict=True)]
    yield Figure(f"processor time of a tick: {what}, on a host with {result['processes']:,} processes", 10, "ms",
                 statistics.median(both), f"{spread(both, 'ms')}; of it NVML {digits(statistics.median(gpu))} ms")
    yield Figure("the same, and every process of the host is read (on demand: `dgxmm memory`)", 10, "ms",
                 statistics.median(everything), spread(everything, "ms"))


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

    def address(self):
        host, port = self.environment["DGXMM_LISTEN"].rsplit(":", 1)
        return host, int(port)

    def request(self, method, path, document=None, expect=200):
        connection = http.client.HTTPConnection(*self.address(), timeout=30)
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != expect:
            sys.exit(f"measure.py: {method} {path} was answered with {answer.status}: {text.decode()}")
        return json.loads(text)

    def get(self, path):
        return self.request("GET", path)

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


def idle_figures(daemon, seconds, deployments, memory_limit_mib, processor_limit):
    time.sleep(3)
    before, began = daemon.processor_s(), time.monotonic()
    time.sleep(seconds)
    used, took = daemon.processor_s() - before, time.monotonic() - began
    memory = daemon.memory_mib()
    detail = f"PSS {memory['Pss']:.3g} MiB, anonymous {memory['Anonymous']:.3g} MiB"
    yield Figure(f"daemon's resident memory, idle with {deployments}", memory_limit_mib, "MiB", memory["Rss"], detail)
    yield Figure("daemon's processor time, the same", processor_limit, "% of a core", used / took * 100,
                 f"{used * 1000:.0f} ms in {took:.0f} s")


def decision_figure(daemon, model, runs, deployments):
    """From the request to the refusal with all its plans: what waits for nothing but the decision."""
    body = json.dumps({"model": str(model), "cache_ram_mib": 1024 * 1024})  # 1 TiB does not fit
    samples = []
    for _ in range(runs + 5):
        connection = http.client.HTTPConnection(*daemon.address(), timeout=30)
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
    return Figure(f"decision on a deploy that does not fit, with its plans, over HTTP, {deployments}", 5, "ms",
                  statistics.median(samples), spread(samples, "ms"))


def memory_is_back(pid):
    """The kernel has taken the process's memory: it is gone, or a zombie."""
    try:
        return "VmRSS" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def watch_release(pid, moments):
    while not memory_is_back(pid):
        time.sleep(0.0005)
    moments.append(time.perf_counter())


def release_figure(daemon, model, runs):
    """From the moment when the memory of what a plan stops is back until the plan goes on."""
    samples = []
    for _ in range(runs):
        half_mib = daemon.get("/api/v1/budget")["free_for_new_bytes"] // 2 // 1024 // 1024
        daemon.ask("deploy", str(model), "--ctx-size", "2048", "--parallel", "1", "--cache-ram", str(half_mib),
                   "--name", "victim")
        victim = daemon.get("/api/v1/deployments/victim")
        wanted = {"model": str(model), "ctx_size": 2048, "parallel": 1, "cache_ram_mib": half_mib * 5 // 4,
                  "name": "successor"}
        plan_set = daemon.request("POST", "/api/v1/plans", wanted)["plan_set"]
        listener = Listeners(*daemon.address(), 1)
        moments = []
        watcher = threading.Thread(target=watch_release, args=(victim["pid"], moments))
        watcher.start()
        daemon.request("POST", f"/api/v1/plans/{plan_set}/stop:{victim['id']}/apply", expect=202)
        noticed = listener.wait_for(b"wait until the memory is free: done", 60)
        watcher.join()
        listener.close()
        samples.append((noticed - moments[0]) * 1e3)
        daemon.wait_for(lambda: daemon.get("/api/v1/deployments/successor")["state"] == "ready", 60)
        daemon.ask("stop", "successor")
        for name in ("victim", "successor"):
            daemon.ask("rm", name)
    return Figure("a plan goes on when the memory of the engine that it stops is back, the slowest of the runs", 100,
                  "ms", max(samples), f"median {digits(statistics.median(samples))} ms, {spread(samples, 'ms')}")


def daemon_figures(program, environment, folder, model, options):
    settings = DAEMON_SETTINGS | {"DGXMM_LLAMA_SERVER": os.environ["DGXMM_LLAMA_SERVER"]}
    daemon = Daemon(program, environment | settings, folder)
    try:
        with deployed(daemon, model):
            yield from idle_figures(daemon, options.idle_seconds, "one deployment", 20, 0.3)
            yield fit_figure("`fit`, 49k vocabulary, through the daemon", 10, program, model, daemon.environment,
                             options.runs)
            yield decision_figure(daemon, model, options.runs, "one deployment")
        yield release_figure(daemon, model, 10)
    finally:
        daemon.end()


# --- the daemon of a full host ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def many_deployed(daemon, model, count):
    """So many real engines with a small context, ready and calibrated; they share the model's pages."""
    names = [f"bench-{number}" for number in range(1, count + 1)]
    try:
        for name in names:
            daemon.ask("deploy", str(model), "--ctx-size", "256", "--parallel", "1", "--cache-ram", "0", "--batch-size",
                       "64", "--ubatch-size", "64", "--name", name)
        daemon.wait_for(lambda: all(entry["measured"] and entry["state"] == "ready"
                                    for entry in daemon.get("/api/v1/deployments")), 60)
        time.sleep(3)  # the calibration of the last one
        yield
    finally:
        for name in names:
            with contextlib.suppress(subprocess.CalledProcessError):
                daemon.ask("stop", name)


class Listeners:
    """Connections to the event stream, each with what has arrived of it since it was last asked."""

    def __init__(self, host, port, count):
        self.selector = selectors.DefaultSelector()
        self.connections = []
        request = f"GET /api/v1/events HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n"
        for _ in range(count):
            connection = socket.create_connection((host, port), timeout=30)
            connection.sendall(request.encode())
            connection.setblocking(False)
            self.connections.append(connection)
            self.selector.register(connection, selectors.EVENT_READ, connection)
        self.wait_for(b"event: budget", 30)

    def wait_for(self, mark, limit_s):
        """When each connection has received that, the moment of the last."""
        waiting = {connection: b"" for connection in self.connections}
        until = last = time.perf_counter()
        until += limit_s
        while waiting:
            ready = self.selector.select(max(0, until - time.perf_counter()))
            if not ready:
                sys.exit(f"measure.py: {len(waiting)} of {len(self.connections)} listeners did not hear of {mark}")
            for key, _ in ready:
                received = key.data.recv(1 << 16)
                if not received:
                    sys.exit("measure.py: the daemon has closed an event stream")
                if key.data not in waiting:
                    continue
                waiting[key.data] += received
                if mark in waiting[key.data]:
                    del waiting[key.data]
                    last = time.perf_counter()
        return last

    def skip(self, seconds):
        """Takes in whatever comes."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            for key, _ in self.selector.select(left):
                key.data.recv(1 << 16)

    def close(self):
        self.selector.close()
        for connection in self.connections:
            connection.close()


def listener_figures(daemon, count, changes):
    """Memory of listeners on real sockets, and how long a change takes to the last of them (this reader included)."""
    before = daemon.memory_mib()["Rss"]
    listeners = Listeners(*daemon.address(), count)
    samples = []
    try:
        for number in range(changes):
            listeners.skip(0.7)
            began = time.perf_counter()
            daemon.request("PATCH", "/api/v1/deployments/bench-1", {"priority": number + 1})
            samples.append((listeners.wait_for(b"event: deployment.changed", 10) - began) * 1e3)
        listeners.skip(2)
        after = daemon.memory_mib()["Rss"]
    finally:
        listeners.close()
    yield Figure(f"more resident memory with {count:,} listeners to events, 20 deployments", 50, "MiB", after - before,
                 f"{before:.3g} MiB before")
    yield Figure("a change reaches all of them, the slowest of the runs", 200, "ms", max(samples),
                 f"median {digits(statistics.median(samples))} ms, {spread(samples, 'ms')}")


def crowded_daemon_figures(program, environment, folder, model, options):
    settings = DAEMON_SETTINGS | {"DGXMM_LLAMA_SERVER": os.environ["DGXMM_LLAMA_SERVER"]}
    daemon = Daemon(program, environment | settings, folder)
    deployments = "20 deployments (llama-server, 256 tokens each)"
    try:
        with many_deployed(daemon, model, 20):
            yield from idle_figures(daemon, options.idle_seconds, deployments, 30, 1)
            yield decision_figure(daemon, model, options.runs, "20 deployments")
            yield from listener_figures(daemon, 1000, 20)
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


def sets_figure(medians):
    """What the benchmark of the search counted."""
    entry = medians["find_sets/8_candidates"]["median"]
    return Figure("sets that the search of eight candidates asks for, at most", 200, "sets", entry["sets"],
                  f"whatever is needed and whoever is busy; {digits(entry['cpu_time'])} {entry['time_unit']} for all "
                  f"{entry['searches']:,.0f} searches")


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
        figures.extend(full_refresh_figures(folder, refreshes=100))
        figures.extend(scan_figures(folder, temporary, models=2000, runs=10))
        figures.extend(daemon_figures(program, environment, temporary, model, options))
        figures.extend(crowded_daemon_figures(program, environment, temporary, model, options))
    medians = micro_medians(folder)
    figures.append(plans_figure(medians))
    figures.append(sets_figure(medians))
    text = report(figures, list(micro_rows(medians)), folder, load)
    options.output.write_text(text)
    print(text)
    sys.exit(0 if all(figure.ok for figure in figures) else 1)


if __name__ == "__main__":
    main()
