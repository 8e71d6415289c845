package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a server's output on stdout other than answers.
const (
	maxNoise    = 16 << 20 // bytes of lines that are not messages
	maxRequests = 64       // unanswered requests of the server
)

// errBroken ends the calls in flight when the connection breaks.
var errBroken = errors.New("the connection is broken")

// A stdioConn is a connection to a process. Unlike the SDK's, it tolerates misbehaving servers. A
// line that is too long or is not a message does not end the session. A server that does not read its
// input does not block callers. A server that floods the connection is disconnected.
type stdioConn struct {
	p     *process
	max   int // maximum size of a message, in bytes
	grace time.Duration

	out      *bufio.Reader
	noise    int
	requests atomic.Int64

	in     chan []byte
	close  sync.Once
	closed chan struct{}

	mu     sync.Mutex
	reason error // why the connection was given up; nil if it was closed
}

func newStdioConn(p *process, o *Options) *stdioConn {
	c := &stdioConn{
		p: p, max: o.MaxMessage, grace: o.Grace,
		out: bufio.NewReaderSize(p.stdout, 64<<10),
		in:  make(chan []byte), closed: make(chan struct{}),
	}
	go c.write()
	return c
}

// Connect implements the SDK's Transport by returning the connection itself.
func (c *stdioConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID returns "": the connection has no session id.
func (c *stdioConn) SessionID() string { return "" }

// Read returns the next message for the SDK. It fails if the server floods the connection, and once
// the process's stdout ends, which Close causes.
func (c *stdioConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, long, err := readLine(c.out, c.max)
		if err != nil {
			c.p.stdout.Close()
			return nil, errBroken
		}
		if msg := c.message(line, long); msg != nil {
			return msg, nil
		}
		if c.noise > maxNoise {
			return nil, c.giveUp(fmt.Errorf("it printed more than %d bytes to stdout that are no MCP messages", maxNoise))
		}
		if n := c.requests.Load(); n > maxRequests {
			return nil, c.giveUp(fmt.Errorf("it sent %d requests without reading their answers", n))
		}
	}
}

// message returns the message on a line, or nil to ignore the line.
func (c *stdioConn) message(line []byte, long *longLine) jsonrpc.Message {
	if long != nil {
		if id, ok := long.id(); ok {
			return failed(id, tooLarge, long.size, c.max)
		}
		line = long.head
		c.noise += long.size
	}
	msg, err := jsonrpc.DecodeMessage(exact(line))
	if err != nil {
		c.noise += len(line)
		c.p.log(c.p.last.add(line))
		return nil
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return msg
	}
	if !req.IsCall() {
		// The client ignores notifications, and the SDK would queue them.
		c.p.log(req.Method + " " + string(req.Params))
		return nil
	}
	if c.requests.Add(1) > maxRequests {
		return nil
	}
	return msg
}

// failed returns an error response in place of one that is missing or was not read.
func failed(id int64, format string, args ...any) *jsonrpc.Response {
	made, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return nil
	}
	return &jsonrpc.Response{
		ID:    made,
		Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf(format, args...)},
	}
}

// tooLarge is the format for failed if an answer is too large.
const tooLarge = "the answer has %d bytes; at most %d are read"

// Write passes a message to the writer goroutine, which alone blocks on the process.
func (c *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	select {
	case c.in <- append(b, '\n'):
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return sdk.ErrConnectionClosed
	}
	if _, ok := msg.(*jsonrpc.Response); ok {
		c.requests.Add(-1)
	}
	return nil
}

// write writes messages to the process until the connection is closed. It runs in a goroutine.
func (c *stdioConn) write() {
	for {
		select {
		case b := <-c.in:
			if _, err := c.p.stdin.Write(b); err != nil {
				// Usually the process has exited, which Read reports.
				_ = c.Close()
				return
			}
		case <-c.closed:
			return
		}
	}
}

// giveUp terminates a misbehaving process at once. It records the reason, which the method ended
// returns, and returns errBroken.
func (c *stdioConn) giveUp(reason error) error {
	c.mu.Lock()
	c.reason = reason
	c.mu.Unlock()
	c.p.terminate()
	_ = c.Close()
	return errBroken
}

// Close starts to stop the process. It does not wait, since the SDK calls it while holding a lock.
func (c *stdioConn) Close() error {
	c.close.Do(func() {
		close(c.closed)
		go c.p.stop(c.grace)
	})
	return nil
}

// ended waits until the process of a broken connection has exited, and returns the reason.
func (c *stdioConn) ended() error {
	_ = c.Close()
	<-c.p.done
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if reason == nil {
		reason = errors.New("it ended (" + c.p.status() + ")")
	}
	return fmt.Errorf("%w%s", reason, &c.p.last)
}
