package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// concealed is the name that clients see for entries in Options.Hidden.
const concealed = "operator"

// shown returns the name of an entry for clients.
func (g *Gateway) shown(entry string) string {
	if slices.Contains(g.o.Hidden, entry) {
		return concealed
	}
	return entry
}

// conceal removes hidden entries from the error for a client. cause is the error of the chain.
func (g *Gateway) conceal(cause error, err *wire.Error) *wire.Error {
	if len(g.o.Hidden) == 0 {
		return err
	}
	out := *err
	if fault, ok := errors.AsType[*ending.FaultError](cause); ok && slices.Contains(g.o.Hidden, fault.Entry) {
		out.Message = "a module of the operator failed"
	}
	for _, name := range g.o.Hidden {
		out.Message = strings.ReplaceAll(out.Message, name, concealed)
	}
	return &out
}

// work calls fn, which parses a body of the given number of bytes, through Options.Work if that is set.
func (g *Gateway) work(ctx context.Context, bytes int, fn func() error) *wire.Error {
	var err error
	if g.o.Work == nil {
		err = fn()
	} else {
		err = g.o.Work(ctx, bytes, fn)
	}
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return known
	}
	return wire.Errorf(wire.CodeBusy, "%v", err)
}
