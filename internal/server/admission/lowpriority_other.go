//go:build !linux

package admission

// RunLowPriority runs fn at the usual priority.
func RunLowPriority(fn func()) { fn() }

func schedYield() {}
