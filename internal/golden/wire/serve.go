package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Host runs agents with middlewares. The conformance kit compares its reports with the cases.
type Host interface {
	// Hello returns the host's name and its capabilities, which tck/README.md lists.
	Hello(ctx context.Context) (*Hello, error)
	// Run runs one case and reports all observations, or the reason why the host does not support
	// the case. An error fails the case. ctx is canceled when the case's time limit is over.
	Run(ctx context.Context, r *Request) (*Outcome, error)
}

// Serve runs a host's side of the protocol. It reads requests from in, runs them with h, and writes
// the answers to out. It returns nil at the end of in, and the error of ctx if ctx is done after a
// request. If h.Run fails, Serve writes a line of type "failed" and continues. It returns an error
// if h.Hello fails, if the kit has another protocol version, or if a line cannot be read, decoded
// or written.
func Serve(ctx context.Context, h Host, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxRequest)
	w := bufio.NewWriter(out)
	for first := true; lines.Scan() && ctx.Err() == nil; first = false {
		var err error
		if first {
			err = serveHello(ctx, h, lines.Bytes(), w)
		} else {
			err = serveCase(ctx, h, lines.Bytes(), w)
		}
		if err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), ctx.Err())
}

// MaxRequest is the maximum size of a request in bytes.
const MaxRequest = 16 << 20

func serveHello(ctx context.Context, h Host, line []byte, w io.Writer) error {
	var asked Hello
	if _, err := abijson.Decode(line, &asked); err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	if asked.Protocol != Protocol {
		return fmt.Errorf("the kit speaks version %d of the protocol, this host version %d", asked.Protocol, Protocol)
	}
	hello, err := h.Hello(ctx)
	if err != nil {
		return err
	}
	return Write(w, hello)
}

func serveCase(ctx context.Context, h Host, line []byte, w io.Writer) error {
	var r Request
	unknown, err := abijson.Decode(line, &r)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	last := Line{Type: TypeFailed, ID: r.ID}
	if len(unknown) > 0 {
		last.Reason = fmt.Sprintf("unknown key %q", unknown[0])
		return Write(w, last)
	}
	o, err := h.Run(ctx, &r)
	switch {
	case err != nil:
		last.Reason = err.Error()
	case o.Skipped != "":
		last.Type, last.Reason = TypeSkipped, o.Skipped
	default:
		last.Type, last.State, last.Refused = TypeResult, o.State, o.Refused
		if err := writeOutcome(w, r.ID, o); err != nil {
			return err
		}
	}
	return Write(w, last)
}

// writeOutcome writes the lines of an outcome that precede its last line.
func writeOutcome(w io.Writer, id string, o *Outcome) error {
	for i := range o.Events {
		if err := Write(w, Line{Type: TypeEvent, ID: id, Event: &o.Events[i]}); err != nil {
			return err
		}
	}
	for i := range o.ModelCalls {
		if err := Write(w, Line{Type: TypeModelCall, ID: id, ModelCall: &o.ModelCalls[i]}); err != nil {
			return err
		}
	}
	for i := range o.ToolCalls {
		if err := Write(w, Line{Type: TypeToolCall, ID: id, ToolCall: &o.ToolCalls[i]}); err != nil {
			return err
		}
	}
	for _, e := range o.Client {
		if err := Write(w, Line{Type: TypeClient, ID: id, Client: e}); err != nil {
			return err
		}
	}
	return nil
}

// Write writes v as one line of JSON.
func Write(w io.Writer, v any) error {
	b, err := abijson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// The values of [Line].Type.
const (
	TypeEvent     = "event"
	TypeModelCall = "model_call"
	TypeToolCall  = "tool_call"
	TypeClient    = "client"
	TypeResult    = "result"
	TypeSkipped   = "skipped"
	TypeFailed    = "failed"
)

// LineTypes lists all values of [Line].Type.
var LineTypes = []string{TypeEvent, TypeModelCall, TypeToolCall, TypeClient, TypeResult, TypeSkipped, TypeFailed}
