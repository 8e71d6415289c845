package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

func TestDisguises(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, nil)
	const C = "[REDACTED_CREDIT_CARD]"
	b64 := base64.StdEncoding.EncodeToString([]byte("to " + mail))
	for text, want := range map[string]string{
		"ｂｏｂ＠ｅｘａｍｐｌｅ．ｃｏｍ!":                             hidden + "!",
		"bоb@ехаmple.com":                              hidden,
		"b\u200bob\u2060@exam\u00adple.com\u200b":      hidden + "\u200b",
		"\u202ebob@example.com\u202c":                  "\u202e" + hidden + "\u202c",
		"bob%40example%2Ecom":                          hidden,
		"bob&#64;example&period;com &amp; co":          hidden + " &amp; co",
		"bob&commat;example.com":                       hidden,
		`bob\u0040example.com, bob\\u{40}example.com`:  hidden + ", " + hidden,
		`bob\x40example.com`:                           hidden,
		"4111\u00a01111\u20031111\u202f1111":           C,
		"４１１１１１１１１１１１１１１１":                             C,
		"4111–1111—1111‑1111":                          C,
		"%34%31%31%31111111111111":                     C,
		"token=" + b64 + "; next":                      "token=" + hidden + "; next",
		strings.TrimRight(b64, "="):                    hidden,
		"626f62406578616d706c652e636f6d":               hidden,
		base64.StdEncoding.EncodeToString([]byte(b64)): hidden,
		`{"a":"{\"b\":\"` + b64 + `\"}"}`:              `{"a":"{\"b\":\"` + hidden + `\"}"}`,
		"100% of 41 &c. \\ %zz %4 &#; &#x; \\u00 \\":   "100% of 41 &c. \\ %zz %4 &#; &#x; \\u00 \\",
		"jürgen und Müller, Straße 41":                 "jürgen und Müller, Straße 41",
		"VGhlIHF1aWNrIGJyb3duIGZveA==":                 "VGhlIHF1aWNrIGJyb3duIGZveA==",
	} {
		require.Equal(t, want, s.all(text, finds{}), "%q", text)
		for size := 1; size <= utf8.RuneCountInString(text); size++ {
			require.Equal(t, want, streamed(s, text, size), "%q in pieces of %d", text, size)
		}
	}
	s = scannerOf(t, func(r *redact) { r.Decode = false })
	require.Equal(t, "bob%40example.com", s.all("bob%40example.com", finds{}))
}

// TestCutAnywhere checks, for each position at which text is split in two, that the output for
// the first piece is a prefix of the output for the whole text.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	s := scannerOf(
		t,
		func(r *redact) { r.Strategies = map[string]string{"credit_card": strategyMask, "iban": strategyHash} },
	)
	text := `{"to": "bob@example.com", "cc": "b\u00f6b%40example.org", "card": 4111111111111111, "x": "ｅｖｅ＠ｘ．ｏｒｇ", "ip": "10.0.0.1", ` +
		`"b": "` + base64.StdEncoding.EncodeToString(
		[]byte("amy@example.com"),
	) + `", "iban": "DE89 3704 0044 0532 0130 00\n4111 1111 1111 1111", "n": "no\u200b\nbody@x"}`
	for _, isJSON := range []bool{false, true} {
		want := s.next(&tail{JSON: isJSON}, text, true, finds{})
		for _, data := range []string{"bob", "4111111", "10.0", "3704", "ｘ", "YW15"} {
			require.NotContains(t, want, data)
		}
		for cut := range text {
			tail := &tail{JSON: isJSON}
			shown := s.next(tail, text[:cut], false, finds{})
			require.True(t, strings.HasPrefix(want, shown), "%d", cut)
			require.Equal(t, want, shown+s.next(tail, text[cut:], true, finds{}), "%d", cut)
		}
		require.Equal(t, isJSON, json.Valid([]byte(want)) == nil, "JSON stays JSON: %s", want)
	}
}

func TestAcrossParts(t *testing.T) {
	t.Parallel()
	part := func(s string) abi.Part { return abi.Part{Type: abi.PartText, Text: s} }
	image := abi.Part{Type: abi.PartImage}
	for name, c := range map[string]struct{ parts, want []abi.Part }{
		"whole": {
			[]abi.Part{part("a bob@example.com"), part("The end")}, []abi.Part{part("a " + hidden), part("The end")},
		},
		"cut": {
			[]abi.Part{part("a bob@exam"), part("ple.com, b 10."), part("0.0"), part(".1.")},
			[]abi.Part{part("a " + hidden), part(", b [REDACTED_IP]"), part(""), part(".")},
		},
		"an image": {
			[]abi.Part{part("bob@exam"), image, part("ple.com")}, []abi.Part{part("bob@exam"), image, part("ple.com")},
		},
		"nothing": {[]abi.Part{part("a"), part(""), part("b")}, []abi.Part{part("a"), part(""), part("b")}},
	} {
		h := newHost(t, nil)
		got := sent(t, h, abi.Message{Role: abi.RoleUser, Content: abi.Parts(c.parts...)})
		require.Equal(t, c.want, got[0].Content.Parts(), name)
	}
}
