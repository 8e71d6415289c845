package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

const value = `s3cr3t/"v%41lue"+&=\n<é😀`

func redacted(t *testing.T, s string, values ...string) string {
	t.Helper()
	var secrets []*Secret
	for i, v := range values {
		secrets = append(secrets, NewSecret(v, fmt.Sprintf("[%d]", i)))
	}
	out, err := Text(s, secrets)
	require.NoError(t, err)
	return out
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b[1 : len(b)-1])
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	php := strings.ReplaceAll(quoted(t, value), "/", `\/`)
	for name, s := range map[string]string{
		"raw":                 value,
		"JSON":                quoted(t, value),
		"JSON as PHP":         php,
		"JSON in upper case":  strings.ReplaceAll(quoted(t, value), `\u003c`, `\u003C`),
		"JSON in JSON":        quoted(t, php),
		"JSON three times":    quoted(t, quoted(t, php)),
		"query":               url.QueryEscape(value),
		"path":                url.PathEscape(value),
		"query in lower case": strings.ToLower(url.QueryEscape(strings.ToLower(value))),
		"query twice":         url.QueryEscape(url.QueryEscape(value)),
		"HTML":                html.EscapeString(value),
		"HTML twice":          html.EscapeString(html.EscapeString(value)),
		"HTML in JSON":        quoted(t, html.EscapeString(value)),
		"query in HTML":       html.EscapeString(url.QueryEscape(value)),
		"named entities": strings.NewReplacer("+", "&plus;", "/", "&sol;", "=", "&equals;", "%", "&percnt;",
			"é", "&eacute;").Replace(value),
		"entities without ;":   strings.NewReplacer("&", "&amp", "<", "&#60").Replace(value),
		"base64":               base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 for URLs":      base64.RawURLEncoding.EncodeToString([]byte(value)),
		"base64 of u:secret":   base64.StdEncoding.EncodeToString([]byte("u:" + value)),
		"base64 of us:secret":  base64.StdEncoding.EncodeToString([]byte("us:" + value)),
		"base64 of usr:secret": base64.StdEncoding.EncodeToString([]byte("usr:" + value)),
		"base64 in a query":    url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(value))),
	} {
		secret := value
		if name == "query in lower case" {
			secret = strings.ToLower(value)
		}
		got := redacted(t, "before "+s+" after", secret)
		require.Contains(t, got, "[0]", name)
		if !strings.HasPrefix(name, "base64") {
			require.Equal(t, "before [0] after", got, name)
		}
	}
}

func TestDecodedForms(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("user:the password"))
	for secret, s := range map[string]string{
		"first%2Fsecond":   "first/second",
		"first+second":     "first second",
		`first\/second`:    "first/second",
		"first&amp;second": "first&second",
		basic:              "user:the password",
		"Basic " + basic:   "the password",
		"abcdefgh":         base64.StdEncoding.EncodeToString([]byte("abcdefgh")),
	} {
		require.Contains(t, redacted(t, "x "+s+" y", secret), "[0]", secret)
	}
}

