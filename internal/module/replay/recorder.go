package replay

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// Limits on the recordings of an instance, in bytes of inputs, replies and arguments.
const (
	maxCallBytes    = 32 << 20 // maximum for the current call
	maxHistoryBytes = 16 << 20 // maximum for all earlier calls of the instance together
)

// A History is the recordings of an instance's earlier calls in the run. A fault may depend on
// these calls, because the instance's memory remains between calls.
type History struct {
	recordings []Recording
	size       int // size of the recordings in bytes
	dropped    int // number of missing recordings, which are the earliest
}

// A Recorder records what determines the outcome of a call. It does not copy inputs and replies,
// because they do not change. The methods Begin, Clock, Add and End of a nil recorder do nothing.
type Recorder struct {
	recording Recording
	size      int
	history   *History // the history of the instance that makes the call
	earlier   History  // a copy of the history at the start of the call
}

// Begin sets the history to that of the instance that makes the call.
func (r *Recorder) Begin(h *History) {
	if r != nil {
		r.history, r.earlier = h, *h
	}
}

// Clock records a time that the guest read.
func (r *Recorder) Clock(now int64) {
	if r != nil && !r.recording.Cut {
		r.recording.Clock = append(r.recording.Clock, now)
	}
}

// Add records a host call with its reply or error, unless err ends the run. When the host calls
// exceed maxCallBytes, Add sets Cut. From then on, the recorder records no host calls and no clock
// readings.
func (r *Recorder) Add(q HostCall, reply []byte, err error) {
	if r == nil || r.recording.Cut || err != nil && ending.Is(err) {
		return
	}
	q.Reply = reply
	if err != nil {
		q.Reply, q.Error = nil, ending.AsError(err, abi.CodeInternal)
	}
	if r.size += q.size(); r.size > maxCallBytes {
		r.recording.Cut = true
		return
	}
	r.recording.Calls = append(r.recording.Calls, q)
}

// End completes the recording and adds it to the instance's history. If the history is then too
// large or the recording is incomplete, End drops the whole history, because a replay needs all of
// its calls.
func (r *Recorder) End(outcome Recording) {
	if r == nil {
		return
	}
	r.Complete(outcome)
	h := r.history
	h.recordings = append(h.recordings, r.recording)
	if h.size += len(r.recording.Input) + r.size + len(r.recording.Output); h.size > maxHistoryBytes || r.recording.Cut {
		h.dropped += len(h.recordings)
		h.recordings, h.size = nil, 0
	}
}

// Complete sets the recording to outcome, together with the recorded clock readings and host calls.
func (r *Recorder) Complete(outcome Recording) {
	outcome.Clock, outcome.Calls, outcome.Cut = r.recording.Clock, r.recording.Calls, r.recording.Cut
	r.recording = outcome
}

// Fill sets the recording and the instance's earlier calls in a bundle.
func (r *Recorder) Fill(b *Bundle) {
	b.Version = version
	b.Call, b.Earlier, b.Dropped = r.recording, r.earlier.recordings, r.earlier.dropped
}
