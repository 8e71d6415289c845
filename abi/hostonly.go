//go:build !wasip1 && !guest

package abi

import (
	"bytes"
	"encoding/json"
	"time"
)

// This file contains what only a host needs. Importing time makes a module 0.3 MB larger,
// importing encoding/json 0.8 MB.

// JSON is raw JSON text. In a module it is a type of this package instead; convert a
// json.RawMessage there with abi.JSON(raw).
type JSON = json.RawMessage

// compact appends v to b without insignificant whitespace.
func compact(b []byte, v JSON) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	err := json.Compact(buf, v)
	return buf.Bytes(), err
}

// Count records one call of hook h, its duration and whether it faulted.
func (s *EntryStats) Count(h Hook, wall time.Duration, faulted bool) {
	s.Calls++
	s.Hooks[h]++
	s.WallUS += wall.Microseconds()
	if faulted {
		s.Faults++
	}
}
