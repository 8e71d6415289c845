package jsoncodec

import "strconv"

// maxUnknown is the maximum number of unknown keys that are reported.
const maxUnknown = 16

// ErrorAt returns a [*DecodeError] with the current path and position.
func (s *Scanner) ErrorAt(text string) error {
	if at := s.Where(); at != "" {
		text = at + ": " + text
	}
	return &DecodeError{Offset: s.I, text: text}
}

// AddUnknown records the path of the current value as an unknown key, unless maxUnknown keys are
// recorded already.
func (s *Scanner) AddUnknown() {
	if len(s.Unknown) < maxUnknown {
		s.Unknown = append(s.Unknown, s.Where())
	}
}

// duplicateKeyError returns the error for a duplicate key.
func (s *Scanner) duplicateKeyError(key string) error {
	return s.ErrorAt("key " + quote(Cut(key, 64)) + " is duplicated")
}

// A DecodeError describes invalid JSON text and its position.
type DecodeError struct {
	Offset int // byte offset of the error
	text   string
}

// Error returns the reason, with the path and the offset.
func (e *DecodeError) Error() string { return e.text + " (at byte " + strconv.Itoa(e.Offset) + ")" }

// Reason returns the message without the offset.
func (e *DecodeError) Reason() string { return e.text }

// Kind names the kind of a value that begins with first, for error messages. It returns "a number"
// if first begins no value of another kind. The caller must handle null.
func Kind(first byte) string {
	switch first {
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case '{':
		return "an object"
	case '[':
		return "an array"
	default:
		return "a number"
	}
}

// Wrap returns an error with the message "what: err" that unwraps to err. fmt would make
// modules 0.7 MB larger.
func Wrap(what string, err error) error { return &wrappedError{what, err} }

type wrappedError struct {
	what string
	err  error
}

// Error returns the message with its cause.
func (w *wrappedError) Error() string { return w.what + ": " + w.err.Error() }

// Unwrap returns the cause.
func (w *wrappedError) Unwrap() error { return w.err }
