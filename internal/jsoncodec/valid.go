package jsoncodec

// Valid returns an error if b is not one strict JSON value.
func Valid(b []byte) error { return ValidUntil(b, nil) }

// ValidUntil is like Valid, but calls stop every 64 KiB of text. If stop fails, ValidUntil
// returns the error of stop.
func ValidUntil(b []byte, stop func() error) error {
	s := NewScanner(b, stop)
	err := s.Document(nil)
	if s.stopped != nil {
		err = s.stopped
	}
	s.Release()
	return err
}

// FieldOf returns the value of a field of the JSON object b, or nil if there is no such
// field. b must be valid JSON. The result is a part of b.
func FieldOf(b []byte, name string) []byte {
	var found []byte
	if eachField(b, func(field string, value []byte) error {
		if field == name {
			found = value
		}
		return nil
	}) != nil {
		return nil
	}
	return found
}

// eachField calls fn with each field of the object b, which must be valid JSON.
func eachField(b []byte, fn func(name string, value []byte) error) error {
	s := Scanner{B: b}
	s.field = fn
	return s.Document(nil)
}
