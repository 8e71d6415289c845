package module

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// How much is kept of what an instance did, for when it faults: inputs, replies
// and what the guest handed over, in bytes.
const (
	maxVisitBytes   = 32 << 20 // of the call that faults
	maxHistoryBytes = 16 << 20 // of the calls before it, together
)

// Blob is bytes that stand in JSON as a string where they are UTF-8, and as
// {"base64": "…"} otherwise.
type Blob []byte

type base64Blob struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes a string, or an object with base64.
func (b Blob) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return abi.Marshal(string(b))
	}
	return abi.Marshal(base64Blob{b})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Blob) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var o base64Blob
		err := json.Unmarshal(text, &o)
		*b = o.Base64
		return err
	}
	var s string
	err := json.Unmarshal(text, &s)
	*b = Blob(s)
	return err
}

// A Visit is one hook call as it was recorded: all that the module's answer
// depended on, and what it came to.
type Visit struct {
	Hook   abi.Hook   `json:"hook"`
	Input  Blob       `json:"input"`
	Seed   string     `json:"seed"`            // determines the guest's random bytes
	Clock  []int64    `json:"clock,omitempty"` // what its clock showed, nanoseconds, one after the other
	Calls  []HostCall `json:"calls,omitempty"`
	Output Blob       `json:"output,omitempty"` // what it wrote last
	Failed bool       `json:"failed,omitempty"` // it returned 1
	Fuel   uint64     `json:"fuel"`
	// Stopped says that the host ended it for its time, which was where it had
	// used Fuel.
	Stopped bool `json:"stopped,omitempty"`
	// Cut says that not all host calls are there: they were too many, or too large.
	Cut bool `json:"cut,omitempty"`
}

// A HostCall is one question of a module to the host, and the reply. Calls
// that the host answers out of the visit itself are not among them: read,
// write, log, config, and WASI.
type HostCall struct {
	Name    string     `json:"name"`
	Bytes   []Blob     `json:"bytes,omitempty"`   // what the guest handed over: a key, then a value
	Numbers []int64    `json:"numbers,omitempty"` // indices, versions, differences
	Reply   Blob       `json:"reply,omitempty"`
	Error   *abi.Error `json:"error,omitempty"`
}

func (q *HostCall) size() int {
	n := 128 + len(q.Reply)
	for _, b := range q.Bytes {
		n += len(b)
	}
	return n
}

// asks reports whether two calls ask the same.
func (q *HostCall) asks(o *HostCall) bool {
	return q.Name == o.Name && slices.Equal(q.Numbers, o.Numbers) &&
		slices.EqualFunc(q.Bytes, o.Bytes, func(a, b Blob) bool { return string(a) == string(b) })
}

// A history is what an instance did in the run so far. Memory is a cache, but
// it may well be why a later call faults.
type history struct {
	visits  []Visit
	size    int
	dropped int // how many visits are not among them: the first ones
}

// A recorder keeps what a visit's outcome depends on. Nothing is copied:
// inputs and replies do not change. A nil recorder keeps nothing.
type recorder struct {
	visit   Visit
	size    int
	history *history // of the instance
	earlier history  // as it was when the visit began
}

// recorder returns one if faults of the module are to be kept.
func (m *Module) recorder() *recorder {
	if m.loader.faults == nil {
		return nil
	}
	return &recorder{}
}

func (r *recorder) begin(h *history) {
	if r != nil {
		r.history, r.earlier = h, *h
	}
}

func (r *recorder) clock(now int64) {
	if r != nil && !r.visit.Cut {
		r.visit.Clock = append(r.visit.Clock, now)
	}
}

func (r *recorder) add(q HostCall, reply []byte, err error) {
	if r == nil || r.visit.Cut || err != nil && chain.IsEnding(err) {
		return
	}
	q.Reply = reply
	if err != nil {
		q.Reply, q.Error = nil, chain.AsError(err, abi.CodeInternal)
	}
	if r.size += q.size(); r.size > maxVisitBytes {
		r.visit.Cut = true
		return
	}
	r.visit.Calls = append(r.visit.Calls, q)
}

// end puts the visit into the instance's history. If that becomes too large,
// all of it is forgotten: a beginning that is not there cannot be replayed.
func (r *recorder) end(v *visit, failed bool) {
	if r == nil {
		return
	}
	r.complete(v, failed)
	h := r.history
	h.visits = append(h.visits, r.visit)
	if h.size += len(r.visit.Input) + r.size + len(r.visit.Output); h.size > maxHistoryBytes || r.visit.Cut {
		h.dropped += len(h.visits)
		h.visits, h.size = nil, 0
	}
}

func (r *recorder) complete(v *visit, failed bool) {
	r.visit.Hook, r.visit.Input, r.visit.Seed = v.hook, v.input, v.randomSeed()
	r.visit.Output, r.visit.Failed, r.visit.Fuel, r.visit.Stopped = v.output, failed, v.report.Fuel, v.report.TimedOut
}

// errDiverged ends a replay that does not do what was recorded.
var errDiverged = errors.New("the replay leaves the recording")

// A player gives a visit what was recorded of another one.
type player struct {
	visit *Visit
	calls int
	looks int // at the clock
}

func (p *player) clock() int64 {
	if len(p.visit.Clock) == 0 {
		return 0
	}
	now := p.visit.Clock[min(p.looks, len(p.visit.Clock)-1)]
	p.looks++
	return now
}

// most is the fuel that a call may use which may use that much at most. A
// recorded one that was ended for its time is ended by its fuel, at the same
// place: time is not the same again. The player may be nil.
func (p *player) most(left int64) int64 {
	if p == nil || !p.visit.Stopped {
		return left
	}
	return int64(min(uint64(left), max(p.visit.Fuel, 1)-1))
}

func (p *player) answer(q *HostCall) ([]byte, error) {
	if p.calls == len(p.visit.Calls) {
		if p.visit.Cut {
			return nil, fmt.Errorf("%w: what the host replied after its first %d calls was not recorded", errDiverged, p.calls)
		}
		return nil, fmt.Errorf("%w: it calls %s after all %d recorded host calls", errDiverged, q.Name, p.calls)
	}
	known := &p.visit.Calls[p.calls]
	p.calls++
	if !known.asks(q) {
		return nil, fmt.Errorf("%w: host call %d is %s with other arguments; recorded is %s", errDiverged, p.calls, q.Name, known.Name)
	}
	if known.Error != nil {
		return nil, known.Error
	}
	return known.Reply, nil
}
