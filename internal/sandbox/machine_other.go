//go:build !linux

package sandbox

func machineMemory() int64 { return unknownMachine }
