package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/tck"
	"github.com/agent-runner/agent-runner/tck/wire"
)

// asHost lists the capabilities of a host. With this variable set, the test binary is that host
// instead of running tests.
const asHost = "TCK_CAPABILITIES"

func TestMain(m *testing.M) {
	if list := os.Getenv(asHost); list != "" {
		if err := tck.Serve(context.Background(), refusing(strings.Split(list, ",")), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A refusing is a host that refuses to build any agent. It has its capabilities.
type refusing []string

func (r refusing) Hello(context.Context) (*wire.Hello, error) {
	return &wire.Hello{Type: "hello", Protocol: wire.Protocol, Capabilities: r}, nil
}

func (refusing) Run(context.Context, *wire.Request) (*wire.Outcome, error) {
	return &wire.Outcome{Refused: "this host builds no agent"}, nil
}

// TestExitCodes checks what a script learns from the exit code.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		capabilities, match string
		want                int
	}{
		{"native,hook:before_model", "^trpc-A72-two-of-one-name$", exitPassed}, // the agent must be refused
		{"*", "^adk-G1-", exitFailed},
		{"resume", "", exitFailed}, // every case is skipped
		{"resumes", "", exitTrouble},
		{"*", "^no-such-case$", exitTrouble},
	} {
		t.Setenv(asHost, test.capabilities)
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-modules", t.TempDir(), "-run", test.match, os.Args[0]}, &out, &errs)
		require.Equal(t, test.want, code, "%s %s: %s%s", test.capabilities, test.match, out.String(), errs.String())
	}
}
