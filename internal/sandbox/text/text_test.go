package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text, 漢字\t…":      "plain text, 漢字\t…",
		"\x1b[2J\x07\r\x7f":      `\x1b[2J\x07\x0d\x7f`,
		"\u202eevil\u2028\u0085": `\u202eevil\u2028\u0085`,
		"\xff\xc3\x28":           `\xff\xc3(`,
		"\U000e0001":             `\U000e0001`,
		"\ufffd":                 "\ufffd",
	} {
		require.Equal(t, want, string(Escape([]byte(in))))
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1500: "1500 bytes", 2048: "2 KiB", 3 << 19: "1.5 MiB", 64 << 20: "64 MiB", 4 << 30: "4 GiB",
	} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", Cut("short", 5))
	require.Equal(t, "sh… (3 bytes more)", Cut("short", 2))
	require.Equal(t, "… (6 bytes more)", Cut("漢字", 2), "no half characters")
}
