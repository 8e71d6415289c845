package run

import (
	"cmp"
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// anyModel is the model name used if the user names an endpoint but no model. Endpoints
// with a single model accept any name.
const anyModel = "default"

// A source provides the model's answers: a recording or the model of the agent file.
type source struct {
	model  model.Model // nil for the model of the agent file
	note   string      // shown to the user
	wrap   func(model.Model) (model.Model, error)
	replay *rewinder
}

// rewind restarts the recording for another run.
func (s *source) rewind() {
	if s.replay != nil {
		s.replay.rewind()
	}
}

// left returns the number of recorded answers that the last run did not use, or 0 without a
// recording.
func (s *source) left() int {
	if s.replay == nil {
		return 0
	}
	return s.replay.current().Left()
}

// source selects the source of answers from the flags and the agent file. If f names no model,
// source sets the name: to "recording" for a recording, to anyModel for an endpoint, and else to
// that of the offline model.
func (c *runCommand) source(f *agentfile.File) (*source, error) {
	s := &source{}
	_, baseURL := f.Model.Provider.Env()
	endpoint := string(f.Model.BaseURL) + c.env.Getenv(baseURL)
	switch {
	case c.replay != "":
		tape, err := hosting.Recording(c.replay)
		if err != nil {
			return nil, err
		}
		s.play(tape)
		if c.resume != "" {
			s.replay.begin = tape.Resume
		}
	case f.Model.Name == "" && endpoint != "":
		f.Model.Name = anyModel
		s.note = "no model named: using the endpoint's model " + anyModel + "; name one with --model"
	case f.Model.Name == "":
		f.Model.Name = agentfile.Echo
		s.note = "no model named: using the offline model echo, which calls the tools that a prompt names" +
			" and repeats other prompts; name another with --model"
	}
	if c.record != "" {
		s.wrap = func(m model.Model) (model.Model, error) { return cassette.NewRecorder(c.record, m) }
	}
	f.Model.Name = cmp.Or(f.Model.Name, "recording")
	return s, nil
}

// play makes the recording the source of answers.
func (s *source) play(tape *cassette.Cassette) {
	s.replay = &rewinder{begin: tape.Replay, replay: tape.Replay()}
	s.model = s.replay
}

// storedSource returns the source of answers for a resumed run. replay names the run's recording,
// or is "" if the model of the agent file answers.
func storedSource(replay string) (*source, error) {
	s := &source{}
	if replay == "" {
		return s, nil
	}
	tape, err := hosting.Recording(replay)
	if err != nil {
		return nil, err
	}
	s.replay = &rewinder{begin: tape.Resume, replay: tape.Resume()}
	s.model = s.replay
	return s, nil
}

// A rewinder is a model that replays a recording. rewind starts another replay, which begin returns.
type rewinder struct {
	begin func() *cassette.Replay

	mu     sync.Mutex
	replay *cassette.Replay
}

func (r *rewinder) rewind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replay = r.begin()
}

func (r *rewinder) current() *cassette.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replay
}

// Generate implements [model.Model].
func (r *rewinder) Generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
) (*abi.Response, error) {
	return r.current().Generate(ctx, req, sink)
}
