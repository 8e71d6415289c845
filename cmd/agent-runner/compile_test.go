package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// TestCompileBudget checks that a module is rejected if it takes too long to compile.
func TestCompileBudget(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	e := &cli.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" },
		Compile: &child.Options{Timeout: time.Nanosecond}}
	code := execute(t.Context(), e,
		[]string{"module", "inspect", "--cache-dir", t.TempDir(), "../../testdata/modules/says.wasm"})
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, "agent-runner: ../../testdata/modules/says.wasm: compiling it took more than 1ns; "+
		"split its largest functions, or raise the time that compiling may take\n", errs.String())
}
