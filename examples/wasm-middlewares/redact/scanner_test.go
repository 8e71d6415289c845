package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func scannerOf(t testing.TB, change func(r *redact)) *scanner {
	t.Helper()
	r := newRedact()
	if change != nil {
		change(r)
	}
	s, err := newScanner(r)
	require.NoError(t, err)
	return &s
}

func TestHides(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, func(r *redact) {
		r.Patterns = []*pattern{{Name: "ticket", Pattern: `\bT-[0-9]+\b`}}
	})
	short := strings.NewReplacer(
		"[REDACTED_EMAIL]",
		"<E>",
		"[REDACTED_CREDIT_CARD]",
		"<C>",
		"[REDACTED_IP]",
		"<I>",
		"[REDACTED_IBAN]",
		"<B>",
		"[REDACTED_TICKET]",
		"<T>",
	)
	long := strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"": "", "nothing here": "nothing here",

		"write to bob@example.com.":                       "write to <E>.",
		"<Bob.Smith+tag@mail.example.co.uk>":              "<<E>>",
		"jürgen@müller.de, a_b%c@x.io":                    "<E>, <E>",
		"请联系bob@example.com谢谢":                            "请联系<E>谢谢",
		"bob@localhost, @home, me@, a@b.c":                "bob@localhost, @home, me@, a@b.c",
		"bob@x.com-":                                      "<E>-",
		"a@b.co@c.de":                                     "<E>@c.de",
		"bob@x.com,amy@y.org;c@z.net":                     "<E>,<E>;<E>",
		"https://bob:pw@example.com/x":                    "https://bob:<E>/x",
		long + "b@x.com":                                  "a<E>",
		"x@" + strings.Repeat("b", 64) + ".com":           "x@" + strings.Repeat("b", 64) + ".com",
		"x@a." + strings.Repeat("b", 64) + ".com":         "x@a." + strings.Repeat("b", 64) + ".com",
		"x@example.com." + strings.Repeat("b.", 200):      "<E>." + strings.Repeat("b.", 200),
		"card 4111 1111 1111 1111, exp 12/27":             "card <C>, exp 12/27",
		"4111-1111-1111-1111 and 4111111111111111":        "<C> and <C>",
		"4111 1111 1111 1111 12/27":                       "<C> 12/27",
		"4111 1111 1111 1111 123":                         "<C> 123",
		"3782 822463 10005, 30569309025904":               "<C>, <C>",
		"4111 1111 1111 1112":                             "4111 1111 1111 1112",
		"1111 4111 1111 1111 1111":                        "1111 <C>",
		"41111111111111111111":                            "41111111111111111111",
		"x4111111111111111 4111111111111111x":             "x4111111111111111 4111111111111111x",
		"0.4111111111111111":                              "0.4111111111111111",
		"10 20 30 40 50 60 70 80 90 11 21 31":             "10 20 30 40 50 60 70 80 90 11 21 31",
		"4111  1111 1111 1111":                            "4111  1111 1111 1111",
		"9111 1111 1111 1111":                             "9111 1111 1111 1111",
		"ip:10.0.0.1:8080, 192.168.001.001.":              "ip:<I>:8080, <I>.",
		"1.2.3.4.5 v1.2.3.4 256.1.1.1 1.2.3":              "1.2.3.4.5 v1.2.3.4 256.1.1.1 1.2.3",
		"255.255.255.255..5":                              "255.255.255.255..5",
		"[2001:db8::8a2e:370:7334]:443":                   "[<I>]:443",
		"ip:fe80::1, ::1, ::ffff:10.0.0.1; 1:2:3:4:5":     "ip:<I>, <I>, <I>; 1:2:3:4:5",
		"12:30:45 00:1a:2b:3c:4d:5e std::cafe1 a::b":      "12:30:45 00:1a:2b:3c:4d:5e std::cafe1 a::b",
		"DE89 3704 0044 0532 0130 00 bitte":               "<B> bitte",
		"de89370400440532013000, GB82WEST12345698765432.": "<B>, <B>.",
		"DE89370400440532013001":                          "DE89370400440532013001",
		"DE8937040044053201300 0":                         "DE8937040044053201300 0",
		"XX89370400440532013000":                          "XX89370400440532013000",
		"NO93 8601 1117 947":                              "<B>",
		"xDE89370400440532013000":                         "xDE89370400440532013000",
		"MT84MALT011000012345MTLCAST001S":                 "<B>",

		"see T-123, not XT-1 or T-1x": "see <T>, not XT-1 or T-1x",
		"T-1@x.com":                   "<E>",
	} {
		found := finds{}
		require.Equal(t, want, short.Replace(s.all(text, found)), "%q", text)
		for _, size := range []int{1, 2, 3, 7} {
			require.Equal(t, want, short.Replace(streamed(s, text, size)), "%q in pieces of %d", text, size)
		}
	}
}

