package sdktest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A vector is one file of testdata/abi, with the fields that hold JSON of an ABI type.
type vector struct {
	Hook  abi.Hook        `json:"hook"`
	Input json.RawMessage `json:"input"`
	Next  []struct {
		Patch json.RawMessage `json:"patch"`
		Reply json.RawMessage `json:"reply"`
		Error json.RawMessage `json:"error"`
	} `json:"next"`
	Stream []struct {
		Call  string          `json:"call"`
		Given json.RawMessage `json:"given"`
		Reply json.RawMessage `json:"reply"`
		Error json.RawMessage `json:"error"`
	} `json:"stream"`
	Answer json.RawMessage `json:"answer"`
	Error  json.RawMessage `json:"error"`
}

// parts returns the JSON to mirror, by the export that mirrors it.
func (v *vector) parts() map[string][]json.RawMessage {
	patch, reply := "call_patch", "tool_reply"
	if v.Hook == contract.HookWrapModel {
		patch, reply = "request_patch", "model_reply"
	}
	out := map[string][]json.RawMessage{
		string(v.Hook):             {v.Input},
		"answer_" + string(v.Hook): {v.Answer},
		"error":                    {v.Error},
	}
	add := func(export string, raw json.RawMessage) { out[export] = append(out[export], raw) }
	for _, n := range v.Next {
		add(patch, n.Patch)
		add(reply, n.Reply)
		add("error", n.Error)
	}
	for _, s := range v.Stream {
		add("error", s.Error)
		switch s.Call {
		case "next_stream":
			add(patch, s.Given)
		case "send":
			add("sent", s.Given)
		case "recv":
			add("received", s.Reply)
		}
	}
	return out
}

// TestVectors checks that each SDK decodes every part of every golden vector into its own type and
// encodes it to the same bytes.
func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/abi/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	each(t, "mirror", func(t *testing.T, host *Host) {
		met := map[abi.Hook]bool{}
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			var v vector
			require.NoError(t, json.Unmarshal(b, &v))
			met[v.Hook] = true
			for export, parts := range v.parts() {
				for _, part := range parts {
					if part != nil {
						mirrored(t, host, strings.TrimSuffix(filepath.Base(file), ".json"), export, part)
					}
				}
			}
		}
		require.Len(t, met, len(contract.Hooks()), "there is a vector of every hook")
	})
}

func mirrored(t *testing.T, host *Host, name, export string, part json.RawMessage) {
	t.Helper()
	var want bytes.Buffer
	require.NoError(t, json.Compact(&want, part))
	got, ok, err := host.Hook(t.Context(), export, want.String())
	require.NoError(t, err, "%s: %s", name, export)
	require.True(t, ok, "%s: %s: %s", name, export, got)
	require.Equal(t, want.String(), got, "%s: %s", name, export)
}
