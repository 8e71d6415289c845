//go:build !linux

package server

// lowly does work that nobody waits for as one waits for a run.
func lowly(work func()) { work() }

func standBack() {}