// streamed returns the output for text that arrives in pieces of size characters.
func streamed(s *scanner, text string, size int) string {
	var out strings.Builder
	tail := &tail{}
	for runes := []rune(text); len(runes) > 0; runes = runes[min(size, len(runes)):] {
		out.WriteString(s.next(tail, string(runes[:min(size, len(runes))]), false, finds{}))
	}
	out.WriteString(s.next(tail, "", true, finds{}))
	return out.String()
}

// FuzzPieces checks that the output is the same however text is split into pieces, that the output
// so far is always a prefix of it, and that at most maxTail bytes are held back.
func FuzzPieces(f *testing.F) {
	f.Add("mail bob@example.com or 4111 1111 1111 1111 12", uint64(1))
	f.Add("10.0.0.1.5 fe80::1: DE89 3704 0044 0532 0130 00 k1=abcdef; ends with end", uint64(2))
	f.Add("aabab@b.co@c.de1.2.3.4@4111111111111111", uint64(3))
	f.Add(`bob%40example.com bob\\u0040example.com &#52;&#x31;11 1111 1111 1111 %C3%A9`, uint64(4))
	f.Add(
		"ｂｏｂ＠ｅｘａｍｐｌｅ.com b\u200bo\u200bb@ex\u00adample.com key=Ym9iQGV4YW1wbGUuY29t= 626f62406578616d706c652e636f6d",
		uint64(5),
	)
	s := scannerOf(f, func(r *redact) {
		r.Patterns = []*pattern{
			{
				Name:    "key",
				Pattern: `\bk[0-9]=[a-z]{1,20}\b`,
			}, {Name: "last", Pattern: `\bend$`}, {Name: "first", Pattern: `(?m)^(first|a|ab)\B`},
			{Name: "either", Pattern: `foo|foob?ar|(x|y)+?z`}, {Name: "loop", Pattern: `q(\b|w){1,3}r`},
		}
	})
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		text = strings.ToValidUTF8(text, "?")
		if len(text) > maxTail {
			text = strings.ToValidUTF8(text[:maxTail], "?")
		}
		want := s.all(text, finds{})
		random := rand.New(rand.NewPCG(seed, 0))
		pieces := pieces(text, random)
		var out strings.Builder
		tail := &tail{}
		for _, piece := range pieces {
			out.WriteString(s.next(tail, piece, false, finds{}))
			require.True(t, strings.HasPrefix(want, out.String()), "%q: %q was shown, of %q", pieces, out.String(), want)
			require.LessOrEqual(t, len(tail.Text), maxTail)
		}
		out.WriteString(s.next(tail, "", true, finds{}))
		require.Equal(t, want, out.String(), "%q", pieces)
	})
}

// pieces splits text into pieces of one to nine characters.
func pieces(text string, random *rand.Rand) []string {
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(1+random.IntN(9), len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// TestPiecesOfMadeUpTexts checks that the output is the same however text is split, for random
// text that consists of fragments of the data that the detectors find.
func TestPiecesOfMadeUpTexts(t *testing.T) {
	t.Parallel()
	words := []string{
		"bob",
		"@",
		".",
		"example",
		".com",
		" ",
		"-",
		"4111",
		" 1111",
		"1111",
		"411111111111",
		"12",
		"10.0.0.1",
		":",
		"::",
		"fe80",
		"1",
		"DE89",
		" 3704",
		"3704",
		" 0044",
		" 0532",
		" 0130",
		" 00",
		"x",
		"é",
		"k1=ab",
		"_",
		"end",
		"\n",
		"first",
		"谢",
		"GB82WEST12345698765432",
		"255.",
		"ffff:",
		"%40",
		"%4",
		"\\",
		"u0040",
		"\\u0034",
		"&#64;",
		"&commat;",
		"&",
		"#",
		"\u200b",
		"ｂ",
		"＠",
		"４１１１",
		"Ym9iQGV4YW1wbGUuY29t",
		"=",
		"%C3%A9",
		"\u0301",
	}
	s := scannerOf(t, func(r *redact) {
		r.Patterns = []*pattern{{Name: "key", Pattern: `\bk[0-9]=[a-z]+\b`}, {Name: "last", Pattern: `\bend$`}}
	})
	random := rand.New(rand.NewPCG(7, 7))
	hidden := 0
	for range 4000 {
		var b strings.Builder
		for range 1 + random.IntN(14) {
			b.WriteString(words[random.IntN(len(words))])
		}
		text := b.String()
		want := s.all(text, finds{})
		if want != text {
			hidden++
		}
		var out strings.Builder
		tail := &tail{}
		cut := pieces(text, random)
		for _, piece := range cut {
			out.WriteString(s.next(tail, piece, false, finds{}))
		}
		out.WriteString(s.next(tail, "", true, finds{}))
		require.Equal(t, want, out.String(), "%q", cut)
	}
	require.Greater(t, hidden, 500)
}

// TestHoldsBackNoMoreThanItMust checks that only text that may still become a match is held back.
func TestHoldsBackNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, func(r *redact) { r.Patterns = []*pattern{{Name: "key", Pattern: `\bkey-[a-z]{4}\b`}} })
	for text, held := range map[string]string{
		"hello ":             "",
		"hello wor":          "wor",
		"see bob@ex":         "bob@ex",
		"see bob@ex.com,":    "",
		"pay 4111 1111 ":     "4111 1111 ",
		"12 4111":            "4111",
		"10.0.0.":            "10.0.0.",
		"DE89 3704 ":         "DE89 3704 ",
		"at the ":            "",
		"a key-abcd":         "key-abcd",
		"a key-abcde ":       "",
		"über":               "über",
		"(key-ab) and key-)": "",
	} {
		tail := &tail{}
		shown := s.next(tail, text, false, finds{})
		require.Equal(t, held, tail.Text, "%q", text)
		require.Contains(t, []string{text, "see [REDACTED_EMAIL],"}, shown+tail.Text)
	}
}

