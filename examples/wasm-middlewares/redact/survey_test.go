package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSurvey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]survey{
		"": {},
		"small letters, and no more than that in this text": {},
		strings.Repeat("a", 40) + "@":                       {at: true},
		"12 or so":                                          {numbers: []int{0}},
		"1, 234 and 56":                                     {numbers: []int{0, 3, 11}},
		"100%":                                              {numbers: []int{0}, disguised: true},
		strings.Repeat(" ", 37) + `\`:                       {disguised: true},
		"é":                                                 {disguised: true},
		"the conversation-of-words":                         {},
		"a/path/of/files here":                              {runs: [][2]int{{0, 15}}},
		strings.Repeat("-", 30) + "A b":                     {runs: [][2]int{{0, 31}}},
		"short/ones and camelCase":                          {},
		"xx Ym9iQGV4YW1wbGU= aaaaaaaaaaaa":                  {numbers: []int{5, 10, 13}, runs: [][2]int{{3, 18}}},
	} {
		require.Equal(t, want, read(text, 0), "%q", text)
	}
	require.Equal(t, survey{}, read("1@ rest", 2))
}

// FuzzSurvey compares the survey with one that looks at one byte at a time.
func FuzzSurvey(f *testing.F) {
	f.Add("mail bob@example.com or 4111 1111 in a/long/path/X or camelCaseWords%20", 3)
	f.Fuzz(func(t *testing.T, text string, from int) {
		from = min(max(from, 0), len(text))
		var want survey
		for i := from; i < len(text); i++ {
			c := text[i]
			want.at = want.at || c == '@'
			if digit(c) && (i == from || !digit(text[i-1])) {
				want.numbers = append(want.numbers, i)
			}
			want.disguised = want.disguised || c >= utf8.RuneSelf || strings.IndexByte(`%&\`, c) >= 0
		}
		for i := from; i < len(text); i++ {
			begin, odd := i, false
			for ; i < len(text) && inRun(text[i]); i++ {
				odd = odd || text[i] != '-' && (text[i] < 'a' || text[i] > 'z')
			}
			if odd && i-begin >= minRun {
				want.runs = append(want.runs, [2]int{begin, i})
			}
		}
		require.Equal(t, want, read(text, from))
	})
}
