package truncate

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTextEndsBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 5, "abc"},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"aé", 2, "a"},
		{"aé", 3, "aé"},
		{"a€b", 2, "a"},
		{"a€b", 3, "a"},
		{"a€b", 4, "a€"},
		{"a😀b", 4, "a"},
		{"a😀b", 5, "a😀"},
		{"a\x80\x80\x80\x80\x80", 4, "a\x80\x80\x80"}, // continuation bytes without a start
		{"a\xe2\x82", 3, "a\xe2\x82"},                 // not cut
		{"a\xffb", 2, "a\xff"},
	} {
		require.Equal(t, test.want, Text(test.text, test.limit), "%q to %d bytes", test.text, test.limit)
		require.Equal(t, test.want, string(Text([]byte(test.text), test.limit)), "%q to %d bytes", test.text, test.limit)
	}
	for text, want := range map[string]string{
		"": "", "a€": "a€", "a\xe2\x82": "a", "\xf0\x9f\x98": "", "a\xff": "a\xff", "\x80\x80\x80": "\x80\x80\x80",
	} {
		require.Equal(t, want, Whole(text), "%q", text)
	}
}

// FuzzText checks that valid text remains valid, and that less than one character is lost.
func FuzzText(f *testing.F) {
	f.Add("a€😀", 4)
	f.Add(strings.Repeat("\x80", 9), 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		short := Text(s, limit)
		require.True(t, strings.HasPrefix(s, short))
		require.LessOrEqual(t, len(short), max(limit, 0))
		if len(s) > limit {
			require.Greater(t, len(short)+utf8.UTFMax, limit)
		}
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(short))
		}
	})
}
