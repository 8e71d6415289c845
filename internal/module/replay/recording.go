package replay

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// A Recording is one hook call, with everything that determined its answer, and with its outcome.
type Recording struct {
	Hook   abi.Hook   `json:"hook"`
	Input  Blob       `json:"input"`
	Seed   string     `json:"seed"`            // seed of the guest's random bytes
	Clock  []int64    `json:"clock,omitempty"` // successive readings of the guest's clock, in nanoseconds
	Calls  []HostCall `json:"calls,omitempty"`
	Output Blob       `json:"output,omitempty"` // the last answer that it wrote
	Failed bool       `json:"failed,omitempty"` // whether the hook returned 1, which means that it failed
	Fuel   uint64     `json:"fuel"`
	// Stopped is set if the host stopped the call because its time was used up. Fuel is then the
	// fuel that the call had used.
	Stopped bool `json:"stopped,omitempty"`
	// Cut is set if host calls are missing because they were too many or too large.
	Cut bool `json:"cut,omitempty"`
}

// A HostCall is a host call and its reply. Calls of read, write, log, config and WASI are not
// recorded, because the host answers them without the run.
type HostCall struct {
	Name    string     `json:"name"`
	Bytes   []Blob     `json:"bytes,omitempty"`   // arguments, such as a key and a value
	Numbers []int64    `json:"numbers,omitempty"` // arguments, such as indices, versions or deltas
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

// asks reports whether two calls have the same name and arguments.
func (q *HostCall) asks(o *HostCall) bool {
	return q.Name == o.Name && slices.Equal(q.Numbers, o.Numbers) &&
		slices.EqualFunc(q.Bytes, o.Bytes, func(a, b Blob) bool { return string(a) == string(b) })
}
