//go:build !wasip1

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/corpus"

	"github.com/agent-runner/agent-runner/abi"
)

// The corpus is generated from a seed: runs that loop, and similar runs that make progress. The
// module's thresholds were not tuned on the corpus.

// A kind generates the steps of one category of runs.
type kind struct {
	name  string
	loops bool
	make  func(*rand.Rand) [][]abi.Message
}

var (
	tools = []string{"search", "read_file", "list", "fetch", "query"}
	words = []string{"orders", "march", "invoice", "berlin", "teapot", "levels", "draft", "notes", "mill", "train"}
)

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

// other returns a step that makes progress: its arguments include a unique number.
func other(random *rand.Rand, n int) []abi.Message {
	return step(
		"Let me look.",
		fmt.Sprintf(`%s {"q":"%s %d"}=%s, and %d more`, pick(random, tools), pick(random, words), n, pick(random, words), n),
	)
}

// among inserts up to two steps that make progress before each given step.
func among(random *rand.Rand, steps [][]abi.Message) [][]abi.Message {
	var out [][]abi.Message
	for i, s := range steps {
		for n := range random.IntN(3) {
			out = append(out, other(random, 10*i+n))
		}
		out = append(out, s)
	}
	return out
}

// times makes a random number of calls in the range [from, to] to a function, and concatenates the
// results.
func times(random *rand.Rand, from, to int, each func(i int) [][]abi.Message) [][]abi.Message {
	var out [][]abi.Message
	for i := range from + random.IntN(to-from+1) {
		out = append(out, each(i)...)
	}
	return out
}

// one returns a single step as a list.
func one(text string, calls ...string) [][]abi.Message {
	return [][]abi.Message{step(text, calls...)}
}

