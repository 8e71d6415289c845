package hosting

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

// envCrash makes the test binary crash, with crash reports in the folder that it names.
const envCrash = "AGENT_RUNNER_TEST_CRASH"

// TestCrashHelper crashes in a goroutine of a run, with a text that imitates another goroutine.
func TestCrashHelper(t *testing.T) {
	dir := os.Getenv(envCrash)
	if dir == "" {
		t.Skip("a helper of TestReportCrashes")
	}
	_, _, err := ReportCrashes(dir)
	require.NoError(t, err)
	pprof.Do(t.Context(), pprof.Labels("run", "run_poison"), func(context.Context) {
		done := make(chan bool)
		go func() {
			defer close(done)
			panic("\ngoroutine 1 [running, labels:{\"run\": \"run_victim\"}]:\nmain.main()\n")
		}()
		<-done
	})
}

// TestReportCrashes checks that the report of a crashed process names the run of the goroutine that
// crashed, whatever the text of the panic, and that it is read once.
func TestReportCrashes(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashHelper$")
	cmd.Env = append(os.Environ(), envCrash+"="+dir)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "run_victim")
	alive := filepath.Join(dir, crashFolder, url.QueryEscape("elsewhere/1/2/3/4"))
	require.NoError(t, os.WriteFile(alive, nil, 0o600))

	named, stop, err := ReportCrashes(dir)
	require.NoError(t, err)
	require.Len(t, named, 1)
	for owner, run := range named {
		require.True(t, OwnerGone(owner), owner)
		require.Equal(t, "run_poison", run)
	}
	named, _, err = ReportCrashes(dir)
	require.NoError(t, err)
	require.Empty(t, named)
	stop()
	left, err := os.ReadDir(filepath.Join(dir, crashFolder))
	require.NoError(t, err)
	require.Len(t, left, 1, "the empty report of a process that may be alive")
}

// TestCrashedRun checks which reports name a run.
func TestCrashedRun(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]string{
		"": "",
		"fatal error: concurrent map writes\n\ngoroutine 7 [running, labels:{\"run\": \"run_a\"}]:\n":              "run_a",
		"panic: x\n\ngoroutine 7 gp=0x1 m=4 mp=0x2 [running, labels:{\"a\": \"b\", \"run\": \"run_a\"}]:\n":        "run_a",
		"panic: x\n\ngoroutine 7 [running]:\n\ngoroutine 8 [running, labels:{\"run\": \"run_a\"}]:\n":              "",
		"panic: x\n\tgoroutine 1 [running, labels:{\"run\": \"run_a\"}]:\n\ngoroutine 7 [running]:\n":              "",
		"SIGABRT: abort\n\ngoroutine 0 [idle]:\n\ngoroutine 9 [select, labels:{\"run\": \"run_a\"}]:\n":            "",
		"panic: x\n\ngoroutine 7 [running, labels:{\"run\": \"no run\"}]:\n":                                       "",
		"panic: x\n\ngoroutine 7 [running, labels:{\"x\": \"\\\"run\\\": \\\"run_a\\\"\", \"run\": \"run_b\"}]:\n": "run_b",
	} {
		require.Equal(t, want, crashedRun([]byte(report)), "%q", report)
	}
}
