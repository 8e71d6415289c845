package tool

// Idempotent returns t declared as idempotent: if a run is interrupted during a call, the run
// repeats the call when it resumes. The returned tool does not stream, even if t does.
func Idempotent(t Tool) Tool {
	d := t.Declaration()
	d.Idempotent = true
	return Func(d, t.Call)
}
