package suggest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		names string
		want  string
	}{
		{"read_fil", "write_file read_file list_files", "read_file"},
		{"ReadFile", "read_file", "read_file"},
		{"readfiles", "read_file list_files", "read_file"},
		{"search", "sea research search1 searches arch", "search1 research searches"},
		{"get_weather", "calculator", ""},
		{"a", "b", ""},
		{"ls", "cat", ""},
		{"", "a ab", ""},
		{"time", "", ""},
		{strings.Repeat("x", 1<<20), "x", ""},
	} {
		require.Equal(t, strings.Fields(tc.want), append([]string{}, Closest(tc.name, strings.Fields(tc.names))...), tc.name)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"ab", "ba", 2}} {
		require.Equal(t, tc.want, Distance(tc.a, tc.b), "%q %q", tc.a, tc.b)
	}
}
