package jsoncodec

// NewScanner returns a scanner that reads b. If stop is not nil, the scanner calls it every
// 64 KiB.
func NewScanner(b []byte, stop func() error) *Scanner { return &Scanner{B: b, stop: stop} }

// Release does nothing, because modules do not pool scanners.
func (s *Scanner) Release() {}