var kinds = []kind{
	{"the same call", true, func(random *rand.Rand) [][]abi.Message {
		call := fmt.Sprintf(`%s {"q":%q}=nothing found`, pick(random, tools), pick(random, words))
		return times(random, 3, 6, func(int) [][]abi.Message { return one("", call) })
	}},
	{"the same call, between others", true, func(random *rand.Rand) [][]abi.Message {
		call := fmt.Sprintf(`%s {"q":%q}=nothing found`, pick(random, tools), pick(random, words))
		return among(random, times(random, 3, 6, func(int) [][]abi.Message { return one("", call) }))
	}},
	{"written otherwise", true, func(random *rand.Rand) [][]abi.Message {
		w := pick(random, words)
		forms := []string{`{"q":%q,"n":5}`, `{"n":5,"q":%q}`, `{ "q": %q, "n": 5 }`}
		return times(random, 3, 6, func(i int) [][]abi.Message {
			return one("", "search "+fmt.Sprintf(forms[i%len(forms)], w)+"=nothing found")
		})
	}},
	{"two or three calls in rotation", true, func(random *rand.Rand) [][]abi.Message {
		n := 2 + random.IntN(2)
		return times(random, 3*n, 5*n, func(i int) [][]abi.Message {
			return one("", fmt.Sprintf(`%s {"q":"x"}=unchanged`, tools[i%n]))
		})
	}},
	{"the same text", true, func(random *rand.Rand) [][]abi.Message {
		w := pick(random, words)
		return times(random, 3, 5, func(i int) [][]abi.Message {
			return one([]string{"I am looking into the " + w + ".", "I am looking into the  " + w + "."}[i%2])
		})
	}},
	{"the same mistake in JSON", true, func(random *rand.Rand) [][]abi.Message {
		call := "write {\"q\":" + pick(random, words) + "=the arguments are no JSON"
		return among(random, times(random, 3, 5, func(int) [][]abi.Message { return one("", call) }))
	}},
	{"arguments that change a little", true, func(random *rand.Rand) [][]abi.Message {
		w := pick(random, words)
		return times(random, 4, 8, func(i int) [][]abi.Message {
			return one("", fmt.Sprintf(`search {"q":%q,"try":%d}=nothing found`, w, i))
		})
	}},
	{"results with a time of day", true, func(random *rand.Rand) [][]abi.Message {
		w := pick(random, words)
		return times(random, 4, 8, func(i int) [][]abi.Message {
			return one("", fmt.Sprintf(`search {"q":%q}=10:%02d nothing found`, w, i))
		})
	}},
	{"the same in other words", true, func(random *rand.Rand) [][]abi.Message {
		said := []string{
			"I will try again.",
			"Let me try that once more.",
			"Trying again now.",
			"Once more, then.",
			"I try it again.",
		}
		return times(random, 4, 5, func(i int) [][]abi.Message { return one(said[i%len(said)]) })
	}},

	{"many different calls", false, func(random *rand.Rand) [][]abi.Message {
		return times(random, 8, 16, func(i int) [][]abi.Message { return [][]abi.Message{other(random, i)} })
	}},
	{"pages of one list", false, func(random *rand.Rand) [][]abi.Message {
		return times(
			random,
			4,
			10,
			func(i int) [][]abi.Message { return one("Next page.", fmt.Sprintf(`list {"page":%d}=ten more`, i)) },
		)
	}},
	{"tests that fail otherwise each time", false, func(random *rand.Rand) [][]abi.Message {
		return times(random, 3, 6, func(i int) [][]abi.Message {
			return append(
				one("", fmt.Sprintf(`write {"v":%d}=written`, i)),
				step("", fmt.Sprintf("test {}=%d failed: %s", 9-i, pick(random, words))),
			)
		})
	}},
	{"a job that gets on", false, func(random *rand.Rand) [][]abi.Message {
		return times(random, 3, 8, func(i int) [][]abi.Message { return one("", fmt.Sprintf("status {}=%d %%", 10*i)) })
	}},
	{"read once more, later", false, func(random *rand.Rand) [][]abi.Message {
		call := fmt.Sprintf(`read_file {"path":%q}=text`, pick(random, words))
		return among(random, [][]abi.Message{step("", call), other(random, 1), step("", call)})
	}},
	{"tests that fail alike after each change", false, func(random *rand.Rand) [][]abi.Message {
		return times(random, 2, 4, func(i int) [][]abi.Message {
			return append(one("", fmt.Sprintf(`write {"v":%d}=written`, i)), step("", "test {}=1 failed"))
		})
	}},
	{"a job that takes its time", false, func(random *rand.Rand) [][]abi.Message {
		return append(
			times(random, 1, 4, func(int) [][]abi.Message { return one("", "status {}=pending") }),
			step("", "status {}=done"),
		)
	}},
}

const perKind = 100

// noticed reports whether the module reacts during a run.
func noticed(t *testing.T, run [][]abi.Message) bool {
	all := steps(run...)
	n := 1 // the user's message
	for _, s := range run {
		n += len(s)
		if look(t, nil, all[:n:n]) != "" {
			return true
		}
	}
	return false
}

// TestCorpus measures detection, and checks the figures in the README.
func TestCorpus(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1987, 8))
	var table strings.Builder
	table.WriteString("\n| runs | | made | noticed |\n|---|---|---:|---:|\n")
	var right, wrong, loops int
	for _, k := range kinds {
		n := 0
		for range perKind {
			if noticed(t, k.make(random)) {
				n++
			}
		}
		what := "gets on"
		if k.loops {
			what = "loops"
			right, loops = right+n, loops+perKind
		} else {
			wrong += n
		}
		fmt.Fprintf(&table, "| %s | %s | %d | %d |\n", k.name, what, perKind, n)
	}
	precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(loops)
	fmt.Fprintf(&table, "\nPrecision %.3f, recall %.3f.\n\n", precision, recall)
	t.Log(table.String())
	require.Greater(t, precision, 0.8)
	require.Greater(t, recall, 0.6)
	corpus.Measured(t, table.String())
}
