package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/chatmodel"
)

// Slow answers have slowChunks chunks, and tickSteps is the number of steps of runs of the model ticks.
const (
	slowChunks = 50
	slowPause  = 100 * time.Millisecond
	tickSteps  = 400
	tickPause  = 50 * time.Millisecond
)

// answer answers as one of three models. "steps" calls a tool three times and then answers, at once.
// "ticks" does the same tickSteps times, and waits tickPause before each answer. Each chunk of "slow" is
// the time at which it was sent, in nanoseconds.
func answer(a *chatmodel.Answer) {
	calls, most := bytes.Count(a.Request, []byte(`"role":"tool"`)), 3
	switch {
	case a.Asks("slow"):
		for range slowChunks {
			if !a.Pause(slowPause) {
				return
			}
			a.Text(strconv.FormatInt(time.Now().UnixNano(), 10) + " ")
		}
		calls = most
	case a.Asks("ticks"):
		most = tickSteps
		time.Sleep(tickPause)
	}
	if calls < most {
		a.Call(fmt.Sprint("call_", calls), "calculator", `{"expression":"6*7"}`)
		a.Finish("tool_calls")
		return
	}
	a.Text("It is done.")
	a.Finish("stop")
}
