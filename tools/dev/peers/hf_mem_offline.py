#!/usr/bin/env python3
"""Asks hf-mem about files of this machine: for each line of JSON on standard input one line with what it estimates, or
with its error. hf-mem itself asks the Hugging Face Hub; here its HTTP client gets what the Hub would send from local
files, and nothing else of it is changed. Runs in the environment that hf-mem is installed in.

A question: {"gguf": PATH} or {"config": {config.json}}, and "max_model_len", "batch_size", "kv_cache_dtype".
"""

import asyncio
import functools
import json
import pathlib
import re
import struct
import sys
import warnings

import hf_mem
import httpx2

GGUF_NAME, WEIGHTS_NAME = "model.gguf", "model.safetensors"


def weights_header(config):
    """A file of few tensors, with the types that such a model has: only the cache is asked about."""
    is_fp8 = config.get("quantization_config", {}).get("quant_method") in ("fp8", "modelopt")
    tensors = {"x": {"dtype": "BF16", "shape": [16], "data_offsets": [0, 32]}}
    if is_fp8:
        tensors["y"] = {"dtype": "F8_E4M3", "shape": [32], "data_offsets": [32, 64]}
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def files_of(question):
    if "gguf" in question:
        return {GGUF_NAME: question["gguf"]}
    config = question["config"]
    return {WEIGHTS_NAME: weights_header(config), "config.json": json.dumps(config).encode()}


def hub(files, request):
    """What the Hub answers."""
    name = request.url.path.rsplit("/", 1)[-1]
    if "/api/models/" in request.url.path:
        return httpx2.Response(200, json=[{"type": "file", "path": path} for path in files])
    if name not in files:
        return httpx2.Response(404)
    asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
    first, last = (int(asked[1]), int(asked[2])) if asked else (0, 10**8)
    if isinstance(files[name], bytes):
        return httpx2.Response(206, content=files[name][first:last + 1])
    with pathlib.Path(files[name]).open("rb") as file:
        file.seek(first)
        return httpx2.Response(206, content=file.read(last + 1 - first))


def estimate(question, client=httpx2.AsyncClient):
    # Looked up anew at each call of hf-mem.
    httpx2.AsyncClient = functools.partial(client, transport=httpx2.MockTransport(functools.partial(hub, files_of(question))))
    result = asyncio.run(hf_mem.arun(
        "local/model", experimental=True, gguf_file=GGUF_NAME if "gguf" in question else None,
        **{key: question[key] for key in ("max_model_len", "batch_size", "kv_cache_dtype")}))
    if result.kv_cache is None:
        return {"error": "it gives no KV cache for this model"}
    return {"cache_bytes": result.kv_cache}


def main():
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            answer = estimate(json.loads(line))
        except Exception as error:  # whatever its own code raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


main()
