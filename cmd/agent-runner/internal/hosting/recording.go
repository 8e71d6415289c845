package hosting

import (
	"context"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"

	_ "embed"
	"errors"
	"os"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
)

// DemoCassette is a recorded conversation for users without a model. It answers
// DemoPrompt.
//
//go:embed demo.cassette
var DemoCassette []byte

// DemoPrompt is the prompt that DemoCassette answers.
const DemoPrompt = "What is 17% of 2,340?"

// BuiltinRecording is the name of the built-in recording for [Recording].
const BuiltinRecording = "builtin:"

// Recording loads the recording in the file of this name, or the built-in one for
// BuiltinRecording.
func Recording(name string) (*cassette.Cassette, error) {
	if name == BuiltinRecording {
		return cassette.Parse("the built-in recording", DemoCassette)
	}
	tape, err := cassette.Load(name)
	if file := (*os.PathError)(nil); errors.As(err, &file) {
		return nil, cli.Usagef("%s: %w; want a recording made with: agent-runner run --record FILE", name, file.Err)
	}
	return tape, err
}

// Demo is the name of the built-in recording in flags.
const Demo = "demo"

// RecordedModel returns a server's model that answers from a recording, or nil if replay
// is "".
func RecordedModel(replay string) (model.Model, error) {
	switch replay {
	case "":
		return nil, nil
	case Demo:
		replay = BuiltinRecording
	}
	tape, err := Recording(replay)
	if err != nil {
		return nil, err
	}
	return anywhere{tape}, nil
}

// anywhere is a model that answers each request with the recorded answer to an equal request, at
// any position of the recording, so that runs can be concurrent and repeated.
type anywhere struct{ tape *cassette.Cassette }

// Generate implements [model.Model].
func (a anywhere) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	return a.tape.Resume().Generate(ctx, req, sink)
}
