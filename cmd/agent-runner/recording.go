package main

import (
	"context"
	_ "embed"
	"errors"
	"os"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
)

// demoCassette is a recorded conversation for users without a model. It answers
// demoPrompt.
//
//go:embed demo.cassette
var demoCassette []byte

const demoPrompt = "What is 17% of 2,340?"

// builtinRecording names the built-in recording.
const builtinRecording = "builtin:"

// recording loads a recording from a file, or the built-in one.
func recording(name string) (*cassette.Cassette, error) {
	if name == builtinRecording {
		return cassette.Parse("the built-in recording", demoCassette)
	}
	tape, err := cassette.Load(name)
	if file := (*os.PathError)(nil); errors.As(err, &file) {
		return nil, usagef("%s: %w; want a recording made with: agent-runner run --record FILE", name, file.Err)
	}
	return tape, err
}

// demo is the name of the built-in recording in flags.
const demo = "demo"

// recordedModel returns a server's model that answers from a recording, or nil if replay
// is "".
func recordedModel(replay string) (model.Model, error) {
	switch replay {
	case "":
		return nil, nil
	case demo:
		replay = builtinRecording
	}
	tape, err := recording(replay)
	if err != nil {
		return nil, err
	}
	return anywhere{tape}, nil
}

// anywhere answers each request with the recorded answer to an equal request, at any
// position of the recording, so that runs can be concurrent and repeated.
type anywhere struct{ tape *cassette.Cassette }

// Generate implements [model.Model].
func (a anywhere) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	return a.tape.Resume().Generate(ctx, req, sink)
}
