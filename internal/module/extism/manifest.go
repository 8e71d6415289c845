package extism

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	sdk "github.com/extism/go-sdk"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// ParseManifest parses an Extism manifest. It returns a warning for each key that has no effect,
// and an error unless b is a valid manifest that names exactly one module.
func ParseManifest(b []byte) (m sdk.Manifest, warnings []string, err error) {
	if err := jsoncodec.Valid(b); err != nil {
		return m, nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, nil, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return m, nil, errors.New("want an object")
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch key {
		case "wasm", "memory", "config", "timeout_ms":
		case "allowed_hosts":
			if len(m.AllowedHosts) > 0 {
				warnings = append(warnings, "the manifest's allowed_hosts grants nothing; grant hosts with http:HOST")
			}
		case "allowed_paths":
			if len(m.AllowedPaths) > 0 {
				warnings = append(warnings, "allowed_paths of the manifest is ignored: modules cannot access files")
			}
		default:
			warnings = append(warnings, fmt.Sprintf("manifest: unknown key %.64q", key))
		}
	}
	switch len(m.Wasm) {
	case 0:
		return m, nil, errors.New(`wasm is empty; want one module: "wasm": [{"path": "module.wasm"}]`)
	case 1:
		return m, warnings, nil
	default:
		return m, nil, fmt.Errorf("wasm has %d modules; a middleware is a single module: link them first", len(m.Wasm))
	}
}

// LowerLimits returns l with each limit lowered to the limit in the manifest. It returns a warning
// for each limit of the manifest that is higher than that of l, and for max_var_bytes, which has no
// effect.
func LowerLimits(l policy.Limits, m *sdk.Manifest) (_ policy.Limits, warnings []string) {
	if m.Memory != nil && m.Memory.MaxPages > 0 {
		limit := cmp.Or(l.MemoryBytes, sandbox.DefaultMemoryBytes)
		asked := int64(m.Memory.MaxPages) * 64 << 10
		if asked > limit {
			warnings = append(
				warnings,
				fmt.Sprintf("memory.max_pages of the manifest asks for %d bytes; the limit memory_bytes of %d applies",
					asked, limit),
			)
		}
		l.MemoryBytes = min(asked, limit)
	}
	if m.Memory != nil && m.Memory.MaxVarBytes >= 0 {
		warnings = append(warnings,
			"memory.max_var_bytes of the manifest is ignored: variables are run-local values, and their limits apply")
	}
	if m.Timeout > 0 {
		limit := cmp.Or(l.HookTime, sandbox.DefaultHookTime)
		asked := time.Duration(min(m.Timeout, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
		if asked > limit {
			warnings = append(warnings,
				fmt.Sprintf("timeout_ms of the manifest asks for %v; the limit hook_time of %v applies", asked, limit))
		}
		l.HookTime = min(asked, limit)
	}
	return l, warnings
}
