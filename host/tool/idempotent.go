package tool

// Idempotent returns t declared as idempotent: if a run is interrupted during a call, it
// repeats the call when it resumes.
func Idempotent(t Tool) Tool {
	d := t.Declaration()
	d.Idempotent = true
	return Func(d, t.Call)
}
