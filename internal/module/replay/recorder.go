package replay

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// How much is kept of what an instance did, for when it faults: inputs, replies
// and what the guest handed over, in bytes.
const (
	maxVisitBytes   = 32 << 20 // of the call that faults
	maxHistoryBytes = 16 << 20 // of the calls before it, together
)

// A History is what an instance did in the run so far. Memory is a cache, but
// it may well be why a later call faults.
type History struct {
	recordings []Recording
	size       int // bytes
	dropped    int // how many recordings are missing: the first ones
}

// A Recorder keeps what a visit's outcome depends on. Nothing is copied:
// inputs and replies do not change. A nil recorder keeps nothing.
type Recorder struct {
	recording Recording
	size      int
	history   *History // of the instance
	earlier   History  // as it was when the visit began
}

func (r *Recorder) Begin(h *History) {
	if r != nil {
		r.history, r.earlier = h, *h
	}
}

func (r *Recorder) Clock(now int64) {
	if r != nil && !r.recording.Cut {
		r.recording.Clock = append(r.recording.Clock, now)
	}
}

func (r *Recorder) Add(q HostCall, reply []byte, err error) {
	if r == nil || r.recording.Cut || err != nil && ending.Is(err) {
		return
	}
	q.Reply = reply
	if err != nil {
		q.Reply, q.Error = nil, ending.AsError(err, abi.CodeInternal)
	}
	if r.size += q.size(); r.size > maxVisitBytes {
		r.recording.Cut = true
		return
	}
	r.recording.Calls = append(r.recording.Calls, q)
}

// End completes the recording and adds it to the instance's history. A history that becomes too
// large is dropped as a whole: a replay needs it from its first call.
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

// Complete fills in everything but the clock and the host calls, which the recorder has.
func (r *Recorder) Complete(outcome Recording) {
	outcome.Clock, outcome.Calls, outcome.Cut = r.recording.Clock, r.recording.Calls, r.recording.Cut
	r.recording = outcome
}

// Fill puts the recording, and those of the instance's earlier calls, into a bundle.
func (r *Recorder) Fill(b *Bundle) {
	b.Version = version
	b.Call, b.Earlier, b.Dropped = r.recording, r.earlier.recordings, r.earlier.dropped
}
