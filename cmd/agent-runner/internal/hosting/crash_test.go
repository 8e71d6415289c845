package hosting

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envCrash makes the test binary crash, with crash reports in the folder that it names.
const envCrash = "AGENT_RUNNER_TEST_CRASH"

// envHow is "wait" if the test binary waits for a signal that ends it.
const envHow = "AGENT_RUNNER_TEST_CRASH_HOW"

// TestCrashHelper crashes in a goroutine of a run, with a text that imitates another goroutine.
func TestCrashHelper(t *testing.T) {
	dir := os.Getenv(envCrash)
	if dir == "" {
		t.Skip("a helper of TestReportCrashes and TestSentSignals")
	}
	_, _, err := ReportCrashes(dir)
	require.NoError(t, err)
	if os.Getenv(envHow) == "wait" {
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
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
	cmd := crashHelper(dir, "panic")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "run_victim")
	alive := filepath.Join(dir, crashFolder, url.QueryEscape("elsewhere/1/2/3/4"))
	require.NoError(t, os.WriteFile(alive, nil, 0o600))

	reports, stop, err := ReportCrashes(dir)
	require.NoError(t, err)
	require.Len(t, reports, 1)
	for owner, run := range reports {
		require.True(t, OwnerGone(owner), owner)
		require.Equal(t, "run_poison", run)
	}
	reports, _, err = ReportCrashes(dir)
	require.NoError(t, err)
	require.Empty(t, reports)
	stop()
	left, err := os.ReadDir(filepath.Join(dir, crashFolder))
	require.NoError(t, err)
	require.Len(t, left, 1, "the empty report of a process that may be alive")
}

// TestSentSignals checks that a process that a signal of another process ended has no report.
func TestSentSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV} {
		dir := t.TempDir()
		cmd := crashHelper(dir, "wait")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1)) // it is ready
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(s))
		require.Error(t, cmd.Wait())
		folder := filepath.Join(dir, crashFolder)
		files, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, files, 1)
		report, err := os.ReadFile(filepath.Join(folder, files[0].Name()))
		require.NoError(t, err)
		require.Equal(t, s == syscall.SIGKILL, len(report) == 0)
		reports, err := readCrashReports(folder)
		require.NoError(t, err)
		require.Empty(t, reports, "%v: %.200s", s, report)
	}
}

// TestNoMemory checks which reports are about a lack of memory.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]bool{
		"runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory\n\ngoroutine 1": true,
		"fatal error: runtime: out of memory\n\nruntime stack:\n":                                               true,
		"fatal error: runtime: cannot allocate memory\n":                                                        true,
		"panic: x\n\tfatal error: out of memory\n":                                                              false,
		"panic: fatal error: out of memory\n":                                                                   false,
		"fatal error: concurrent map writes\n":                                                                  false,
	} {
		require.Equal(t, want, noMemory.MatchString(report), "%q", report)
	}
}

// TestSentSignal checks which reports are about signals of other processes.
func TestSentSignal(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]bool{
		"SIGABRT: abort\nPC=0x1 m=0 sigcode=0\n":                                                  true,
		"SIGSEGV: segmentation violation\nPC=0x1 m=12 sigcode=0 addr=0x75a6\n":                    true,
		"SIGABRT: abort\nPC=0x1 m=0 sigcode=18446744073709551610\n":                               true, // SI_TKILL
		"SIGSEGV: segmentation violation\nPC=0x1 m=12 sigcode=1 addr=0x75a6\n":                    false,
		"SIGSEGV: segmentation violation\nPC=0x1 m=12 sigcode=128 addr=0x0\n":                     false, // SI_KERNEL
		"fatal error: fault\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x1 pc=0x1]\n": false,
		"panic: SIGABRT: abort\nPC=0x1 m=0 sigcode=0\n":                                           false,
		"panic: x\nSIGABRT: abort\nPC=0x1 m=0 sigcode=0\n":                                        false,
	} {
		require.Equal(t, want, sentSignal.MatchString(report), "%q", report)
	}
}

// crashHelper returns a command that runs TestCrashHelper.
func crashHelper(dir, how string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashHelper$")
	cmd.Env = append(os.Environ(), envCrash+"="+dir, envHow+"="+how)
	return cmd
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
