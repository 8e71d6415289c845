package runlog

import (
	"encoding/json"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A CallKey identifies a call of the model or of a tool in a run or in the runs of its sub-agents.
type CallKey struct {
	Run  string
	Step int
	Key  string // the call's key; see record.KeyOf
}

// Recorded is the data with which a run can be replayed without its model and its tools.
type Recorded struct {
	Calls map[CallKey]record.CallRecord // the calls of models and tools
	Tools map[string][]abi.Tool         // the host's tools of each agent, by the agent's name
}

// ReadRecorded returns the recorded calls of a run and its sub-agents. It returns an error if the
// run's log is malformed.
func ReadRecorded(log [][]byte) (*Recorded, error) {
	out := &Recorded{Calls: map[CallKey]record.CallRecord{}, Tools: map[string][]abi.Tool{}}
	return out, out.read(log)
}

// read adds the calls of one run, and then those of its sub-agents.
func (o *Recorded) read(log [][]byte) error {
	r := &recordedReader{
		out:   o,
		fold:  &builder{shared: true, state: &State{Locals: local.New(), Record: record.New()}},
		calls: map[CallKey]record.CallRecord{},
		phase: -1,
	}
	if err := eachEntry(log, r.add); err != nil {
		return err
	}
	for key, call := range r.calls {
		key.Run = r.fold.state.ID
		o.Calls[key] = call
	}
	for _, child := range r.fold.inner {
		r.children = append(r.children, child.Log)
	}
	for _, log := range r.children {
		if err := o.read(linesOf(log)); err != nil {
			return err
		}
	}
	return nil
}

// A recordedReader reads the calls of one run from the lines of its log.
type recordedReader struct {
	out   *Recorded
	fold  *builder
	calls map[CallKey]record.CallRecord // calls of the run; Run is not set in their keys
	phase int64
	step  int

	children [][]json.RawMessage // logs of sub-agents' runs that the state in fold does not contain
}

// add adds the calls of one line of the log.
func (r *recordedReader) add(e *Entry) error {
	for _, d := range e.Records {
		if d.Phase != r.phase {
			r.phase, r.step = d.Phase, r.fold.state.Step
		}
		for key, b := range d.Record {
			call, err := record.ParseCall(key, b)
			if err != nil {
				return err
			}
			if call.What == "tool" || strings.HasPrefix(call.What, "model") { // a call of the run or of a middleware
				r.calls[CallKey{Step: r.step, Key: key}] = call
			}
		}
	}
	for i, child := range r.fold.inner {
		if more := e.Inner[i]; e.NoCalls || more != nil && (more.Restarted || more.Discarded) {
			r.children = append(r.children, child.Log)
		}
	}
	if err := r.fold.add(e); err != nil {
		return err
	}
	if e.Fixed != nil {
		var tools []abi.Tool
		for _, t := range e.Fixed.Tools {
			if t.Owner == "host" {
				tools = append(tools, t)
			}
		}
		r.out.Tools[r.fold.state.Agent] = tools
	}
	return nil
}
