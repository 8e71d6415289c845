package jsoncodec

// NewScanner returns a scanner of b. It calls stop every 64 KiB, if stop is set.
func NewScanner(b []byte, stop func() error) *Scanner { return &Scanner{B: b, stop: stop} }

// Release releases the scanner.
func (s *Scanner) Release() {}
