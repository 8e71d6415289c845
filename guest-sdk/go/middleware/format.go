package middleware

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sprintf formats like fmt.Sprintf, but supports only the verbs %v, %s, %q, %d, %x, %X, %o, %b, %c,
// %t, %T, %e, %f and %g, with a width, a precision and the flags -, + and 0. It calls the Error or
// String method of an argument, but not those of values nested in it. Importing fmt makes a module
// 0.6 MB larger, because fmt imports package os.
func Sprintf(format string, args ...any) string {
	text, _ := sprintf(format, args)
	return text
}

// Errorf is like fmt.Errorf with the verbs of [Sprintf]. The error wraps the operand of the last
// %w.
func Errorf(format string, args ...any) error {
	text, cause := sprintf(format, args)
	return &failure{text, cause}
}

type failure struct {
	text  string
	cause error
}

// Error returns the text.
func (f *failure) Error() string { return f.text }

// Unwrap returns the operand of %w, or nil.
func (f *failure) Unwrap() error { return f.cause }

// sprintf returns the formatted text, and the operand of the last %w if that is an error.
func sprintf(format string, args []any) (text string, cause error) {
	b := make([]byte, 0, len(format)+16*len(args))
	given := len(args)
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			b = append(b, format...)
			break
		}
		b = append(b, format[:i]...)
		var d directive
		format = d.read(format[i+1:])
		switch {
		case d.verb == '%':
			b = append(b, '%')
		case len(args) == 0:
			b = append(utf8.AppendRune(append(b, "%!"...), d.verb), "(MISSING)"...)
		default:
			if d.verb == 'w' {
				cause, _ = args[0].(error)
			}
			b = d.append(b, args[0])
			args = args[1:]
		}
	}
	if len(args) > 0 {
		b = append(
			append(strconv.AppendInt(append(b, "%!(EXTRA "...), int64(len(args)), 10), " of "...),
			strconv.Itoa(given)+")"...)
	}
	return string(b), cause
}

// A directive is a verb with its flags, width and precision.
type directive struct {
	verb             rune
	left, zero, sign bool
	width, precision int // precision is -1 if absent
}

// read parses the directive at the start of s, after its percent sign, and returns the rest of s.
func (d *directive) read(s string) string {
	d.precision = -1
	if s != "" && s[0] >= 'A' && s[0] < utf8.RuneSelf { // the common case
		d.verb = rune(s[0])
		return s[1:]
	}
	for ; s != "" && strings.IndexByte("-+0# ", s[0]) >= 0; s = s[1:] {
		d.left, d.zero, d.sign = d.left || s[0] == '-', d.zero || s[0] == '0', d.sign || s[0] == '+'
	}
	d.width, s = digits(s)
	if s != "" && s[0] == '.' {
		d.precision, s = digits(s[1:])
	}
	if s == "" {
		d.verb = '%' // s ends with a percent sign
		return s
	}
	verb, n := utf8.DecodeRuneInString(s)
	d.verb = verb
	return s[n:]
}

// digits parses the decimal number at the start of s, which is 0 if there is none, and returns the
// rest of s. Numbers above 999 become 999.
func digits(s string) (n int, rest string) {
	for ; s != "" && s[0] >= '0' && s[0] <= '9'; s = s[1:] {
		n = min(10*n+int(s[0]-'0'), 999)
	}
	return n, s
}

// append appends a value to b as text, padded to the width, and returns the extended slice.
func (d *directive) append(b []byte, v any) []byte {
	if d.width == 0 && d.precision < 0 && !d.sign {
		switch known := v.(type) { // the most common types
		case string:
			if d.verb == 's' || d.verb == 'v' {
				return append(b, known...)
			}
		case int:
			if d.verb == 'd' || d.verb == 'v' {
				return strconv.AppendInt(b, int64(known), 10)
			}
		case int64:
			if d.verb == 'd' || d.verb == 'v' {
				return strconv.AppendInt(b, known, 10)
			}
		}
	}
	text, number := d.text(v)
	missing := d.width - utf8.RuneCountInString(text)
	if missing <= 0 {
		return append(b, text...)
	}
	switch {
	case d.left:
		return append(append(b, text...), strings.Repeat(" ", missing)...)
	case d.zero && number:
		sign := strings.TrimRight(text[:1], "0123456789")
		return append(append(append(b, sign...), strings.Repeat("0", missing)...), text[len(sign):]...)
	}
	return append(append(b, strings.Repeat(" ", missing)...), text...)
}

