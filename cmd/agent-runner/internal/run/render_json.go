package run

import (
	"io"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A renderer shows the events of a run as they arrive.
type renderer interface {
	event(e abi.Event) error
}

// A jsonRenderer prints events as JSON, one per line.
type jsonRenderer struct{ out io.Writer }

func (r *jsonRenderer) event(e abi.Event) error {
	b, err := abijson.Marshal(e)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(b, '\n'))
	return err
}
