package wasi

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFunctions checks that names and types are those of wazero's own implementation of WASI.
func TestFunctions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	theirs, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	require.NoError(t, err)
	want := map[string]string{}
	for name, def := range theirs.ExportedFunctions() {
		want[name] = verify.FuncType{Params: def.ParamTypes(), Results: def.ResultTypes()}.String()
	}
	got := map[string]string{}
	for _, f := range Functions() {
		got[f.Name] = f.Type.String()
	}
	require.Equal(t, want, got)
}

// freeGuest is a guest with unlimited fuel and without memory.
type freeGuest struct{}

func (freeGuest) View(uint32, uint32) []byte { return nil }
func (freeGuest) CheckBounds(uint32, uint32) {}
func (freeGuest) Charge(int64)               {}
func (freeGuest) Wait(fn func())             { fn() }
func (freeGuest) Exit(uint32)                {}

// FuzzLines checks that lines are bounded and contain no control characters.
func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\n\x1b three"), 7)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		var p Process
		p.Init(freeGuest{})
		p.Configure(Config{LogBytes: 100, LogLineBytes: 10, Stdout: func(line []byte) {
			require.False(t, bytes.ContainsAny(line, "\x1b\r\n\x00"))
			require.LessOrEqual(t, len(line), 10*10+len(fmt.Sprintf("… (%d bytes more)", len(b))))
		}})
		for step = max(1, step%20); len(b) > 0; b = b[min(step, len(b)):] {
			p.stdout.write(b[:min(step, len(b))])
		}
		p.stdout.flush()
		require.Less(t, p.printed, 100+lineCost)
	})
}

// TestTruncatedLines checks that a truncated line ends with a whole character, and that the bytes of
// the rest of that character count as dropped.
func TestTruncatedLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config  Config
		printed string
		lines   []string
		dropped int
	}{
		{Config{LogBytes: 1000, LogLineBytes: 10}, "€€€€€\n\xe2\x82\n", []string{"€€€… (6 bytes more)", `\xe2\x82`}, 6},
		{Config{LogBytes: 10, LogLineBytes: 100}, "€€€€€", []string{"€€€"}, 6},
	} {
		var lines []string
		var p Process
		p.Init(freeGuest{})
		test.config.Stdout = func(line []byte) { lines = append(lines, string(line)) }
		p.Configure(test.config)
		p.stdout.write([]byte(test.printed))
		p.stdout.flush()
		require.Equal(t, test.lines, lines)
		require.Equal(t, test.dropped, p.Dropped())
	}
}
