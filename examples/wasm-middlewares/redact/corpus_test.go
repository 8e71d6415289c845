//go:build !wasip1

package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/corpus"
)

// The corpus is generated from a seed: sentences with personal data as people and programs write it,
// plain and disguised, and sentences with similar numbers and words. The detectors were not tuned on
// the corpus.

var people = []string{"anna", "b.chen", "j_ortiz", "Maria.Rossi", "o+lists", "k-2024", "zoë", "support"}

var hosts = []string{
	"example.com",
	"mail.example.org",
	"corp.example.co.uk",
	"firma-nord.example.de",
	"x1.io",
	"bücher.example",
}

// made generates random data of each kind.
var made = map[string]func(*rand.Rand) string{
	"email": func(random *rand.Rand) string {
		return people[random.IntN(len(people))] + "@" + hosts[random.IntN(len(hosts))]
	},
	"credit_card": func(random *rand.Rand) string {
		digits := []string{"4", "51", "37", "6011"}[random.IntN(4)]
		for length := 15 + random.IntN(2); len(digits) < length-1; {
			digits += fmt.Sprint(random.IntN(10))
		}
		for check := range 10 {
			if luhn(digits + fmt.Sprint(check)) {
				digits += fmt.Sprint(check)
				break
			}
		}
		return grouped(digits, []string{"", " ", "-"}[random.IntN(3)])
	},
	"ip": func(random *rand.Rand) string {
		if random.IntN(3) == 0 {
			var b [16]byte
			b[0], b[1], b[2], b[3], b[15] = 0x20, 0x01, 0x0d, 0xb8, byte(1+random.IntN(255))
			return netip.AddrFrom16(b).String()
		}
		return fmt.Sprintf("%d.%d.%d.%d", 1+random.IntN(223), random.IntN(256), random.IntN(256), random.IntN(256))
	},
	"iban": func(random *rand.Rand) string {
		country := []string{"DE", "AT", "NL", "GB"}[random.IntN(4)]
		length := map[string]int{"DE": 22, "AT": 20, "NL": 18, "GB": 22}[country]
		body := map[string]string{"NL": "ABNA", "GB": "NWBK"}[country]
		for len(body) < length-4 {
			body += fmt.Sprint(random.IntN(10))
		}
		for check := 2; check < 99; check++ {
			if number := fmt.Sprintf("%s%02d%s", country, check, body); mod97([]byte(number)) {
				return grouped(number, []string{"", " "}[random.IntN(2)])
			}
		}
		return ""
	},
}

// grouped splits s into groups of four characters and joins them with a separator. The last group
// may have up to six.
func grouped(s, between string) string {
	var groups []string
	for ; len(s) > 4 && len(s) != 5 && len(s) != 6; s = s[4:] {
		groups = append(groups, s[:4])
	}
	return strings.Join(append(groups, s), between)
}

var sentences = []string{
	"Please write to %s before Friday.", "contact: %s", "{\"note\":\"%s\"}", "The customer (%s) called twice.",
	"a,b,%s,c\n", "Kunde %s, Auftrag 17", "<td>%s</td>", "%s", "请联系 %s 谢谢", "from=%s; to=all",
}

// harmless generates text that resembles personal data but is not.
var harmless = []func(*rand.Rand) string{
	func(random *rand.Rand) string { return fmt.Sprintf("%016d", random.Int64N(1e16)) }, // an order number
	func(random *rand.Rand) string {
		return fmt.Sprintf("v%d.%d.%d", random.IntN(9), random.IntN(30), random.IntN(99))
	},
	func(random *rand.Rand) string {
		return fmt.Sprintf("%02d:%02d:%02d", random.IntN(24), random.IntN(60), random.IntN(60))
	},
	func(random *rand.Rand) string {
		return fmt.Sprintf("%08x-%04x-4%03x", random.Uint32(), random.IntN(1<<16), random.IntN(1<<12))
	},
	func(random *rand.Rand) string {
		return fmt.Sprintf("+49 %d %d", 30+random.IntN(900), 100000+random.IntN(9e6))
	},
	func(random *rand.Rand) string { return fmt.Sprintf("%040x", random.Uint64()) }, // a commit
	func(random *rand.Rand) string { return "@" + people[random.IntN(len(people))] },
	func(random *rand.Rand) string {
		return "git@" + []string{"host", "server"}[random.IntN(2)] + ":team/repo"
	},
	func(random *rand.Rand) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "page %d of the manual", random.IntN(1000)))
	},
	func(random *rand.Rand) string {
		return fmt.Sprintf("%d.%02d EUR, %d%%", random.IntN(1e6), random.IntN(100), random.IntN(100))
	},
	func(random *rand.Rand) string {
		return fmt.Sprintf("2024-%02d-%02d 2024 2025 2026", 1+random.IntN(12), 1+random.IntN(28))
	},
	func(random *rand.Rand) string { return fmt.Sprintf("std::vec%d::Vec", random.IntN(9)) },
}

