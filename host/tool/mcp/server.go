// Package mcp gives an agent the tools of MCP servers: child processes that
// speak on stdin and stdout, and servers that speak streamable HTTP.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-runner/agent-runner/abi"
)

// A Server is a connection to one MCP server. It may be used by many runs at
// once. When the server ends or the connection breaks it stays so: calls in
// flight fail with what the server printed last, later ones as unavailable.
type Server struct {
	o       Options
	session *sdk.ClientSession
	conn    *stdioConn    // of a command
	http    *roundTripper // of a URL

	calls context.Context // ends calls in flight
	end   context.CancelCauseFunc
	gone  context.CancelFunc // ends requests that Close has waited for

	closing sync.Once
	mu      sync.Mutex
	broken  error // why calls are not tried any more
}

var errClosed = errors.New("it was closed")

// legacy is the newest protocol version that begins with initialize. Servers
// that know only later ones are few, and servers that mishandle a first
// request they do not know are many, so it is tried first.
const legacy = "2025-11-25"

// Connect starts the command or connects to the URL, and agrees with the
// server on how to speak. The context and Options.Timeout are for that alone:
// the server lives until Close.
func Connect(ctx context.Context, options *Options) (*Server, error) {
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, &o, legacy)
	if answered(err) != nil {
		s, err = connect(ctx, &o, "")
	}
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: %w", o.Name, err)
	}
	return s, nil
}

func connect(ctx context.Context, o *Options, version string) (*Server, error) {
	limit := fmt.Errorf("it did not answer within %v; if it needs longer to start, give it a longer timeout", o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, limit)
	defer cancel()

	s := &Server{o: *o}
	s.calls, s.end = context.WithCancelCause(context.Background())
	gone, hangUp := context.WithCancel(context.Background())
	s.gone = hangUp
	transport, err := s.transport(gone)
	if err != nil {
		s.release()
		return nil, err
	}
	client := sdk.NewClient(implementation(), &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	s.session, err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		if s.conn != nil && ctx.Err() != nil {
			// Nothing is to be saved of a server that did not come up.
			s.conn.p.terminate()
		}
		err = s.explain(ctx, err)
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Server) transport(gone context.Context) (sdk.Transport, error) {
	if s.o.URL != "" {
		transport, rt, err := newTransport(gone, &s.o)
		s.http = rt
		return transport, err
	}
	p, err := start(&s.o)
	if err != nil {
		return nil, err
	}
	s.conn = newStdioConn(p, &s.o)
	return s.conn, nil
}

func implementation() *sdk.Implementation {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return &sdk.Implementation{Name: "agent-runner", Version: version}
}

// String names the server as errors do: MCP server "files".
func (s *Server) String() string { return fmt.Sprintf("MCP server %q", s.o.Name) }

// Close ends calls in flight and the server: it closes the session and the
// process's stdin, and after Options.Grace each sends SIGTERM and kills it,
// with all that it started. It returns when the process has ended, and is
// safe to call more than once.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.breakWith(errClosed)
		s.end(errClosed)
		if s.conn != nil {
			_ = s.conn.Close()
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.session.Close() // of no use: the server may have ended before
		}()
		if s.conn == nil {
			select {
			case <-ended:
			case <-time.After(s.o.Grace):
			}
			s.gone()
		}
		<-ended
		s.release()
	})
	return nil
}

// release frees what a server holds, whether or not it has a session.
func (s *Server) release() {
	s.end(errClosed)
	s.gone()
	if s.conn != nil {
		_ = s.conn.Close()
		<-s.conn.p.done
	}
	if s.http != nil {
		s.http.close()
	}
}

// breakWith notes why the server cannot be called any more; the first reason
// stays.
func (s *Server) breakWith(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = reason
	}
}

// closed reports whether Close was called while the server was well.
func (s *Server) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.broken, errClosed)
}

// unavailable is an error if the server cannot be called any more.
func (s *Server) unavailable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		return nil
	}
	return &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s is not there any more: %v", s, s.broken)}
}

// explain says why something that was asked of the server failed. An answer
// that is an error is a *jsonrpc.Error, as it came.
func (s *Server) explain(ctx context.Context, err error) error {
	answer := answered(err)
	over := errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, errBroken)
	switch {
	case answer != nil:
		return answer
	case ctx.Err() != nil && s.conn != nil:
		return fmt.Errorf("%w%s", context.Cause(ctx), &s.conn.p.last)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.conn != nil && over:
		err = s.conn.ended()
	case s.http != nil:
		err = errors.New(s.plain(err))
	default:
		err = fmt.Errorf("its answer is unusable: %w", err)
	}
	if over {
		s.breakWith(err)
	}
	return err
}

// answered is the error that the server answered with, nil if err is none.
// The SDK uses the same type for a request that its transport could not send.
func answered(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code == -32005 && e.Message == rejected {
		return nil
	}
	return e
}

const rejected = "rejected by transport"

// plain is the text of an error of the HTTP transport, without what may be
// secret in the address, and without the SDK's words for its own layers.
func (s *Server) plain(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Sprintf("%s: %v", bare(s.http.url), u.Err)
	}
	text := strings.ReplaceAll(err.Error(), s.o.URL, bare(s.http.url))
	if strings.HasPrefix(text, "calling ") {
		_, text, _ = strings.Cut(text, ": ")
	}
	return fmt.Sprintf("%s: %s", bare(s.http.url), strings.TrimPrefix(text, rejected+": "))
}
