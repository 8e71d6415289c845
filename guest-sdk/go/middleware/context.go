package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Context belongs to one call of a hook. It describes the current run and gives access
// to the host. It must not be used after the hook has returned.
type Context struct {
	// Run describes the run and its progress. It is empty in configure.
	Run abi.Run
	// Entry is the name of this module's entry in the chain.
	Entry string
	// Resume is set if this hook interrupted the run and the interrupt was answered. The
	// hook is called again with its original input.
	Resume *abi.Resume

	host     Host
	textKind string  // kind of text chunks in this hook
	frame    any     // *frame of the running wrapper, or nil if none runs; any for the reason given at [streamArgs]
	sent     bool    // whether the hook sent chunks
	buffer   *[]byte // the module's buffer for encoding values; nil if there is none
}

// encode returns the JSON encoding of value, which is valid until the next call.
func (c *Context) encode(value any) ([]byte, error) {
	if c.buffer == nil {
		return abijson.MarshalValue(value)
	}
	b, err := abijson.AppendValue((*c.buffer)[:0], value)
	if err == nil && cap(b) <= maxRetained {
		*c.buffer = b
	}
	return b, err
}

// maxRetained is the maximum capacity in bytes of a buffer that is kept for reuse.
const maxRetained = 32 << 10

// Messages returns the messages of the run's state with indices in [from, to), which are clamped to
// the list. It is for GateTool, whose input has no list. In a gate, the last message of an agent's
// state has the call, and that of a gateway's request precedes it. Each call of Messages fetches the
// messages again. Errors of the host are of type *abi.Error, with [abi.CodeLimit] if the messages are
// too large for one reply.
func (c *Context) Messages(from, to int) ([]abi.Message, error) {
	b, err := c.host.Messages(abi.ListState, from, to)
	if err != nil {
		return nil, err
	}
	messages, err := abijson.ReadMessages(b, min(max(to-from, 0), maxBlock))
	if err != nil {
		return nil, jsoncodec.Wrap(reading(from, to), err)
	}
	return messages, nil
}

// Emit emits a custom event of the run, marked with this module's entry. data is any value that can be encoded as
// JSON; nil means no data. Emit is denied in observe. It returns an error if data cannot be encoded.
func (c *Context) Emit(name string, data any) error {
	event := contract.Custom{Name: name}
	if data != nil {
		raw, err := abijson.MarshalValue(data)
		if err != nil {
			return jsoncodec.Wrap("encode the data of event "+strconv.Quote(name), err)
		}
		event.Data = raw
	}
	b, err := abijson.Write(nil, (*abijson.Custom)(&event))
	if err != nil {
		return jsoncodec.Wrap("encode event "+strconv.Quote(name), err)
	}
	return c.host.Emit(b)
}

// EventTypes returns all types of events. [Options].Events can be a part of this list.
func EventTypes() []abi.EventType { return contract.EventTypes() }

// The levels of log lines.
const (
	LogDebug = contract.LogDebug
	LogInfo  = contract.LogInfo
	LogWarn  = contract.LogWarn
	LogError = contract.LogError
)

// Debugf writes a line to the run's log at level [LogDebug], formatted as by [Sprintf].
func (c *Context) Debugf(format string, args ...any) {
	c.host.Log(contract.LogDebug, Sprintf(format, args...))
}

// Infof is like [Context.Debugf] at level [LogInfo].
func (c *Context) Infof(format string, args ...any) {
	c.host.Log(contract.LogInfo, Sprintf(format, args...))
}

// Warnf is like [Context.Debugf] at level [LogWarn].
func (c *Context) Warnf(format string, args ...any) {
	c.host.Log(contract.LogWarn, Sprintf(format, args...))
}

// Errorf is like [Context.Debugf] at level [LogError]. It does not make the hook fail; return an
// error for that.
func (c *Context) Errorf(format string, args ...any) {
	c.host.Log(contract.LogError, Sprintf(format, args...))
}

// Info writes a line to the run's log at level [LogInfo], without formatting. A module that formats
// nothing is smaller.
func (c *Context) Info(line string) { c.host.Log(contract.LogInfo, line) }

// Warn is like [Context.Info] at level [LogWarn].
func (c *Context) Warn(line string) { c.host.Log(contract.LogWarn, line) }

// Stop returns an error that ends the run when a hook returns it. No other hook can
// prevent that, and the host discards the hook's other changes. The reason is for people,
// the optional code for programs.
func (c *Context) Stop(reason, code string) error {
	return &ending{abi.Control{Stop: &abi.Stop{Reason: reason, Code: code}}}
}

// Interrupt returns an error that pauses the run when a hook returns it, until the
// interrupt is answered. The payload is shown to the person who answers. It is any value
// that can be encoded as JSON; nil means none. In a gate, Interrupt asks for approval.
func (c *Context) Interrupt(reason string, payload any) error {
	raw, err := encodePayload(payload)
	if err != nil {
		return jsoncodec.Wrap("encode the payload of interrupt "+strconv.Quote(reason), err)
	}
	return &ending{abi.Control{Interrupt: &abi.Interrupt{Reason: reason, Payload: raw}}}
}

func encodePayload(payload any) (abi.JSON, error) {
	if payload == nil {
		return nil, nil
	}
	return abijson.MarshalValue(payload)
}

// An ending is the error that [Context.Stop] or [Context.Interrupt] returns. A hook that returns it
// ends or pauses the run.
type ending struct{ abi.Control }

func (e *ending) Error() string {
	if e.Stop != nil {
		return "stop: " + e.Stop.Reason
	}
	return "interrupt: " + e.Interrupt.Reason
}

// errorObject returns the error object for err. If err wraps an *abi.Error, the object has its code
// and other fields, with err's text. Otherwise its code is [abi.CodeInternal].
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

// A hostError is the panic value if the host returns an error while a list is read. The hook then
// fails with the host's error.
type hostError struct{ err error }

// Error returns the host's error. TinyGo's runtime prints it, because TinyGo cannot recover from a
// panic in a module.
func (f hostError) Error() string { return f.err.Error() }

// HTTP sends a request. It needs the grant "http:HOST". The host replaces {{secret:NAME}} in the
// path and query of the URL, in header values and in the body, if the secret is intended for the
// request's host. The host follows redirects to granted hosts.
//
// Any status is a response. Errors of the host are of type *abi.Error. Typical codes are
// [abi.CodeDenied] without the grant, for a private address and for a secret of another host,
// [abi.CodeLimit] for a request or response that is too large, and [abi.CodeUnavailable] if the
// server was not reached or did not answer in time. A hook that is called again after its run was
// cut off sends the request again. HTTP does not return if the run ends meanwhile.
func (c *Context) HTTP(request abi.HTTPRequest) (*abi.HTTPResponse, error) {
	b, err := abijson.Write(nil, (*abijson.HTTPRequest)(&request))
	if err != nil {
		return nil, jsoncodec.Wrap("encode the request", err)
	}
	b, err = c.host.HTTP(b)
	if err != nil {
		return nil, err
	}
	res := &abi.HTTPResponse{}
	if err := abijson.Read(b, (*abijson.HTTPResponse)(res)); err != nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to http cannot be read"}
	}
	return res, nil
}
