package sdktest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// places returns strings of up to 19 letters. Each has the text in what inserted at one position.
func places(what string) (out []string) {
	for n := range 20 {
		for i := range n + 1 {
			out = append(
				out,
				strings.Repeat("g", i)+what+strings.Repeat("h", n-i),
				strings.Repeat("é", i)+what+strings.Repeat("日", n-i),
			)
		}
	}
	return out
}

// TestTexts checks that each SDK decodes and encodes strings with escaped and multi-byte characters
// at every position in a word. A reader that handles eight bytes at a time must find each of them.
func TestTexts(t *testing.T) {
	t.Parallel()
	each(t, "mirror", func(t *testing.T, h *Host) {
		for _, what := range []string{"", `"`, `\`, "\n", "\x01", "\x1f", "\x7f", "é", "日", "😀", "\u2028", "\u2029x", `""`, `"a\`, "\"\n\\\t", "\u0080"} {
			for _, text := range places(what) {
				want, err := abijson.Marshal(&abi.Error{Code: "c", Message: text})
				require.NoError(t, err)
				got, ok, err := h.Hook(t.Context(), "error", string(want))
				require.NoError(t, err)
				require.True(t, ok, "%q: %s", text, got)
				require.Equal(t, string(want), got)
			}
		}
	})
}

// TestBadTexts checks that each SDK rejects input with invalid JSON at any position of a string,
// and the same input without the end of the string and the object.
func TestBadTexts(t *testing.T) {
	t.Parallel()
	each(t, "mirror", func(t *testing.T, h *Host) {
		for _, what := range []string{
			"\n", "\x00", "\x1f", `\x`, `\u12`, `\u123x`, `\`, `"`, `","x":01,"y":"`, `","x":"` + "\t",
		} {
			for _, text := range places(what) {
				for _, input := range []string{`{"code":"c","message":"` + text + `"}`, `{"code":"c","message":"` + text} {
					_, ok, err := h.Hook(t.Context(), "error", input)
					require.NoError(t, err)
					require.False(t, ok, "%q", input)
				}
			}
		}
	})
}

// TestKeys checks that each SDK ignores keys that differ from a type's keys in an added byte, a
// removed byte or the case of a letter, and reads keys in any order.
func TestKeys(t *testing.T) {
	t.Parallel()
	each(t, "mirror", func(t *testing.T, h *Host) {
		for _, key := range []string{"code", "message", "retryable", "status", "retry_after_ms"} {
			for i := range len(key) {
				for _, other := range []string{key[:i] + "_" + key[i:], key[:i] + key[i+1:], key[:i] + strings.ToUpper(key[i:i+1]) + key[i+1:]} {
					if other == key {
						continue
					}
					got, ok, err := h.Hook(t.Context(), "error", `{"`+other+`":true,"message":"m","code":"c"}`)
					require.NoError(t, err)
					require.True(t, ok, "%s: %s", other, got)
					require.Equal(t, `{"code":"c","message":"m"}`, got, other)
				}
			}
		}
		got, ok, err := h.Hook(
			t.Context(),
			"error",
			" {\t\"retry_after_ms\" : 1099511627776 ,\r\n\"st\\u0061tus\":-7, \"code\": \"c\",\"message\":null,\"retryable\" :true } ",
		)
		require.NoError(t, err)
		require.True(t, ok, got)
		require.Equal(t, `{"code":"c","message":"","retryable":true,"status":-7,"retry_after_ms":1099511627776}`, got)
	})
}