// TestEndlessMatches checks that at most maxTail bytes are held back for a pattern without an end,
// and that a longer match is not shown either.
func TestEndlessMatches(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, func(r *redact) {
		r.Detect = nil
		r.Patterns = []*pattern{{Name: "x", Pattern: `x+`}, {Name: "late", Pattern: `a[^b]*b`}}
	})
	tail := &tail{}
	var out strings.Builder
	for range 2000 {
		out.WriteString(s.next(tail, "xxxxx", false, finds{}))
		require.LessOrEqual(t, len(tail.Text), maxTail)
	}
	out.WriteString(s.next(tail, "", true, finds{}))
	require.NotContains(t, out.String(), "x")

	tail.Text, tail.Before = "", ""
	for range 2000 {
		s.next(tail, "aäc", false, finds{})
		require.LessOrEqual(t, len(tail.Text), maxTail)
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	text := "bob@example.com 4111 1111 1111 1111 DE89370400440532013000 10.0.0.1"
	s := scannerOf(t, func(r *redact) { r.Strategy = strategyMask })
	require.Equal(t, "***@*******.*** **** **** **** 1111 ******************3000 **.*.*.*", s.all(text, finds{}))

	s = scannerOf(t, func(r *redact) { r.Strategy = strategyHash; r.Strategies = map[string]string{"ip": strategyRedact} })
	hidden := s.all(text, finds{})
	require.Regexp(
		t,
		`^\[EMAIL_[0-9a-f]{12}\] \[CREDIT_CARD_[0-9a-f]{12}\] \[IBAN_[0-9a-f]{12}\] \[REDACTED_IP\]$`,
		hidden,
	)
	require.Equal(
		t,
		hidden,
		s.all("BOB@example.com 4111-1111-1111-1111 de89 3704 0044 0532 0130 00 10.0.0.1", finds{}),
		"the same value has the same hash",
	)
	salted := scannerOf(t, func(r *redact) { r.Strategy = strategyHash; r.Salt = "s" })
	require.NotContains(t, salted.all(text, finds{}), hidden[:20])
}

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, nil)
	text := `{"n": 4111111111111111, "s": "a \"4111111111111111\" \\", "l":[4111111111111111]}`
	want := `{"n": "[REDACTED_CREDIT_CARD]", "s": "a \"[REDACTED_CREDIT_CARD]\" \\", "l":["[REDACTED_CREDIT_CARD]"]}`
	require.Equal(t, want, s.json(text, finds{}))
	tail := &tail{JSON: true}
	var out strings.Builder
	for i := range len(text) {
		out.WriteString(s.next(tail, text[i:i+1], false, finds{}))
	}
	out.WriteString(s.next(tail, "", true, finds{}))
	require.Equal(t, want, out.String())
}

// BenchmarkScan measures the throughput for 1 MiB of several kinds of text.
func BenchmarkScan(b *testing.B) {
	s := scannerOf(b, nil)
	for name, unit := range map[string]string{
		"prose":   "The quick brown fox jumps over the lazy dog, 42 times. ",
		"digits":  "411111111111",
		"at":      "@",
		"emails":  "bob@example.com ",
		"numbers": "1234 5678 ",
		"dots":    "1.2.",
	} {
		text := strings.Repeat(unit, (1<<20)/len(unit))
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.all(text, finds{})
			}
		})
	}
}
