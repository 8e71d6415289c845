package sdktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// redactors runs a test on every port of the example redact.
func redactors(t *testing.T, test func(t *testing.T, r *redactor)) {
	t.Helper()
	met := ported(t, "redact", func(t *testing.T, h *Host) {
		r := &redactor{t: t, h: h, values: map[string]string{}}
		h.Answer = r.answer
		test(t, r)
	})
	require.Equal(t, len(guestbuild.Languages), met)
}

type redactor struct {
	t      *testing.T
	h      *Host
	values map[string]string
	stream int
}

// answer stores and returns run-local values.
func (r *redactor) answer(c Call) (string, *abi.Error) {
	switch c.Import {
	case "local_get":
		if v, ok := r.values[c.Args[0]]; ok {
			return `{"value":` + v + `,"version":1}`, nil
		}
		return "", nil
	case "local_set":
		r.values[c.Args[0]] = c.Args[1]
		return `{"version":1}`, nil
	default:
		return "", nil
	}
}

func (r *redactor) configure(config string) {
	r.t.Helper()
	output, ok, err := r.h.Hook(r.t.Context(), "configure", `{"entry":"e","config":`+config+`}`)
	require.NoError(r.t, err)
	require.True(r.t, ok, output)
}

// says streams text in pieces. It returns the text that the module let through, and the largest
// number of bytes that the module held back.
func (r *redactor) says(pieces ...string) (shown string, limit int) {
	r.t.Helper()
	r.stream++
	said := 0
	for i, p := range append(pieces, "") {
		text, err := json.Marshal(p)
		require.NoError(r.t, err)
		chunks, final := `{"seq":1,"kind":"text","text":`+string(text)+`}`, i == len(pieces)
		if final {
			chunks = ""
		}
		output, ok, err := r.h.Hook(
			r.t.Context(),
			"on_chunk",
			fmt.Sprintf(`{%s,"chunks":[%s],"stream":%d,"final":%v}`, envelope, chunks, r.stream, final),
		)
		require.NoError(r.t, err)
		require.True(r.t, ok, output)
		var answer abi.OnChunkAnswer
		_, err = abijson.Decode([]byte(output), &answer)
		require.NoError(r.t, err, output)
		for _, c := range answer.Chunks {
			shown += c.Text
		}
		said += len(p)
		limit = max(limit, said-len(shown))
	}
	return shown, limit
}

// redactions maps text to its redacted form, in which [EMAIL] means [REDACTED_EMAIL].
var redactions = map[string]string{
	"":            "",
	"no data, 日本": "no data, 日本",
	"Write to bob@example.com, or a.b+c@mail.example.co.uk.": "Write to [EMAIL], or [EMAIL].",
	"bob@localhost @x.com bob@.com a@b.c a@b-.com":           "bob@localhost @x.com bob@.com a@b.c a@b-.com",
	"...bob@example.com-- <eve@x.org>":                       "...[EMAIL]-- <[EMAIL]>",
	"é bob@example.com é":                                    "é [EMAIL] é",
	"4111 1111 1111 1111":                                    "[CREDIT_CARD]",
	"pay 4111-1111-1111-1111, not 4111 1111 1111 1112.":      "pay [CREDIT_CARD], not 4111 1111 1111 1112.",
	"5500005555555559 x378282246310005 378282246310005":      "[CREDIT_CARD] x378282246310005 [CREDIT_CARD]",
	"1.4111111111111111 41 11 11":                            "1.4111111111111111 41 11 11",
	"from 10.0.0.1. 256.1.1.1 1.2.3 1.2.3.4.5 v1.2.3.4":      "from [IP]. 256.1.1.1 1.2.3 1.2.3.4.5 v1.2.3.4",
	"(192.168.0.255), 0.0.0.0":                               "([IP]), [IP]",
	"DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432": "[IBAN] and [IBAN]",
	"de89370400440532013000 DE89370400440532013001 XX00":     "[IBAN] DE89370400440532013001 XX00",
	"NO93 8601 1117 947, BE68539007547034":                   "[IBAN], [IBAN]",
	"order 123456, tel. 030 1234567, DE, D, 4":               "order 123456, tel. 030 1234567, DE, D, 4",
}

// TestRedact checks that the ports find the same data however text is split into pieces.
func TestRedact(t *testing.T) {
	t.Parallel()
	redactors(t, func(t *testing.T, r *redactor) {
		r.configure(`{}`)
		for text, want := range redactions {
			want = strings.NewReplacer("[", "[REDACTED_").Replace(want)
			for _, size := range []int{1, 2, 3, 5, 8, 13, 100} {
				var pieces []string
				for rest := []rune(text); len(rest) > 0; {
					n := min(size, len(rest))
					pieces = append(pieces, string(rest[:n]))
					rest = rest[n:]
				}
				got, _ := r.says(pieces...)
				require.Equal(t, want, got, "in pieces of %d", size)
			}
		}
	})
}

// TestRedactHoldsLittle checks that the ports hold back only text that may become a match.
func TestRedactHoldsLittle(t *testing.T) {
	t.Parallel()
	redactors(t, func(t *testing.T, r *redactor) {
		r.configure(`{}`)
		_, limit := r.says(strings.Split("It was a bright cold day in April, and the 12 clocks were striking 13. ", "")...)
		require.Less(t, limit, 12, "no more than a word")
		_, limit = r.says(strings.Split(strings.Repeat("a", 500)+strings.Repeat("1", 500)+strings.Repeat("a@a.", 125), "")...)
		require.Less(t, limit, 400)
	})
}

// TestRedactMasks checks that masking leaves the last digits of a card number.
func TestRedactMasks(t *testing.T) {
	t.Parallel()
	redactors(t, func(t *testing.T, r *redactor) {
		r.configure(`{"strategy":"mask","detect":["email","credit_card"]}`)
		got, _ := r.says("bob@example.com 4111 1111 1111 1111 10.0.0.1")
		require.Equal(t, "***@*******.*** **** **** **** 1111 10.0.0.1", got)
		output, ok, err := r.h.Hook(t.Context(), "configure", `{"entry":"e","config":{"detect":["email","phone"]}}`)
		require.NoError(t, err)
		require.False(t, ok)
		require.Contains(t, output, `config: detect[1]: \"phone\" is not one of email, credit_card, ip, iban`)
	})
}
