package main

import (
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/chatmodel"
)

// The slow model streams for 10 s, so that readers have time to connect to its runs.
const (
	slowParts = 100
	slowPause = 100 * time.Millisecond
)

// answer answers at once, except for the model "slow", whose answers take 10 s.
func answer(a *chatmodel.Answer) {
	parts, pause := 1, time.Duration(0)
	if a.Asks("slow") {
		parts, pause = slowParts, slowPause
	}
	for range parts {
		a.Text("It is done. ")
		if pause > 0 && !a.Pause(pause) {
			return
		}
	}
	a.Finish("stop")
}
