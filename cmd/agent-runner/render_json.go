package main

import (
	"io"

	"github.com/agent-runner/agent-runner/abi"
)

// A renderer shows a run's events as they come.
type renderer interface {
	event(e abi.Event) error
}

// A jsonRenderer prints one event a line, for programs.
type jsonRenderer struct{ out io.Writer }

func (r *jsonRenderer) event(e abi.Event) error {
	b, err := abi.Marshal(e)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(b, '\n'))
	return err
}
