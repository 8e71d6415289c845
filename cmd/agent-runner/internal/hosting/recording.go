package hosting

import (
	"context"
	"errors"
	"os"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
)

// Recording loads the recording in the file of this name.
func Recording(name string) (*cassette.Cassette, error) {
	tape, err := cassette.Load(name)
	if file := (*os.PathError)(nil); errors.As(err, &file) {
		return nil, cli.Usagef("%s: %w; want a recording made with: agent-runner run --record FILE", name, file.Err)
	}
	return tape, err
}

// RecordedModel returns a server's model that answers from a recording.
func RecordedModel(replay string) (model.Model, error) {
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
