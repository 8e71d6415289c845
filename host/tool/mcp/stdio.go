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

// Bounds of what a server may do on stdout beside answering.
const (
	maxNoise    = 16 << 20 // bytes of lines that are no messages
	maxRequests = 64       // requests of the server that are not answered yet
)

// errBroken ends the calls in flight when the connection is over.
var errBroken = errors.New("the connection is broken")

// A stdioConn is a connection to a process. Unlike the SDK's, it tolerates misbehaving servers. A
// line that is too long or not a message does not end the session, a server that does not read
// blocks no caller, and a server that floods the connection is disconnected.
type stdioConn struct {
	p     *process
	max   int // bytes of a message
	grace time.Duration

	out      *bufio.Reader
	noise    int
	requests atomic.Int64

	in     chan []byte
	close  sync.Once
	closed chan struct{}

	mu     sync.Mutex
	reason error // why the connection was given up, if not by closing it
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

// Connect makes the connection itself the SDK's transport.
func (c *stdioConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is for connections that have one.
func (c *stdioConn) SessionID() string { return "" }

// Read returns the next message that the SDK has to see. It ends when the
// process's stdout does, which Close brings about.
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

// message returns the message of a line, or nil if there is nothing to do.
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
		// Nothing here listens to notifications, and the SDK would queue them.
		c.p.log(req.Method + " " + string(req.Params))
		return nil
	}
	if c.requests.Add(1) > maxRequests {
		return nil
	}
	return msg
}

// failed is the answer in place of one that is not there or not read.
func failed(id int64, format string, args ...any) *jsonrpc.Response {
	made, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return nil
	}
	return &jsonrpc.Response{ID: made, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf(format, args...)}}
}

// tooLarge is failed's text for an answer that is too large.
const tooLarge = "the answer has %d bytes; at most %d are read"

// Write hands a message to the writer, which alone waits for the process.
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

func (c *stdioConn) write() {
	for {
		select {
		case b := <-c.in:
			if _, err := c.p.stdin.Write(b); err != nil {
				// The reason is usually that the process ended, which Read tells.
				_ = c.Close()
				return
			}
		case <-c.closed:
			return
		}
	}
}

// giveUp ends the process at once: it does not behave.
func (c *stdioConn) giveUp(reason error) error {
	c.mu.Lock()
	c.reason = reason
	c.mu.Unlock()
	c.p.terminate()
	_ = c.Close()
	return errBroken
}

// Close begins to stop the process and does not wait for it: the SDK calls it
// while it holds a lock.
func (c *stdioConn) Close() error {
	c.close.Do(func() {
		close(c.closed)
		go c.p.stop(c.grace)
	})
	return nil
}

// ended waits until the process of a broken connection has ended, and says
// how that came.
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
