package tck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/tck/wire"
)

// Serve is the other end of [NewProgram]: it reads requests from in, runs them with h, and writes the
// answers to out. It returns nil at the end of in, and the error of ctx if ctx is done after a request.
// It fails if h.Hello fails, if the kit speaks another version of the protocol, or if a line cannot be
// read, decoded or written. It answers an error of h.Run with a line of type "failed", and continues.
func Serve(ctx context.Context, h Host, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
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

// maxRequest is the maximum size of a request in bytes.
const maxRequest = 16 << 20

func serveHello(ctx context.Context, h Host, line []byte, w io.Writer) error {
	var asked wire.Hello
	if _, err := abijson.Decode(line, &asked); err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	if asked.Protocol != wire.Protocol {
		return fmt.Errorf("the kit speaks version %d of the protocol, this host version %d", asked.Protocol, wire.Protocol)
	}
	hello, err := h.Hello(ctx)
	if err != nil {
		return err
	}
	return writeLine(w, hello)
}

func serveCase(ctx context.Context, h Host, line []byte, w io.Writer) error {
	var r wire.Request
	unknown, err := abijson.Decode(line, &r)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	last := wire.Line{Type: typeFailed, ID: r.ID}
	if len(unknown) > 0 {
		last.Reason = fmt.Sprintf("unknown key %q", unknown[0])
		return writeLine(w, last)
	}
	o, err := h.Run(ctx, &r)
	switch {
	case err != nil:
		last.Reason = err.Error()
	case o.Skipped != "":
		last.Type, last.Reason = typeSkipped, o.Skipped
	default:
		last.Type, last.State, last.Refused = typeResult, o.State, o.Refused
		if err := writeOutcome(w, r.ID, o); err != nil {
			return err
		}
	}
	return writeLine(w, last)
}

// writeOutcome writes the lines before the result.
func writeOutcome(w io.Writer, id string, o *wire.Outcome) error {
	for i := range o.Events {
		if err := writeLine(w, wire.Line{Type: typeEvent, ID: id, Event: &o.Events[i]}); err != nil {
			return err
		}
	}
	for i := range o.ModelCalls {
		if err := writeLine(w, wire.Line{Type: typeModelCall, ID: id, ModelCall: &o.ModelCalls[i]}); err != nil {
			return err
		}
	}
	for i := range o.ToolCalls {
		if err := writeLine(w, wire.Line{Type: typeToolCall, ID: id, ToolCall: &o.ToolCalls[i]}); err != nil {
			return err
		}
	}
	for _, e := range o.Client {
		if err := writeLine(w, wire.Line{Type: typeClient, ID: id, Client: e}); err != nil {
			return err
		}
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	b, err := abijson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// The values of wire.Line.Type.
const (
	typeEvent     = "event"
	typeModelCall = "model_call"
	typeToolCall  = "tool_call"
	typeClient    = "client"
	typeResult    = "result"
	typeSkipped   = "skipped"
	typeFailed    = "failed"
)

var lineTypes = []string{typeEvent, typeModelCall, typeToolCall, typeClient, typeResult, typeSkipped, typeFailed}
