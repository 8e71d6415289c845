package abijson

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// stopInterval is the number of bytes between two calls of stop.
const stopInterval = 64 << 10

// TestDecodeUntil checks that decoding calls stop at least once per 128 KiB of text on average,
// whatever the text consists of, and that it fails with the error of stop.
func TestDecodeUntil(t *testing.T) {
	t.Parallel()
	const size = 20 * stopInterval
	whole := func(begin, piece, end string) string {
		return begin + strings.Repeat(piece, size/len(piece)) + end
	}
	for name, text := range map[string]string{
		"string":       whole(`{"name":"n","data":"`, "x", `"}`),
		"escapes":      whole(`{"name":"`, `\u00e9`, `","data":1}`),
		"UTF-8":        whole(`{"name":"`, "é", `","data":1}`),
		"numbers":      whole(`{"name":"n","data":[`, "1,", `1]}`),
		"arrays":       whole(`{"name":"n","data":[`, "[],", `[]]}`),
		"objects":      whole(`{"name":"n","data":[`, "{},", `{}]}`),
		"unknown":      whole(`{"x":[`, `{"a":"b"},`, `{}]}`),
		"a long key":   whole(`{"`, `x`, `":1}`),
		"escaped keys": whole(`{"`, `\n`, `":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			var out contract.Custom
			_, err := DecodeUntil([]byte(text), &out, func() error { asked++; return nil })
			require.NoError(t, err)
			require.GreaterOrEqual(t, asked, size/stopInterval/2)

			for n := range 4 {
				asked, enough := 0, errors.New("enough")
				stop := func() error {
					if asked++; asked > n {
						return enough
					}
					return nil
				}
				var none contract.Custom
				_, err := DecodeUntil([]byte(text), &none, stop)
				require.ErrorIs(t, err, enough)
				require.Equal(t, n+1, asked, "it is not asked again")
				require.Equal(t, contract.Custom{}, none)
				asked = 0
				require.ErrorIs(t, jsoncodec.ValidUntil([]byte(text), stop), enough)

				var other map[string]any
				asked = 0
				_, err = DecodeUntil([]byte(text), &other, stop)
				require.ErrorIs(t, err, enough)
				require.Nil(t, other)
			}
		})
	}
}
