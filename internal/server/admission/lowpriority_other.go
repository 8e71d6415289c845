//go:build !linux

package admission

// RunLowPriority runs fn.
func RunLowPriority(fn func()) { fn() }

func schedYield() {}
