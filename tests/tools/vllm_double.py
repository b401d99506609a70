#!/usr/bin/env python3
"""A double of `vllm serve` for tests of dgxmm. It is not vLLM, and computes nothing.

It takes the arguments of vLLM 0.32 (also as api_server.py with --model, as its older images run it), prints lines that a real one printed (unit/core/engine/data), answers the HTTP calls
that dgxmm makes as a real one answers them, and holds real memory: the bytes of the model's safetensors files and
--kv-cache-memory-bytes. Asleep it gives back the pool (level 1) or both (level 2), and after a sleep of level 1 it keeps
the copies of the weights, as vLLM does.

How it behaves is said by the file vllm_double.json in the model's folder, read anew whenever it matters:
  "start"  "ready" (default), "slow" (loads until the file vllm_double.go is there), "dies" while loading,
           "not_enough_free", "pool_too_small", "cannot_sleep" (each ends as vLLM does)
  "serve"  "normal" (default), "wedged" (accepts connections and never answers), "unavailable" (503)
  "sleep"  "normal" (default), "refuses", "dies" (as soon as it sleeps)
  "wake"   "normal" (default), "dies", "refuses"
  "hold"   true: completions do not end
  "middleware"  "ignored": --middleware has no effect
"""
import asyncio
import importlib
import json
import mmap
import os
import pathlib
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlparse

DATA = pathlib.Path(__file__).resolve().parent.parent / "unit/core/engine/data"
PAGE = mmap.PAGESIZE
GIB = 1024**3


def parse_arguments(words):
    # As the module that older images run, it has the model as an option.
    if pathlib.Path(sys.argv[0]).name == "api_server.py" and words[:1] == ["--model"]:
        words = ["serve"] + words[1:]
    if len(words) < 2 or words[0] != "serve" or words[1].startswith("-"):
        sys.exit("usage: vllm_double.py serve MODEL [--option VALUE]...")
    options, name = {}, None
    for word in words[2:]:
        if word.startswith("--"):
            name = word
            options[name] = True
        elif name is None:
            sys.exit(f"vllm_double.py: error: unrecognized arguments: {word}")
        else:
            options[name] = word
            name = None
    return pathlib.Path(words[1]), options


def say(line):
    print(line, flush=True)


def log(process, source, text, level="INFO"):
    say(f"({process} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{source}] {text}")


def recording(name):
    return (DATA / f"vllm-0.32.0-cpu-{name}.log").read_text().splitlines()