func every(verb string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, verb, s[i])
		}
		return b.String()
	}
}

func encode64(s string) string { return base64.StdEncoding.EncodeToString([]byte("mail " + s)) }

// masks lists ways to disguise data.
var masks = []struct {
	name string
	make func(string) string
}{
	{"as it is", func(s string) string { return s }},
	{"look-alike letters", func(s string) string {
		return strings.NewReplacer("e", "е", "o", "о", "a", "а", "c", "с", "p", "р", "B", "В").Replace(s)
	}},
	{"full width", func(s string) string {
		return strings.Map(func(c rune) rune {
			if c > ' ' && c < 0x7F {
				return c + 0xFEE0
			}
			return c
		}, s)
	}},
	{"invisible characters", func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") }},
	{"other spaces and dashes", func(s string) string { return strings.NewReplacer(" ", "\u00a0", "-", "–").Replace(s) }},
	{"percent escapes", every("%%%02x")},
	{"\\u escapes", func(s string) string {
		var b strings.Builder
		for _, c := range s {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return b.String()
	}},
	{"HTML entities", func(s string) string {
		var b strings.Builder
		for _, c := range s {
			fmt.Fprintf(&b, "&#%d;", c)
		}
		return b.String()
	}},
	{"JSON in JSON", func(s string) string {
		inner, _ := json.Marshal(map[string]any{"to": []string{s}})
		outer, _ := json.Marshal(string(inner))
		return string(outer)
	}},
	{"base64", encode64},
	{"base64 twice", func(s string) string { return encode64(encode64(s)) }},
	{"hexadecimal digits", func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"spelt out", func(s string) string {
		return strings.NewReplacer("@", " at ", ".", " dot ", "0", "zero ", "4", "four ", ":", " colon ").Replace(s)
	}},
	{"letters set apart", func(s string) string { return strings.Join(strings.Split(s, ""), " ") }},
}

const (
	perMask = 200
)

// TestCorpus measures detection, and checks the figures in the README.
func TestCorpus(t *testing.T) {
	t.Parallel()
	s := scannerOf(t, nil)
	random := rand.New(rand.NewPCG(2024, 8))
	kinds := []string{"email", "credit_card", "ip", "iban"}
	finds := func(text string) finds {
		found := finds{}
		whole := s.all(text, found)
		require.Equal(t, whole, streamed(s, text, 1+random.IntN(5)), "%q", text)
		return found
	}
	var table strings.Builder
	table.WriteString("\n| disguise | " + strings.Join(kinds, " | ") + " | of each |\n|---|---:|---:|---:|---:|---:|\n")
	hits := 0
	for _, m := range masks {
		fmt.Fprintf(&table, "| %s |", m.name)
		for _, kind := range kinds {
			n := 0
			for range perMask {
				if finds(fmt.Sprintf(sentences[random.IntN(len(sentences))], m.make(made[kind](random))))[kind] > 0 {
					n++
				}
			}
			hits += n
			fmt.Fprintf(&table, " %d |", n)
		}
		fmt.Fprintf(&table, " %d |\n", perMask)
	}
	total, wrong := len(masks)*len(kinds)*perMask, 0
	for range total {
		if len(finds(fmt.Sprintf(sentences[random.IntN(len(sentences))], harmless[random.IntN(len(harmless))](random)))) > 0 {
			wrong++
		}
	}
	precision, recall := float64(hits)/float64(hits+wrong), float64(hits)/float64(total)
	fmt.Fprintf(
		&table,
		"\nOf %d texts without such data %d were changed. Precision %.3f, recall %.3f.\n\n",
		total,
		wrong,
		precision,
		recall,
	)
	t.Log(table.String())
	require.Greater(t, precision, 0.95)
	require.Greater(t, recall, 0.7)
	corpus.Measured(t, table.String())
}