// text formats a value for the verb. number reports whether the value is a number.
func (d *directive) text(v any) (text string, number bool) {
	r := reflect.ValueOf(v)
	switch {
	case v == nil, r.Kind() == reflect.Pointer && r.IsNil():
		return "<nil>", false
	case d.verb == 'T':
		return r.Type().String(), false
	}
	if strings.ContainsRune("vwsqxX", d.verb) {
		switch known := v.(type) {
		case error:
			return d.string(known.Error()), false
		case interface{ String() string }:
			return d.string(known.String()), false
		}
	}
	return d.value(r, 0)
}

// maxTextDepth is the maximum depth to which nested values are formatted.
const maxTextDepth = 8

// value formats a value for the verb. It is simpler than fmt: it does not call the methods of
// nested values, which would make a module 0.3 MB larger; it follows nested pointers; it formats
// functions and channels as their type in parentheses; and it replaces values that are nested
// deeper than maxTextDepth with "…". number reports whether text is a number.
func (d *directive) value(r reflect.Value, depth int) (text string, number bool) {
	switch r.Kind() {
	case reflect.Invalid:
		return "<nil>", false
	case reflect.String:
		return d.string(r.String()), false
	case reflect.Bool:
		return strconv.FormatBool(r.Bool()), false
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return d.integer(strconv.FormatInt(r.Int(), d.base()), rune(r.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return d.integer(strconv.FormatUint(r.Uint(), d.base()), rune(r.Uint()))
	case reflect.Float32, reflect.Float64:
		return d.float(r.Float(), r.Type().Bits()), true
	case reflect.Pointer, reflect.Interface:
		if r.IsNil() {
			return "<nil>", false
		}
		text, _ = d.value(r.Elem(), depth+1)
		if r.Kind() == reflect.Pointer {
			text = "&" + text
		}
		return text, false
	case reflect.Slice:
		if r.Type().Elem().Kind() == reflect.Uint8 && d.verb != 'v' && d.verb != 'd' {
			return d.string(string(r.Bytes())), false
		}
	case reflect.Array, reflect.Struct, reflect.Map:
	default:
		return "(" + r.Type().String() + ")", false
	}
	if depth > maxTextDepth {
		return "…", false
	}
	return d.parts(r, depth+1), false
}

// parts formats a struct, a map, an array or a slice.
func (d *directive) parts(r reflect.Value, depth int) string {
	var parts []string
	add := func(name string, v reflect.Value) {
		text, _ := d.value(v, depth)
		parts = append(parts, name+text)
	}
	switch r.Kind() {
	case reflect.Struct:
		for i := range r.NumField() {
			name := ""
			if d.sign && d.verb == 'v' {
				name = r.Type().Field(i).Name + ":"
			}
			add(name, r.Field(i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case reflect.Map:
		for it := r.MapRange(); it.Next(); {
			key, _ := d.value(it.Key(), depth)
			add(key+":", it.Value())
		}
		slices.Sort(parts)
		return "map[" + strings.Join(parts, " ") + "]"
	default:
		for i := range r.Len() {
			add("", r.Index(i))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
}

func (d *directive) string(s string) string {
	if d.precision >= 0 {
		s = string([]rune(s)[:min(d.precision, utf8.RuneCountInString(s))])
	}
	switch d.verb {
	case 'q':
		return strconv.Quote(s)
	case 'x', 'X':
		return d.hex(s)
	}
	return s
}

func (d *directive) hex(s string) string {
	const lower = "0123456789abcdef"
	out := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		out = append(out, lower[s[i]>>4], lower[s[i]&15])
	}
	if d.verb == 'X' {
		return strings.ToUpper(string(out))
	}
	return string(out)
}

func (d *directive) base() int {
	switch d.verb {
	case 'x', 'X':
		return 16
	case 'o':
		return 8
	case 'b':
		return 2
	}
	return 10
}

func (d *directive) integer(text string, r rune) (string, bool) {
	switch d.verb {
	case 'c':
		return string(r), false
	case 'q':
		return strconv.QuoteRune(r), false
	case 'X':
		text = strings.ToUpper(text)
	}
	return d.signed(text), true
}

func (d *directive) float(f float64, bits int) string {
	form, precision := byte('g'), d.precision
	if strings.ContainsRune("eEfFG", d.verb) {
		form = byte(d.verb)
		if precision < 0 && form != 'G' {
			precision = 6
		}
		if form == 'F' {
			form = 'f'
		}
	}
	return d.signed(strconv.FormatFloat(f, form, precision, bits))
}

func (d *directive) signed(text string) string {
	if d.sign && d.verb != 'v' && text[0] != '-' && text[0] != '+' {
		return "+" + text
	}
	return text
}
