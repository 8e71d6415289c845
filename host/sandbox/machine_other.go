//go:build !linux

package sandbox

import "math"

func machineMemory() int64 { return otherMachine }

func maxInstances() int64 { return math.MaxInt32 } // none maps anything
