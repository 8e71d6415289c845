package composition

import (
	"flag"
	"testing"

	"github.com/agent-runner/agent-runner/internal/longtest"
)

var (
	compositions = flag.Int("compositions", 300, "how many compositions TestCompositions plays")
	seed         = flag.Uint64("seed", 1, "the seed of the first")
)

// maxShrunk is the maximum number of failures that are shrunk. Further failures often have the same
// cause.
const maxShrunk = 5

func TestCompositions(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for _, check := range append(Checks(), modules(t).Check()) {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for i := 0; i < *compositions; i += check.Each {
				seed := *seed + uint64(i)
				c := Generate(seed)
				wrong := check.Run(t.Context(), c)
				if wrong == "" {
					continue
				}
				if failed++; failed > maxShrunk {
					t.Fatalf("more than %d seeds fail", maxShrunk)
				}
				c = Shrink(c, func(c *Composition) bool {
					now := check.Run(t.Context(), c)
					if now != "" {
						wrong = now
					}
					return now != ""
				})
				t.Errorf("seed %d, which this is the smallest of that fails:\n%s\n%s", seed, c, wrong)
			}
		})
	}
}
