package tool

// Idempotent returns t declared as idempotent: if a process ends during a call, the resumed run
// repeats the call. The returned tool does not stream, even if t does.
func Idempotent(t Tool) Tool {
	d := t.Declaration()
	d.Idempotent = true
	return Func(d, t.Call)
}
