package cassette_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// This example records a conversation once, usually with a real model, and replays it, usually in
// tests.
func Example() {
	dir, err := os.MkdirTemp("", "cassette")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hello.json")
	request := &model.Request{Messages: []abi.Message{abi.User("Hi")}}

	recorder, err := cassette.NewRecorder(path, scripted.New(scripted.Text("Hello!")))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := recorder.Generate(context.Background(), request, nil); err != nil {
		log.Fatal(err)
	}

	recorded, err := cassette.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	replay := recorded.Replay()
	res, err := replay.Generate(context.Background(), request, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Message.Content, replay.Left())
	// Output: Hello! 0
}
