package record

import (
	"hash/fnv"

	"github.com/agent-runner/agent-runner/abi"
)

// repeats notes that a call sends an event for the nth time in this pass, and says
// whether an earlier pass told it as often. Events that say something else are not
// the same: a hook that goes on with an answer has something new to say.
func (r *Record) WasSent(key string, sum uint64, nth int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	for _, told := range e.Told {
		if told == sum {
			nth--
		}
	}
	if nth <= 0 {
		return true
	}
	e.Told = append(e.Told, sum)
	r.change(key)
	return false
}

// sumOf stands for what an event of a call says.
func EventSum(e *abi.Event) uint64 {
	h := fnv.New64a()
	for _, part := range []string{string(e.Type), e.Level, e.Name, e.Text} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(e.Data)
	return h.Sum64()
}

// told counts an event about a call, and says whether it was told in an earlier pass.
func (r *Record) WasReported(key string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	if n <= e.Events {
		return true
	}
	e.Events = n
	r.change(key)
	return false
}