class Region:
    """Memory that is really held: every page is written to."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, max(size, PAGE))
        for offset in range(0, size, PAGE):
            self.map[offset] = 1

    def release(self):
        self.map.close()


class Engine:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.name = options.get("--served-model-name", str(folder))
        self.weights_size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        self.pool_size = int(options.get("--kv-cache-memory-bytes", 0))
        self.developer = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
        self.middleware = self.imported(options.get("--middleware"))
        self.weights = self.copies = self.pool = None
        self.condition = threading.Condition()
        self.level = 0  # of the metrics: that of the last sleep, until all of it is awake
        self.paused = False
        self.asleep = set()
        self.running = self.generated_tokens = 0

    def behaviour(self, key, default="normal"):
        try:
            return json.loads((self.folder / "vllm_double.json").read_text()).get(key, default)
        except (FileNotFoundError, json.JSONDecodeError):  # none, or it is being written
            return default

    @staticmethod
    def imported(name):
        if name is None:
            return None
        module, name = name.rsplit(".", 1)
        return getattr(importlib.import_module(module), name)

    # --- the start

    def start(self):
        start = self.behaviour("start", "ready")
        lines = recording("ready")
        loading = next(i for i, line in enumerate(lines) if "Starting to load model" in line)
        serving = next(i for i, line in enumerate(lines) if "Starting vLLM server" in line)
        if start == "pool_too_small":
            self.end_as(recording("too-small-pool"))
        if start == "cannot_sleep" and "--enable-sleep-mode" in self.options:
            self.end_as(["pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
                         "  Value error, Sleep mode is not supported on current platform. [type=value_error]"])
        for line in lines[:loading]:
            say(line)
        if start == "not_enough_free":
            share = float(self.options.get("--gpu-memory-utilization", 0.9))
            self.end_as([f"ValueError: Free memory on device cuda:0 (12.3/121.69 GiB) on startup is less than desired GPU "
                         f"memory utilization ({share}, {share * 121.69:.2f} GiB). Decrease GPU memory utilization or "
                         "reduce GPU memory used by other processes."])
        say(lines[loading])
        while start == "slow" and not (self.folder / "vllm_double.go").exists():
            time.sleep(0.02)
        self.weights = Region(self.weights_size)
        log("EngineCore", "gpu_model_runner.py:5391",
            f"Model loading took {self.weights_size / GIB:.2f} GiB memory and 0.010000 seconds")
        if start == "dies":
            self.end_as(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total "
                         "capacity of 121.69 GiB of which 1.07 GiB is free."])
        self.compile()
        self.pool = Region(self.pool_size)
        for line in lines[loading + 1:serving + 1]:
            say(line)

    @staticmethod
    def compile():
        """As torch.compile does: the first start writes to the cache, the next ones find it."""
        root = os.environ.get("VLLM_CACHE_ROOT")
        if root is None:
            return
        cache = pathlib.Path(root) / "torch_compile_cache" / "vllm_double"
        found = cache.exists()
        log("EngineCore", "backends.py:1", "Directly load the compiled graph(s)" if found else "Compiling a graph")
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.touch()

    @staticmethod
    def end_as(lines):
        for line in lines:
            say(line)
        os._exit(1)

    # --- asleep and awake

    def sleep(self, level):
        with self.condition:
            self.paused = True
            self.condition.wait_for(lambda: self.running == 0 or not self.paused)
            if not self.paused:
                return
            if level >= 1:
                self.drop(level)
            self.level = level

    def drop(self, level):
        freed = 0
        if "weights" not in self.asleep:
            if level == 1 and self.copies is None:
                self.copies = Region(self.weights_size)
            self.weights.release()
            freed += self.weights_size
        if "kv_cache" not in self.asleep:
            self.pool.release()
            freed += self.pool_size
        kept = self.weights_size if level == 1 else 0
        log("EngineCore", "cumem.py:282",
            f"CuMemAllocator: sleep freed {freed / GIB:.2f} GiB memory in total, of which {kept / GIB:.2f} GiB is "
            f"backed up in CPU and the rest {(freed - kept) / GIB:.2f} GiB is discarded directly.")
        self.asleep = {"weights", "kv_cache"}

    def wake(self, tags):
        with self.condition:
            if "weights" in tags and "weights" in self.asleep:
                self.weights = Region(self.weights_size)
            if "kv_cache" in tags and "kv_cache" in self.asleep:
                self.pool = Region(self.pool_size)
            self.asleep -= set(tags)
            if not self.asleep:
                self.paused, self.level = False, 0
                self.condition.notify_all()
            return not self.asleep

    def complete(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.paused)
            self.running += 1
        while self.behaviour("hold", False):
            time.sleep(0.02)
        with self.condition:
            self.running -= 1
            self.generated_tokens += 1
            self.condition.notify_all()

    def metrics(self):
        labels = f'engine="0",model_name="{self.name}"'
        states = {"awake": not self.paused, "weights_offloaded": self.level == 1, "discard_all": self.level == 2}
        lines = [f"vllm:num_requests_running{{{labels}}} {float(self.running)}",
                 f"vllm:num_requests_waiting{{{labels}}} 0.0",
                 f"vllm:generation_tokens_total{{{labels}}} {float(self.generated_tokens)}"]
        lines += [f'vllm:engine_sleep_state{{{labels},sleep_state="{state}"}} {float(on)}'
                  for state, on in states.items()]
        return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = None

    def do_GET(self):
        self.answer(self.get)

    def do_POST(self):
        self.answer(self.post)

    def answer(self, route):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        serve = self.engine.behaviour("serve")
        while serve == "wedged":
            time.sleep(0.1)
            serve = self.engine.behaviour("serve")
        if serve == "unavailable":
            return self.reply(503, "")
        refusal = self.refused_by_middleware()
        if refusal:
            return self.reply(*refusal)
        url = urlparse(self.path)
        return route(url.path, parse_qs(url.query), body)

    def refused_by_middleware(self):
        """As vLLM's server has it: an ASGI application around its own. The status and body of an answer in its stead."""
        if self.engine.middleware is None or self.engine.behaviour("middleware") == "ignored":
            return None
        passed, sent = [], []

        async def application(scope, receive, send):
            passed.append(True)

        async def send(message):
            sent.append(message)

        url = urlparse(self.path)
        scope = {"type": "http", "method": self.command, "path": unquote(url.path), "raw_path": url.path.encode(),
                 "query_string": url.query.encode(), "root_path": "",
                 "headers": [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]}
        asyncio.run(self.engine.middleware(application)(scope, None, send))
        return None if passed else (sent[0]["status"], sent[1]["body"].decode())

    def get(self, path, query, body):
        engine = self.engine
        if path == "/health":
            return self.reply(200, "")
        if path == "/v1/models":
            return self.reply(200, json.dumps({"object": "list", "data": [
                {"id": engine.name, "object": "model", "owned_by": "vllm", "root": str(engine.folder)}]}))
        if path == "/metrics":
            return self.reply(200, engine.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        if path == "/version":
            return self.reply(200, '{"version":"0.32.0"}')
        if path == "/is_sleeping" and engine.developer:
            return self.reply(200, json.dumps({"is_sleeping": engine.paused or bool(engine.asleep)}))
        return self.reply(404, '{"detail":"Not Found"}')

    def post(self, path, query, body):
        engine = self.engine
        if path == "/v1/completions":
            engine.complete()
            return self.reply(200, json.dumps({"object": "text_completion", "model": engine.name,
                                               "choices": [{"index": 0, "text": " double", "finish_reason": "length"}]}))
        if not engine.developer:
            return self.reply(404, '{"detail":"Not Found"}')
        if path == "/sleep":
            if engine.behaviour("sleep") == "refuses":
                return self.reply(500, '{"error":{"message":"Internal Server Error","code":500}}')
            level = int(query.get("level", ["1"])[0])
            engine.sleep(level)
            self.reply(200, json.dumps({"status": "sleeping", "level": level}))
            if engine.behaviour("sleep") == "dies":
                engine.end_as(["RuntimeError: EngineCore encountered a fatal error."])
            return None
        if path == "/wake_up":
            tags = query.get("tags", ["weights", "kv_cache"])
            if engine.behaviour("wake") == "dies":
                engine.end_as(["CUDA Error: out of memory at csrc/cumem_allocator.cpp:62"])
            if engine.behaviour("wake") == "refuses":
                return self.reply(500, '{"error":{"message":"Internal Server Error","code":500}}')
            awake = engine.wake(tags)
            return self.reply(200, json.dumps({"status": "awake" if awake else "sleeping", "tags": query.get("tags")}))
        if path == "/collective_rpc":
            if json.loads(body).get("method") != "reload_weights" or "weights" in engine.asleep:
                return self.reply(500, '{"error":{"message":"Internal Server Error","code":500}}')
            return self.reply(200, '{"results":[null]}')
        return self.reply(404, '{"detail":"Not Found"}')

    def reply(self, status, body, content_type="application/json"):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, text, *arguments):
        pass

    def log_request(self, code="-", size="-"):
        host, port = self.client_address
        say(f'INFO:     {host}:{port} - "{self.requestline}" {int(code)} OK')


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that has left


def main():
    folder, options = parse_arguments(sys.argv[1:])
    Handler.engine = Engine(folder, options)
    try:
        server = Server((options.get("--host", "0.0.0.0"), int(options.get("--port", 8000))), Handler,
                        bind_and_activate=False)
        server.server_bind()
    except OSError as error:
        sys.exit(str(error))
    Handler.engine.start()
    server.server_activate()
    say("INFO:     Application startup complete.")
    server.serve_forever()


if __name__ == "__main__":
    main()
