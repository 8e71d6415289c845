package replay

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// A Recording is one hook call as it was recorded: all that the module's answer
// depended on, and what it came to.
type Recording struct {
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
