package main

import (
	"slices"
	"testing"

	"github.com/agent-runner/agent-runner/host"
)

// TestEachIsMissed checks that a peer's result is the expected one with all five middlewares, and
// that the comparison fails if any of them is missing.
func TestEachIsMissed(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	for i := range len(entries) + 1 {
		name, reader, list := "none", newCountReader(), functions()
		if i < len(entries) {
			name = list[i].Name
			list = slices.Delete(list, i, i+1)
		}
		t.Run("without "+name, func(t *testing.T) {
			p, err := ourLoop(t.Context(), name, h, append(list, reader.middleware()), history(10), reader.counts)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			if err := p.checked(t.Context()); (err == nil) != (i == len(entries)) {
				t.Fatalf("without %s the run came to: %v", name, err)
			}
		})
	}
}
