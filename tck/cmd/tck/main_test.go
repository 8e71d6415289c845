package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// asHost names the environment variable that makes the test binary run as a host instead of
// testing. Its value lists the host's capabilities.
const asHost = "TCK_CAPABILITIES"

func TestMain(m *testing.M) {
	if list := os.Getenv(asHost); list != "" {
		if err := wire.Serve(context.Background(), refusing(strings.Split(list, ",")), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// refusing is a host with the given capabilities that builds no agent.
type refusing []string

func (r refusing) Hello(context.Context) (*wire.Hello, error) {
	return &wire.Hello{Type: "hello", Protocol: wire.Protocol, Capabilities: r}, nil
}

func (refusing) Run(context.Context, *wire.Request) (*wire.Outcome, error) {
	return &wire.Outcome{Refused: "this host builds no agent"}, nil
}

// TestExitCodes checks the exit codes if a case passes, fails or is skipped, if the host lists an
// unknown capability, and if no case matches.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		capabilities, match string
		want                int
	}{
		{"native,hook:before_model", "^trpc-A72-two-of-one-name$", exitPassed}, // the host must not build the agent
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
