//go:build wasip1 || guest

package jsoncodec

// compact appends v to b without insignificant whitespace.
func compact(b, v []byte) ([]byte, error) {
	s := Scanner{B: v}
	if err := s.Document(nil); err != nil {
		return b, err
	}
	for i, inside := 0, false; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '"':
			inside = !inside
		case inside && c == '\\':
			b = append(b, c)
			i++
			c = v[i]
		case !inside && c <= ' ':
			continue
		}
		b = append(b, c)
	}
	return b, nil
}
