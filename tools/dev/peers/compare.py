#!/usr/bin/env python3
"""Writes docs/accuracy.md to standard output: what dgxmm estimates, what other programs estimate of the same inputs, and
what was measured. `./dev accuracy` calls it; a program that is not given is said not to have been run.

compare.py --rows FOLDER --models FOLDER --commit NAME [--gguf-parser PROGRAM] [--hf-mem PYTHON] [--fit-params PROGRAM]
  --rows    what the truth tests wrote (DGXMM_ACCURACY_DIR)
  --models  what write_models wrote
"""

import argparse
import collections
import dataclasses
import datetime
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

import accuracy  # noqa: E402

MIB = 2**20
LLAMACPP_CONTEXTS = ("8192", "32768", "131072")
BITS_OF_TYPE = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q4_0": 4.5, "iq4_nl": 4.5}
HF_MEM_TYPES = ("auto", "bfloat16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
TELLING_VLLM = (
    "Llama-3.1-8B", "Qwen3-30B-A3B", "gpt-oss-120b", "Gemma-3-27b", "Gemma-4-26B-A4B", "Llama-4-Scout", "DeepSeek-V3",
    "Kimi-K2", "GLM-5.2", "DeepSeek-V3.2", "DeepSeek-V4-Flash", "Qwen3-Next-80B-A3B", "Qwen3.5-27B", "Nemotron-3-Super-120B",
    "Kimi-Linear-48B", "Jamba-v0.1", "Falcon-H1-0.5B")
WHY_LOOSE = {
    "small_matrix": "without flash attention and with few cells a slot, Q, K and V are counted together with the attention "
                    "matrix, which ggml never holds at once",
    "indexer_scores": "the scores of DeepSeek V4's indexer are counted beside everything else; ggml often fits them into "
                      "its gaps",
}

WHY_LEFT_OUT = {
    "later_output_rows": "buffer for logits that grows when more rows are asked for",
}


@dataclasses.dataclass
class Case:
    """One configuration: its cache in bytes as measured, and as each program has it (None: no answer)."""
    model: str
    kind: str
    settings: dict
    measured: int
    answers: dict
    errors: dict = dataclasses.field(default_factory=dict)


def settings_of(row):
    return dict(pair.split("=", 1) for pair in row["configuration"].split())


def ask(command, questions):
    """One line of JSON for each question, in order."""
    text = "".join(json.dumps(question) + "\n" for question in questions)
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(questions):
        raise RuntimeError(f"{command[0]}: {len(answers)} answers to {len(questions)} questions")
    return answers


def take(cases, program, answers):
    for case, answer in zip(cases, answers):
        case.answers[program] = None if answer.get("error") else answer["cache_bytes"]
        if answer.get("error"):
            case.errors[program] = answer["error"]


# --- llama.cpp --------------------------------------------------------------------------------------------------------

def truth_models():
    return {m["name"]: m for m in json.loads((ROOT / "tests/truth/llamacpp_models.json").read_text())["models"]}


def without_twins(models):
    """Models whose keys differ in the experts only have the same cache: the first of them stands for all."""
    seen, kept = set(), {}
    for name, model in models.items():
        keys = json.dumps([model["architecture"], {k: v for k, v in model["metadata"].items() if "expert" not in k}])
        if keys not in seen and not name.endswith(("_tiny", "_tiny_mtp")):
            seen.add(keys)
            kept[name] = model
    return kept


def llamacpp_cases(rows, models):
    found = {}
    for row in rows:
        if not row["source"].startswith("llamacpp.csv") or row["quantity"] not in ("kv", "state"):
            continue
        s = settings_of(row)
        if row["ours_bytes"] is None or row["model"] not in models or s["ctx_size"] not in LLAMACPP_CONTEXTS:
            continue
        if (s["source"], s["device"], s["flash_attn"], s["swa_full"], s["n_rs_seq"]) != ("probe", "offload", "on", "0", "0"):
            continue
        # The cache of a window depends on the micro-batch; the measures of the longest context have 512 or 1024.
        if s["n_outputs_max"] != s["parallel"] or (s["ubatch"] != "512" and s["ctx_size"] != "131072"):
            continue
        if s["type_k"] != s["type_v"]:
            continue
        case = found.setdefault(row["source"], Case(row["model"], row["kind"], s, 0, {"dgxmm": 0}))
        case.measured += row["measured_bytes"]
        case.answers["dgxmm"] += row["ours_bytes"]
    cases, seen = [], set()
    for case in found.values():  # measured once for each of several weights that a test loads
        key = (case.model, json.dumps(case.settings))
        if key not in seen:
            seen.add(key)
            cases.append(case)
    return cases


def naive_llamacpp(case, model):
    keys = {key.split(".", 1)[1]: value for key, value in model["metadata"].items()}
    heads = keys.get("attention.head_count") or 0
    kv_heads = keys.get("attention.head_count_kv", heads)
    most = max(kv_heads) if isinstance(kv_heads, list) else kv_heads
    most_heads = max(heads) if isinstance(heads, list) else heads
    size = keys.get("attention.key_length") or (keys["embedding_length"] // most_heads if most_heads else 0)
    elements = keys["block_count"] * 2 * most * size * int(case.settings["ctx_size"])
    return int(elements * BITS_OF_TYPE[case.settings["type_k"]] / 8)


def ask_about_llamacpp(cases, models, options):
    for case in cases:
        case.answers["naive formula"] = naive_llamacpp(case, models[case.model])
    path = {case.model: str(options.models / "truth" / f"{case.model}.gguf") for case in cases}
    if options.gguf_parser:
        take(cases, "gguf-parser", ask([options.gguf_parser], [
            {"path": path[c.model], "flash_attn": True, "type_k": c.settings["type_k"], "type_v": c.settings["type_v"],
             **{key: int(c.settings[key]) for key in ("ctx_size", "parallel", "batch", "ubatch")}} for c in cases]))
    if options.hf_mem:
        take(cases, "hf-mem", ask([options.hf_mem, str(HERE / "hf_mem_offline.py")], [
            # One pool for all slots, or a batch of slots that share the context among them.
            {"gguf": path[c.model], "kv_cache_dtype": c.settings["type_k"].upper(),
             **({"max_model_len": int(c.settings["ctx_size"]), "batch_size": 1} if c.settings["kv_unified"] == "1" else
                {"max_model_len": int(c.settings["ctx_size"]) // int(c.settings["parallel"]),
                 "batch_size": int(c.settings["parallel"])})} for c in cases]))


# --- vLLM -------------------------------------------------------------------------------------------------------------

def vllm_cases(rows):
    cases = []
    for row in rows:
        s = settings_of(row)
        if not row["source"].startswith("vllm_vectors.csv") or row["ours_bytes"] is None or row["measured_bytes"] == 0:
            continue
        if s["speculative_tokens"] == "0" and s["hybrid_manager"] == "1" and s["kv_cache_dtype"] in HF_MEM_TYPES:
            cases.append(Case(row["model"], row["kind"], s, row["measured_bytes"], {"dgxmm": row["ours_bytes"]}))
    return cases


def text_part(config):
    return config.get("text_config") or config


def naive_vllm(case, config):
    part = text_part(config)
    heads = part.get("num_attention_heads")
    if not heads or not part.get("num_hidden_layers"):
        return None
    size = part.get("head_dim") or part["hidden_size"] // heads
    kv_heads = part.get("num_key_value_heads") or heads
    # What "auto" is, the formula does not know: 16 bit.
    bytes_each = 1 if case.settings["kv_cache_dtype"].startswith("fp8") else 2
    return part["num_hidden_layers"] * 2 * kv_heads * size * int(case.settings["length"]) * bytes_each


def ask_about_vllm(cases, options):
    configs = json.loads((ROOT / "tests/truth/vllm_configs.json").read_text())
    for case in cases:
        case.answers["naive formula"] = naive_vllm(case, configs[case.model])
    if options.hf_mem:
        def dtype(case):
            config = configs[case.model]
            has_type = any(p.get(key) for p in (config, text_part(config)) for key in ("torch_dtype", "dtype"))
            # The short form of the file in tests/truth may lack what the real one has; vLLM takes 16 bit then.
            asked = case.settings["kv_cache_dtype"]
            return "bfloat16" if asked == "auto" and not has_type else asked

        take(cases, "hf-mem", ask([options.hf_mem, str(HERE / "hf_mem_offline.py")], [
            {"config": configs[c.model], "max_model_len": int(c.settings["length"]), "batch_size": 1,
             "kv_cache_dtype": dtype(c)} for c in cases]))


# --- llama.cpp's own projection ---------------------------------------------------------------------------------------

def small_model_cases(rows, options):
    """(row by quantity, what llama-fit-params prints in MiB or why it does not) of starts of the installed llama-server;
    without those whose slots share one pool, as that program cannot be told so."""
    starts = collections.defaultdict(dict)
    for row in rows:
        s = settings_of(row)
        if row["source"] == "log" and (s["kv_unified"] == "0" or s["parallel"] == "1"):
            starts[row["model"], row["configuration"]][row["quantity"]] = row
    results = []
    for (model, _), quantities in starts.items():
        s = settings_of(next(iter(quantities.values())))
        run = subprocess.run(
            [options.fit_params, "-m", str(options.models / "small" / f"{model}.gguf"), "-c", s["ctx_size"],
             "-np", s["parallel"], "-ctk", s["type_k"], "-ctv", s["type_v"], "-b", "2048", "-ub", "512", "-fa", "on",
             "--fit-print", "on"], capture_output=True, text=True)
        printed = re.search(r"^Host (\d+) (\d+) (\d+)", run.stdout, re.MULTILINE)
        words = (run.stderr.strip() or run.stdout.strip() or "nothing").splitlines()[-1]
        results.append((quantities, [int(number) for number in printed.groups()] if printed else words))
    return results


# --- the page ---------------------------------------------------------------------------------------------------------

def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def programs_of(cases):
    order = ("dgxmm", "gguf-parser", "hf-mem", "naive formula")
    return [p for p in order if any(p in case.answers for case in cases)]


def ratio_text(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def summary(cases):
    rows = []
    for program in programs_of(cases):
        ratios = [c.answers[program] / c.measured for c in cases if c.answers.get(program) is not None]
        close = sum(1 for r in ratios if abs(r - 1) <= 0.05)
        exact = sum(1 for c in cases if c.answers.get(program) == c.measured)
        spread = [ratio_text(f(ratios)) for f in (min, statistics.median, max)] if ratios else ["–"] * 3
        rows.append([program, f"{len(ratios)} of {len(cases)}", *spread, f"{close} ({100 * close // len(cases)} %)", exact])
    return markdown_table(["program", "answers", "lowest", "median", "highest", "within 5 %", "to the byte"], rows)


def by_kind(cases):
    """Median ratio and, of those answered, the worst, for each kind of model."""
    programs = programs_of(cases)
    kinds = [kind for kind in accuracy.KINDS if any(c.kind == kind for c in cases)]
    rows = []
    for kind in kinds:
        cells = []
        of_kind = [c for c in cases if c.kind == kind]
        for program in programs:
            ratios = [c.answers[program] / c.measured for c in of_kind if c.answers.get(program) is not None]
            cells.append(f"{ratio_text(min(ratios))} … {ratio_text(max(ratios))}" if ratios else "no answer")
        rows.append([kind, len(of_kind), *cells])
    return markdown_table(["kind of model", "cases", *programs], rows)


def telling(cases):
    programs = programs_of(cases)
    rows = []
    for case in cases:
        context = case.settings.get("ctx_size") or f"{case.settings['length']}, {case.settings['kv_cache_dtype']}"
        cells = []
        for program in programs:
            answer = case.answers.get(program)
            cells.append("no answer" if answer is None else f"{answer / MIB:,.0f} ({ratio_text(answer / case.measured)})")
        rows.append([case.model, case.kind, context, f"{case.measured / MIB:,.1f}", *cells])
    return markdown_table(["model", "kind", "context", "engine, MiB", *programs], rows)


def telling_llamacpp(cases, models):
    """Of each architecture the model with the most weights, at the longest context, one slot, f16."""
    best = {}
    for case in cases:
        s = case.settings
        if (s["ctx_size"], s["parallel"], s["type_k"]) != ("131072", "1", "f16"):
            continue
        architecture = models[case.model]["architecture"]
        if architecture not in best or models[best[architecture].model]["weight_bytes"] < models[case.model]["weight_bytes"]:
            best[architecture] = case
    return list(best.values())


def telling_vllm(cases):
    best = {}
    for case in cases:
        if case.model in TELLING_VLLM:
            key = case.settings["kv_cache_dtype"] == "auto", int(case.settings["length"])
            best.setdefault(case.model, (key, case))
            if best[case.model][0] < key:
                best[case.model] = (key, case)
    return [best[name][1] for name in TELLING_VLLM if name in best]


def no_answers(cases):
    """Which models a program gave no answer for, and its words."""
    lines = []
    for program in programs_of(cases):
        refused = collections.defaultdict(set)
        for case in cases:
            if case.answers.get(program) is None:
                text = case.errors.get(program, "the keys that it needs are not there").split("`", 1)[0].strip()
                refused[text].add(case.model)
        for text, names in sorted(refused.items()):
            lines.append(f"- {program} has no answer for {', '.join(sorted(names))}: “{text}”")
    return lines


def own_errors(rows):
    """The table that `./dev test` prints, whole, and what is loose."""
    lines = []
    table = []
    for (engine, kind), members in accuracy.group(rows).items():
        s = accuracy.summary_of(members)
        errors = ["–" if s["errors"][q] is None else s["errors"][q] for q in accuracy.EXACT]
        ratios = [f"{r:.2f}" for r in s["ratios"]] if s["ratios"] else ["–"] * 3
        above = f"{s['most_above'] / MIB:,.0f}" if s["ratios"] else "–"
        table.append([f"{engine}, {kind}", s["models"], s["configurations"], *errors, *ratios, above])
    lines += markdown_table(["engine, kind", "models", "configurations", *(f"{q}, B" for q in ("weights", "KV", "state", "logits")),
                             "compute min", "median", "max", "most above, MiB"], table)
    left_out = accuracy.summary_of(rows)["left_out"]
    if left_out:
        values = ", ".join(f"{count} of a {WHY_LEFT_OUT.get(why, why)}" for why, count in sorted(left_out.items()))
        lines += ["", f"Measured values that are not compared: {values}."]
    loose = collections.defaultdict(list)
    for row in rows:
        if not accuracy.is_exact(row) and row["ours_bytes"] is not None and row["remark"]:
            loose[row["remark"], row["model"]].append(row)
    lines += ["", "Loose on purpose, because the bound must hold:", ""]
    entries = []
    for (why, model), members in sorted(loose.items()):
        ratios = [accuracy.ratio_of(row) for row in members]
        contexts = sorted({int(settings_of(row)["ctx_size"]) for row in members})
        entries.append([model, why, len({row["source"] for row in members}), ", ".join(map(str, contexts)), f"{max(ratios):.2f}"])
    lines += markdown_table(["model", "why", "configurations", "contexts", "highest ratio"], entries)
    lines += [""] + [f"- `{why}`: {WHY_LOOSE.get(why, 'no reason is given')}." for why in sorted({why for why, _ in loose})]
    return lines


def projection(results, version):
    answered = [(quantities, printed) for quantities, printed in results if not isinstance(printed, str)]
    cache_equal = compute = 0
    theirs, ours = [], []
    for quantities, (_, context, buffers) in answered:
        cache = (quantities["kv"]["measured_bytes"] + quantities["state"]["measured_bytes"]) / MIB
        cache_equal += abs(cache - context) <= 1
        row = quantities["compute_and_output"]
        theirs.append(buffers * MIB / row["measured_bytes"])
        ours.append(row["ours_bytes"] / row["measured_bytes"])
        compute += 1
    lines = [
        f"llama-fit-params ({version}) is the engine's own code, without the weights: it needs the whole tensor list, so it was run "
        "over the small models that the installed llama-server was started with; starts whose slots share one pool are left out, as "
        "it has no word for that. It prints whole MiB.", ""]
    if not answered:
        return lines + [f"It gave no figure, but: “{results[0][1]}”" if results else "There were no starts to ask about."]
    spread = lambda ratios: [ratio_text(f(ratios)) for f in (min, statistics.median, max)]  # noqa: E731
    lines += markdown_table(["of the server's log", "starts", "lowest", "median", "highest"], [
        ["llama-fit-params, compute buffers", compute, *spread(theirs)],
        ["dgxmm, compute buffers", compute, *spread(ours)]])
    lines += ["", f"Its KV cache and state are within the MiB that it prints in {cache_equal} of {len(results)} starts ({len(results) - len(answered)} without a figure), dgxmm's within "
              "the rounding of the log in "
              f"{sum(1 for q, _ in results if all(accuracy.error_of(q[k]) == 0 for k in ('kv', 'state')))}. It reserves logits for "
              "every token of a micro-batch, llama-server for one a slot: hence the compute buffers of the model with 150,000 "
              "tokens. The log's figure has the buffer for logits in it, which it does not count."]
    return lines


def go_module_version():
    return re.search(r"gguf-parser-go (v\S+)", (HERE / "gguf_parser/go.mod").read_text())[1]


def version_of_hf_mem(python):
    return subprocess.run([python, "-c", "import importlib.metadata as m; print(m.version('hf-mem'))"],
                          capture_output=True, text=True, check=True).stdout.strip()


def version_of_fit_params(program):
    run = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"version: ([^\n]+)", run.stdout + run.stderr)
    return found[1] if found else "version unknown"


def page(options):
    rows = accuracy.read_rows(options.rows)
    all_truth = accuracy.truth_lines(ROOT / "tests/truth")
    missing = all_truth - {row["source"] for row in rows}
    if missing:
        raise RuntimeError(f"{len(missing)} rows of tests/truth are not among the rows: {sorted(missing)[:3]}")
    models = without_twins(truth_models())
    llamacpp, vllm = llamacpp_cases(rows, models), vllm_cases(rows)
    ask_about_llamacpp(llamacpp, models, options)
    ask_about_vllm(vllm, options)
    versions = {
        "dgxmm": options.commit or "unknown commit",
        "gguf-parser": go_module_version() if options.gguf_parser else "not run: it needs Go 1.22",
        "hf-mem": version_of_hf_mem(options.hf_mem) if options.hf_mem else "not run: it could not be installed",
        "llama-fit-params": version_of_fit_params(options.fit_params) if options.fit_params else "not run: it was not to be had",
    }
    engines = sorted({row["engine"] for row in rows}, key=str.lower)
    out = [
        "# How accurate the estimates are", "",
        f"Written by `./dev accuracy` on {datetime.date.today()}: every figure is from that run. Do not edit; run it again.", "",
        f"- engines: {'; '.join(engines)}",
        *(f"- {name}: {version}" for name, version in versions.items()), "",
        f"Truth: {len(all_truth)} rows in `tests/truth`. **llama.cpp** was measured: contexts built by the engine's own code, exact "
        "bytes, on a CPU and on a stand-in device that holds all layers (no CUDA, so terms that only CUDA has are not in it). "
        "**vLLM** was computed, by its own planning code for one GPU; no GPU ran it.", "",
        "## KV cache and recurrent state, llama.cpp", "",
        f"{len(llamacpp)} configurations of {len({c.model for c in llamacpp})} models: contexts of "
        f"{', '.join(LLAMACPP_CONTEXTS)}, one slot or four (split or shared), every cache type that was measured, flash attention. "
        "Ratio = estimate / engine. Each program read the same GGUF header.", "",
        *summary(llamacpp), "", "Lowest and highest by kind of model:", "", *by_kind(llamacpp), "",
        "The largest model of each architecture, one slot, f16; MiB, and the ratio:", "",
        *telling(telling_llamacpp(llamacpp, models)), "",
        *no_answers(llamacpp), "",
        "## KV cache and state of one request, vLLM", "",
        f"{len(vllm)} plans of {len({c.model for c in vllm})} models. What vLLM reserves is whole blocks, pages padded to equal size "
        "in hybrids, and what a window holds beside the tokens in flight (8,192 here); that is more than the cache of the tokens.", "",
        *summary(vllm), "", "Lowest and highest by kind of model:", "", *by_kind(vllm), "",
        "At the longest context of the table, with the cache type; MiB, and the ratio:", "", *telling(telling_vllm(vllm)), "",
        *no_answers(vllm), "",
    ]
    if options.fit_params:
        out += ["## llama.cpp's own projection", "",
                *projection(small_model_cases(rows, options), versions["llama-fit-params"]), ""]
    out += [
        "## dgxmm beside everything that was measured", "",
        "Weights, KV, state and logits: largest error in bytes, beyond the rounding of a log. Compute buffers are upper bounds: "
        "ours / engine, and the most bytes above. The test allows a quarter or 128 MiB, so ratios of small buffers are large.", "",
        *own_errors(rows), "",
        "## What this does not say", "",
        "- The peers answer other questions too: gguf-parser estimates weights, compute buffers and speed, and several "
        "devices; hf-mem the weights of any repository. Only the cache is compared here, as the files of the truth table have "
        "keys and sizes but not each tensor.",
        "- hf-mem calls its cache estimate experimental, and a plan of vLLM's blocks is not what it claims. It asks the "
        "Hugging Face Hub; here it got local files in the Hub's place. Its name of the type was bfloat16 where a short config in "
        "`tests/truth` has none; a key that a program misses may be one that the short form left out.",
        "- hf-mem finds the keys of a GGUF file by their endings: where there is a `leading_dense_block_count`, as in MLA models, "
        "it takes that for the number of layers.",
        "- gguf-parser was asked through its library, with the same slots, batch and cache types; it has no word for a pool "
        "shared by slots.",
        "- The naive formula is: all layers × 2 × KV heads × head size × tokens. Where layers differ, the most KV heads.",
        "- dgxmm was developed against the rows of the truth table, the peers were not. The small models are another check: "
        "started with the llama-server that is installed here, which is another build.",
        "- A buffer that only CUDA has, and real vLLM activations, were not measured here.",
        "", "Again: `./dev accuracy` (Debian or Ubuntu, network to the usual registries for the peers).",
    ]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--commit", default="")
    for peer in ("--gguf-parser", "--hf-mem", "--fit-params"):
        parser.add_argument(peer, default="")
    print(page(parser.parse_args()))


if __name__ == "__main__":
    main()
