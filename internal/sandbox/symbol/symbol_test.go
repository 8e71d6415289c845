package symbol

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadable(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"_ZN5guard6decide17h0f5d1c2b3a495867E", "guard::decide"}, // Rust
		{"_ZN4core9panicking18panic_bounds_check17hd1b2a0c4e5f60718E", "core::panicking::panic_bounds_check"},
		{"_RNvCs1234_5guard6decide", "guard::decide"}, // Rust, v0
		{"_RNvXCs1234_5guardNtB2_5GuardNtB2_4Gate6decide", "<guard::Guard as guard::Gate>::decide"},
		{"_ZN5guard6decideERKNS_4CallE", "guard::decide"}, // C++
		{"_Z6decideIiEvT_", "decide"},
		{"main.main", "main.main"},
		{"assembly/index/gate_tool", "assembly/index/gate_tool"},
		{"_Z", "_Z"},
		{"_R\x1b[31m", "_R\x1b[31m"},
		{"_Z" + strings.Repeat("1a", 600), "_Z" + strings.Repeat("1a", 600)}, // too long
	} {
		require.Equal(t, test.want, Readable(test.name))
	}
	lines, err := ReadableLines([]byte("a\n_Z6decidev\n\n_Z1"))
	require.NoError(t, err)
	require.Equal(t, "a\ndecide\n\n_Z1", string(lines))
}

// FuzzReadable checks that no name makes the demangler panic or return a long text. Names of 100
// bytes are short enough to be demangled fast.
func FuzzReadable(f *testing.F) {
	for _, name := range []string{
		"_ZN5guard6decide17h0f5d1c2b3a495867E", "_RNvXCs1234_5guardNtB2_5GuardNtB2_4Gate6decide",
		"_ZN5guard6decideERKNS_4CallE", "_RMB1_IMIBF_ONtIBb_MIC0IMINtB1_B1_TXE", "_ZIJDpS_T_E", "_GLOBAL__I_a",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 100 {
			return
		}
		began := time.Now()
		require.LessOrEqual(t, len(Readable(name)), max(len(name), 2<<10))
		require.Less(t, time.Since(began), 10*time.Second)
		lines, err := ReadableLines([]byte(name))
		require.NoError(t, err)
		require.Equal(t, strings.Count(name, "\n"), strings.Count(string(lines), "\n"))
	})
}
