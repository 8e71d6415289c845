package hosting

import (
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

const (
	// crashFolder is the folder of crash reports in the cache directory.
	crashFolder = "crashes"
	// maxCrashReports limits the reports that a server reads, and maxCrashReport the bytes of each. The
	// goroutine that crashed comes first.
	maxCrashReports = 100
	maxCrashReport  = 64 << 10
	// crashReportAge is the time after which the empty report of a process that may be alive is removed.
	crashReportAge = 7 * 24 * time.Hour
)

// ReportCrashes makes the Go runtime write a report to a file in cacheDir if this process crashes. It
// returns the reports of earlier processes, by owner, and removes them. The value is the run that the
// report names, or empty. Reports of processes that a signal of another process or a lack of memory ended
// are omitted.
// stop removes the file of this process.
func ReportCrashes(cacheDir string) (reports map[string]string, stop func(), err error) {
	dir := filepath.Join(cacheDir, crashFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	reports, err = readCrashReports(dir)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(dir, url.QueryEscape(Owner()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return nil, nil, err
	}
	settings := []string{"tracebacklabels=1"} // labels of goroutines are in reports
	if s := os.Getenv("GODEBUG"); s != "" {
		settings = append(settings, s)
	}
	if err := os.Setenv("GODEBUG", strings.Join(settings, ",")); err != nil {
		return nil, nil, err
	}
	return reports, func() {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		_ = os.Remove(name)
	}, nil
}

// readCrashReports is [ReportCrashes] for the reports of earlier processes in the folder dir.
func readCrashReports(dir string) (reports map[string]string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	reports = map[string]string{}
	for _, e := range entries[:min(len(entries), maxCrashReports)] {
		owner, err := url.QueryUnescape(e.Name())
		if err != nil || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		report, age, err := readCrashReport(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another server reads it
			continue
		case err != nil:
			return nil, err
		case len(report) == 0 && age < crashReportAge && !OwnerGone(owner):
			continue // the process is alive
		}
		if len(report) > 0 && !sentSignal.Match(report) && !noMemory.Match(report) {
			reports[owner] = crashedRun(report)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return reports, nil
}

// readCrashReport returns the beginning of a report and the time since its last change.
func readCrashReport(path string) (report []byte, age time.Duration, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	report, err = io.ReadAll(io.LimitReader(f, maxCrashReport))
	return report, time.Since(info.ModTime()), err
}

var (
	// sentSignal matches the beginning of a report about a signal such as SIGABRT or SIGQUIT that a
	// process sent. Its code is 0 or negative, and the runtime prints negative codes as unsigned numbers.
	// The kernel's own signals have positive codes.
	sentSignal = regexp.MustCompile(`\ASIG[A-Z0-9]+: [^\n]*\nPC=\S+ m=\d+ sigcode=(?:0|\d{10,})\b`)
	// noMemory matches a report of a process that got no memory from the system. Other processes may have
	// used it up.
	noMemory = regexp.MustCompile(`(?m)^fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)`)
	// goroutineLine matches the header of a goroutine. The runtime indents the lines of a panic's text, so
	// that a text cannot have this form.
	goroutineLine = regexp.MustCompile(`(?m)^goroutine \d+ [^\n]*:$`)
	// runLabel matches the label of a goroutine that executes a run.
	runLabel = regexp.MustCompile(`labels:\{(?:[^\n]*, )?"run": "(run_[A-Za-z0-9_-]{1,80})"[,}]`)
)

// crashedRun returns the run of the first goroutine in a report, which is the one that crashed. It
// returns "" if this goroutine executed no run.
func crashedRun(report []byte) string {
	if m := runLabel.FindSubmatch(goroutineLine.Find(report)); m != nil {
		return string(m[1])
	}
	return ""
}
