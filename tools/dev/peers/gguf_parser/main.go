// Asks gguf-parser's library, whose own command line is not to be had as a module: for each line of JSON on standard
// input one line with what it estimates, or with its error.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	parser "github.com/gpustack/gguf-parser-go"
)

type question struct {
	Path           string `json:"path"`
	ContextSize    int32  `json:"ctx_size"`
	Parallel       int32  `json:"parallel"`
	CacheTypeK     string `json:"type_k"`
	CacheTypeV     string `json:"type_v"`
	Batch          int32  `json:"batch"`
	Ubatch         int32  `json:"ubatch"`
	FlashAttention bool   `json:"flash_attn"`
}

type answer struct {
	CacheBytes uint64 `json:"cache_bytes"` // KV cache and recurrent state, of all devices
	Error      string `json:"error,omitempty"`
}

var cacheTypes = map[string]parser.GGMLType{
	"f32": parser.GGMLTypeF32, "f16": parser.GGMLTypeF16, "bf16": parser.GGMLTypeBF16, "q8_0": parser.GGMLTypeQ8_0,
	"q5_1": parser.GGMLTypeQ5_1, "q4_0": parser.GGMLTypeQ4_0, "iq4_nl": parser.GGMLTypeIQ4_NL,
}

func estimate(q question) (a answer) {
	defer func() {
		if problem := recover(); problem != nil {
			a = answer{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	k, knownK := cacheTypes[q.CacheTypeK]
	v, knownV := cacheTypes[q.CacheTypeV]
	if !knownK || !knownV {
		return answer{Error: "cache type " + q.CacheTypeK + "/" + q.CacheTypeV}
	}
	file, err := parser.ParseGGUFFile(q.Path, parser.SkipLargeMetadata())
	if err != nil {
		return answer{Error: err.Error()}
	}
	options := []parser.GGUFRunEstimateOption{
		parser.WithParallelSize(q.Parallel),
		parser.WithLLaMACppContextSize(q.ContextSize),
		parser.WithLLaMACppLogicalBatchSize(q.Batch),
		parser.WithLLaMACppPhysicalBatchSize(q.Ubatch),
		parser.WithLLaMACppCacheKeyType(k),
		parser.WithLLaMACppCacheValueType(v),
	}
	if q.FlashAttention {
		options = append(options, parser.WithFlashAttention())
	}
	for _, device := range file.EstimateLLaMACppRun(options...).Devices {
		a.CacheBytes += uint64(device.KVCache.Sum())
	}
	return a
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var q question
		a := answer{}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			a.Error = err.Error()
		} else {
			a = estimate(q)
		}
		if err := out.Encode(a); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
