package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
)

// A Context is one call of a hook: where in the run it is, and what the
// module can do beside answering. It must not be used after the hook returned.
type Context struct {
	// Run says which run, and where in it. It is empty in configure.
	Run abi.Run
	// Entry is this module's name in the chain.
	Entry string
	// Resume is there when this hook interrupted the run and was answered:
	// the hook is called again with the input that it saw.
	Resume *abi.Resume

	host     Host
	textKind string  // of chunks that are text, in this hook
	frame    any     // the *frame of the wrapper that runs, if one does: see [aside]
	sent     bool    // the host was sent chunks
	room     *[]byte // where values are encoded, one after the other
}

// encode returns the JSON of a value, which is there until the next is encoded.
func (c *Context) encode(value any) ([]byte, error) {
	if c.room == nil {
		return abi.MarshalValue(value)
	}
	b, err := abi.AppendValue((*c.room)[:0], value)
	if err == nil && cap(b) <= mostKept {
		*c.room = b
	}
	return b, err
}

// mostKept is the most bytes of room for JSON that are kept for the next.
const mostKept = 32 << 10

// Emit makes a custom event of the run, marked with this module. Data is
// anything that encodes as JSON; nil is none. It is denied in observe.
func (c *Context) Emit(name string, data any) error {
	event := abi.Custom{Name: name}
	if data != nil {
		raw, err := abi.MarshalValue(data)
		if err != nil {
			return abi.Wrap("encode the data of event "+strconv.Quote(name), err)
		}
		event.Data = raw
	}
	b, err := abi.Write(nil, &event)
	if err != nil {
		return abi.Wrap("encode event "+strconv.Quote(name), err)
	}
	return c.host.Emit(b)
}

// Debugf, Infof, Warnf and Errorf write a line to the run's log, as [Sprintf] makes it.
func (c *Context) Debugf(format string, args ...any) {
	c.host.Log(abi.LogDebug, Sprintf(format, args...))
}

// Infof is described at [Context.Debugf].
func (c *Context) Infof(format string, args ...any) {
	c.host.Log(abi.LogInfo, Sprintf(format, args...))
}

// Warnf is described at [Context.Debugf].
func (c *Context) Warnf(format string, args ...any) {
	c.host.Log(abi.LogWarn, Sprintf(format, args...))
}

// Errorf is described at [Context.Debugf]. It does not fail the hook:
// returning an error does.
func (c *Context) Errorf(format string, args ...any) {
	c.host.Log(abi.LogError, Sprintf(format, args...))
}

// Info and Warn write a line to the run's log as it is. A module that formats nothing
// is smaller by what formatting takes.
func (c *Context) Info(line string) { c.host.Log(abi.LogInfo, line) }

// Warn is described at [Context.Info].
func (c *Context) Warn(line string) { c.host.Log(abi.LogWarn, line) }

// Stop makes an error that ends the run when a hook returns it: nothing
// catches it, and whatever else the hook changed is dropped. The reason is for
// people, the code for programs; it may be empty.
func (c *Context) Stop(reason, code string) error {
	return &ending{abi.Control{Stop: &abi.Stop{Reason: reason, Code: code}}}
}

// Interrupt makes an error that pauses the run when a hook returns it, until
// somebody answers. Payload is what that somebody gets to see, anything that
// encodes as JSON; nil is none. In a gate it asks.
func (c *Context) Interrupt(reason string, payload any) error {
	raw, err := encodePayload(payload)
	if err != nil {
		return abi.Wrap("encode the payload of interrupt "+strconv.Quote(reason), err)
	}
	return &ending{abi.Control{Interrupt: &abi.Interrupt{Reason: reason, Payload: raw}}}
}

func encodePayload(payload any) (abi.JSON, error) {
	if payload == nil {
		return nil, nil
	}
	return abi.MarshalValue(payload)
}

// An ending is an error that ends or pauses the run.
type ending struct{ abi.Control }

func (e *ending) Error() string {
	if e.Stop != nil {
		return "stop: " + e.Stop.Reason
	}
	return "interrupt: " + e.Interrupt.Reason
}

// errorObject is what a hook that returned err writes as its output. The
// nearest *abi.Error in err keeps its code and the rest; the text is err's.
func errorObject(err error) *abi.Error {
	known, ok := errors.AsType[*abi.Error](err)
	if !ok {
		return &abi.Error{Code: abi.CodeInternal, Message: err.Error()}
	}
	out := *known
	if text := err.Error(); text != string(out.Code) {
		out.Message = text
	}
	return &out
}

// A hostFailure is the panic with which reading a list gives up when the host
// does: the hook fails with the host's error.
type hostFailure struct{ err error }

// Error is what is printed where nothing catches it: TinyGo cannot.
func (f hostFailure) Error() string { return f.err.Error() }
