package tool

// Idempotent declares that a tool may be called twice with the same effect as
// once: a run that was cut off while it was called calls it again.
func Idempotent(t Tool) Tool {
	d := t.Declaration()
	d.Idempotent = true
	return Func(d, t.Call)
}
