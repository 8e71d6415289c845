// Package mcp provides the tools of MCP servers: child processes that communicate over stdin and
// stdout, and servers with the streamable HTTP transport.
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

// A Server is a connection to one MCP server. Many runs may use it concurrently. It does not
// reconnect: if the server exits or the connection breaks, calls in flight fail with the last lines
// that the server printed, and later calls fail as unavailable.
type Server struct {
	o       Options
	session *sdk.ClientSession
	conn    *stdioConn    // for a command
	http    *roundTripper // for a URL

	calls context.Context // canceled to end calls in flight
	end   context.CancelCauseFunc
	gone  context.CancelFunc // cancels the requests that are still in flight when Close stops waiting

	closing sync.Once
	mu      sync.Mutex
	broken  error // the reason why calls are no longer attempted
}

var errClosed = errors.New("it was closed")

// legacy is the newest protocol version whose sessions start with initialize. Connect tries it first,
// because few servers know only later versions, but many mishandle an unknown first request.
const legacy = "2025-11-25"

// Connect starts the command or connects to the URL, and initializes the session. ctx and
// Options.Timeout apply only to Connect: the server lives until Close.
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

// connect starts or connects to the server and initializes the session. version is the protocol
// version to propose; if it is empty, the SDK chooses.
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
			// A server that failed to start has no data to save, so it is terminated without a grace
			// period.
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

// String returns the server's name as in errors: MCP server "files".
func (s *Server) String() string { return fmt.Sprintf("MCP server %q", s.o.Name) }

// Close ends calls in flight and the session. For a command, it closes the process's stdin, sends
// SIGTERM after Options.Grace, and kills the process with its descendants after another
// Options.Grace; it returns once the process has exited. For a URL, it waits for the end of the
// session for at most Options.Grace. Close may be called more than once.
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
			_ = s.session.Close() // the error does not matter: the server may have exited already
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

// release frees a server's resources, with or without a session.
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

// breakWith records why the server can no longer be called. The first reason wins.
func (s *Server) breakWith(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = reason
	}
}

// closed reports whether Close was called before the server broke.
func (s *Server) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.broken, errClosed)
}

// unavailable returns an error if the server can no longer be called.
func (s *Server) unavailable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		return nil
	}
	return &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s is no longer available: %v", s, s.broken)}
}

// explain returns an error that describes a failed request. If the server answered with an error,
// explain returns that *jsonrpc.Error unchanged.
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

// answered returns the error that the server answered with, or nil if err is another error. The SDK
// uses the same type for a request that its transport could not send.
func answered(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code == -32005 && e.Message == rejected {
		return nil
	}
	return e
}

const rejected = "rejected by transport"

// plain returns the text of an error of the HTTP transport, without secret parts of the URL and
// without the SDK's internal prefixes.
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
