package disguise

// Hex decodes hexadecimal digits, two per byte. ok is false if text contains anything else or an
// odd number of digits. It replaces encoding/hex, which imports fmt and makes a module 0.5 MB
// larger.
func Hex(text string) (b []byte, ok bool) {
	if len(text)%2 != 0 {
		return nil, false
	}
	b = make([]byte, 0, len(text)/2)
	for i := 0; i < len(text); i += 2 {
		high, low := digit(text[i]), digit(text[i+1])
		if high < 0 || low < 0 {
			return nil, false
		}
		b = append(b, byte(high<<4|low))
	}
	return b, true
}

// digit returns the value of a hexadecimal digit, or -1 for any other character.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
