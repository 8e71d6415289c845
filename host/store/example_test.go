package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/store"
)

// This example journals a run in a store. Agent.Continue can resume such a run in another
// process.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	a, err := h.NewAgent(ctx, &host.AgentOptions{
		Model:   scripted.New(scripted.Text("Hello!")),
		Journal: &host.JournalOptions{Journal: s},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	for _, err := range a.Run(ctx, host.Input{RunID: "run-1", Messages: []abi.Message{abi.User("Hi!")}}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	info, err := s.Run(ctx, "run-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Status, info.FinishReason)
	// Output: finished stop
}