func TestOtherTextIsUnchanged(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "s3cr3t", value[:len(value)-1], value[1:], `{"a":"b\/c\u0026"}`, "%", "%4", "%zz", `\`, `\u`, `\u12`, `\ud83d`, `\ud83d\u0041`, "&", "&#", "&#x", "&#x;",
		"&#99999999999999999999;", "&nosuch;", "&" + strings.Repeat("a", 100), "%ff%fe", "%c3", "%c3%", "%f0%9f%98", "\xff\xfe", "+", strings.Repeat(`\`, 99), strings.Repeat("&amp;", 99),
	} {
		require.Equal(t, s, redacted(t, s, value), s)
	}
	require.Equal(t, "ab[1][0]c", redacted(t, "ab12345678abcdefghc", "abcdefgh", "12345678"))
	require.Equal(t, "[1]", redacted(t, "abcdefghi", "abcdefgh", "abcdefghi"), "the longest")
	require.Equal(t, "[0][0]a", redacted(t, strings.Repeat("a", 17), strings.Repeat("a", 8)))
}

// spell returns a random spelling of c, with escapes nested at most depth levels deep.
func spell(r *rand.Rand, c rune, depth int) string {
	var out string
	switch r.IntN(9) {
	case 0:
		out = fmt.Sprintf(`\u%04x`, c)
		if c > 0xffff {
			a, b := utf16.EncodeRune(c)
			out = fmt.Sprintf(`\u%04X\u%04x`, a, b)
		}
	case 1:
		for _, b := range []byte(string(c)) {
			out += fmt.Sprintf([]string{"%%%02x", "%%%02X"}[r.IntN(2)], b)
		}
	case 2:
		out = fmt.Sprintf("&#%0*d;", r.IntN(9), c)
	case 3:
		out = fmt.Sprintf([]string{"&#x%0*x;", "&#X%0*X;"}[r.IntN(2)], r.IntN(9), c)
	case 4:
		out = html.EscapeString(string(c))
	case 5:
		out = url.QueryEscape(string(c))
	case 6:
		if strings.ContainsRune(`"'\/`, c) {
			out = `\` + string(c)
			break
		}
		fallthrough
	default:
		return string(c)
	}
	if depth == 1 {
		return out
	}
	var again strings.Builder
	for _, c := range out {
		again.WriteString(spell(r, c, depth-1))
	}
	return again.String()
}

// FuzzText checks that a secret is found in any mix of spellings in any text, and that text without
// the secret is not changed.
func FuzzText(f *testing.F) {
	f.Add(value, "before ", " after", uint64(1), uint8(1))
	f.Add(`%%%%\\\\&&&&`, `%25\`, "amp;", uint64(2), uint8(2))
	f.Add("aaaaaaaaa", "aaaa&#", "61;aaa", uint64(3), uint8(3))
	f.Add("100%2541&amp;#38;", "%", "25", uint64(4), uint8(3))
	f.Fuzz(func(t *testing.T, secret, before, after string, seed uint64, depth uint8) {
		if len(secret) < minLength || len(secret) > 200 || strings.ToValidUTF8(secret, "") != secret ||
			strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		k := NewSecret(secret, "\x00")
		var b strings.Builder
		for _, c := range secret {
			b.WriteString(spell(r, c, 1+int(depth)%maxDepth))
		}
		middle := b.String()
		out, err := Text(before+middle+after, []*Secret{k})
		if err != nil {
			require.ErrorIs(t, err, ErrTooComplex)
			return
		}
		require.True(t, strings.Contains(out, "\x00"), "%q in %q", secret, before+middle+after)
		require.NotContains(t, strings.ReplaceAll(out, "\x00", ""), secret)

		// Text may change only if it contains the secret.
		text := before + after
		out, err = Text(text, []*Secret{k})
		if err != nil || out == text || len(text) > 100 {
			return
		}
		require.True(t, containsSecret(text, k), "%q does not hold %q, and became %q", text, secret, out)
	})
}

// containsSecret reports whether s contains the secret in any spelling. It is a slow second implementation: it
// removes escapes one by one, in any order, and searches each result. It returns true if there are more than 300
// results.
func containsSecret(s string, k *Secret) bool {
	seen := map[string]bool{}
	var try func(s string) bool
	try = func(s string) bool {
		for _, p := range k.patterns {
			if strings.Contains(s, string(p)) {
				return true
			}
		}
		if seen[s] || len(seen) > 300 {
			return len(seen) > 300
		}
		seen[s] = true
		for i := range len(s) {
			if !escapes(s[i]) {
				continue
			}
			one := &text{s: s, budget: 1 << 20}
			l := one.at(i, 1)
			for _, u := range l.all() {
				if int(u.end) > i+1 || u.char == ' ' {
					if try(s[:i] + string(u.char) + s[u.end:]) {
						return true
					}
				}
			}
		}
		return false
	}
	return try(s)
}

// TestHostileTexts checks that Text returns hostile text without secrets unchanged, or fails with
// ErrTooComplex. It logs the time for each.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const size = 1 << 17
	var secrets []*Secret
	for _, v := range []string{strings.Repeat("a", 1000) + "b", strings.Repeat(`\`, 1000) + "b", strings.Repeat("%", 1000) + "b", strings.Repeat("&", 99) + "b", value} {
		secrets = append(secrets, NewSecret(v, "[]"))
	}
	for _, unit := range []string{"a", `\`, "%", "%25", "&", "&amp;", "&#", "&#38;", "&#0", `\u0025`, `\\u005c`, "%2525", "+", "\xff", `\ud83d`, "%f0", "&aa", "{\"a\":\"b\\n\"},"} {
		start := time.Now()
		text := strings.Repeat(unit, size/len(unit))
		out, err := Text(text, secrets)
		if err != nil {
			require.ErrorIs(t, err, ErrTooComplex)
		} else {
			require.True(t, text == out, unit)
		}
		t.Logf("%-10s %v %v", unit, time.Since(start).Round(time.Millisecond), err)
	}
}

func BenchmarkText(b *testing.B) {
	secrets := []*Secret{NewSecret("sk-0123456789abcdefghijklmnopqrstuvwxyz", "[]")}
	for name, unit := range map[string]string{"JSON": `{"name":"a \"quoted\" word","path":"C:\\x\n","n":12},`, "text": "Some plain words of a text. ", "form": "a=%D0%B0%D0%B1&b=c+d&"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, err := Text(text, secrets)
				require.NoError(b, err)
			}
		})
	}
}
