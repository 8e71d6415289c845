package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// startUp measures how fast the demo, a process with five modules, starts and ends, and writes the
// figures to w. All runs but the first load the modules' machine code from the cache.
func startUp(w *bytes.Buffer, root string) error {
	prompt, err := os.ReadFile(filepath.Join(root, "examples/demo/prompt.txt"))
	if err != nil {
		return err
	}
	var firsts, ends, used []time.Duration
	for i := range 8 {
		cmd := exec.Command(filepath.Join(root, "build/agent-runner"), "run", "-f", "examples/demo/agent.yaml", "-o", "json",
			"--replay", "examples/demo/conversation.json", "--messages", "examples/demo/earlier.json", "-")
		var failed bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(prompt), &failed
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("the demo: %w", err)
		}
		first := firstHook(out, began)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the demo: %w: %s", err, failed.Bytes())
		}
		if first == 0 {
			return errors.New("the demo: none of its hooks said anything")
		}
		if i > 0 { // the first may compile
			firsts, ends = append(firsts, first), append(ends, time.Since(began))
			used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	fmt.Fprintf(
		w,
		"\n## Start-up\n\nThe demo, `make run`, with five cached Go guests: the first hook returns %d ms after the process starts, the process ends after %d ms, "+
			"and it uses %d ms of CPU time (medians of seven; minimums: %d ms, %d ms and %d ms).\n",
		middle(
			firsts,
		),
		middle(ends),
		middle(used),
		slices.Min(firsts).Milliseconds(),
		slices.Min(ends).Milliseconds(),
		slices.Min(used).Milliseconds(),
	)
	return nil
}

// firstHook reads all events of a run. It returns the time since began at which the event after a
// module's first custom event arrives: by then, the hook has returned. It returns 0 if there is no
// such event.
func firstHook(events io.Reader, began time.Time) (first time.Duration) {
	made := false
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if made && first == 0 {
			first = time.Since(began)
		}
		made = made || bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"custom"`))
	}
	return first
}

// middle returns the median of a list of durations in milliseconds.
func middle(took []time.Duration) int64 {
	return slices.Sorted(slices.Values(took))[len(took)/2].Milliseconds()
}
