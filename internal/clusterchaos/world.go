package clusterchaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/openaitest"
)

// steps is the number of tool calls of a run.
const steps = 3

// A ledger counts the calls of a tool that must not be called twice.
type ledger struct {
	mu    sync.Mutex
	calls map[string]int // by the argument of the call, which is different in each call
}

// pay handles a call of the tool.
func (l *ledger) pay(_ context.Context, _ *sdk.CallToolRequest, in struct {
	Token string `json:"token"`
}) (*sdk.CallToolResult, any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[in.Token]++
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "paid " + in.Token}}}, nil, nil
}

// made returns the number of different calls.
func (l *ledger) made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// twice returns the calls that were made more than once.
func (l *ledger) twice() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for token, n := range l.calls {
		if n > 1 {
			out = append(out, token)
		}
	}
	return out
}

// serveTool serves the tool as an MCP server, and returns its URL.
func (l *ledger) serveTool() (string, func(), error) {
	impl := sdk.NewServer(&sdk.Implementation{Name: "bank", Version: "1"}, nil)
	sdk.AddTool(impl, &sdk.Tool{Name: "pay", Description: "Pays once."}, l.pay)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl },
		&sdk.StreamableHTTPOptions{Stateless: true})
	return serve(handler)
}

// serve serves a handler at a free port of the network's outside.
func serve(h http.Handler) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", outside+":0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
}

// A teller is the model. It calls the tool steps times, and then answers. It waits for think before
// each response.
type teller struct{ think time.Duration }

// Generate implements [model.Model].
func (m teller) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	token, results := "", 0
	for _, msg := range req.Messages {
		switch msg.Role {
		case abi.RoleUser:
			token = msg.Content.String()
		case abi.RoleTool:
			results++
		}
	}
	message := abi.Message{Role: abi.RoleAssistant, Content: abi.Text("All is paid for " + token + ".")}
	reason := abi.FinishStop
	if results < steps {
		arguments, err := json.Marshal(map[string]string{"token": fmt.Sprint(token, "/", results)})
		if err != nil {
			return nil, err
		}
		message = abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{
			abi.NewToolCall(fmt.Sprint("call_", results), "pay", string(arguments))}}
		reason = abi.FinishToolCalls
	}
	if err := stream(&message, sink); err != nil {
		return nil, err
	}
	select {
	case <-time.After(m.think/2 + rand.N(m.think)):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return &abi.Response{
		Message:      message,
		FinishReason: reason,
		Usage:        &abi.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110},
	}, nil
}

// stream passes a message to sink in chunks. It does nothing if sink is nil.
func stream(m *abi.Message, sink func(abi.Chunk) error) error {
	if sink == nil {
		return nil
	}
	for i, c := range m.ToolCalls {
		chunk := abi.Chunk{
			Kind:      abi.ChunkToolCall,
			Index:     i,
			ID:        c.ID,
			Name:      c.Function.Name,
			Arguments: c.Function.Arguments,
		}
		if err := sink(chunk); err != nil {
			return err
		}
	}
	for word := range strings.FieldsSeq(m.Content.String()) {
		if err := sink(abi.Chunk{Kind: abi.ChunkText, Text: word + " "}); err != nil {
			return err
		}
	}
	return nil
}

// serveModel serves a model, and returns its URL. Requests pass guard first.
func serveModel(m model.Model, guard func(http.Handler) http.Handler) (string, func(), error) {
	inner, err := openaitest.New(m)
	if err != nil {
		return "", nil, err
	}
	to, err := url.Parse(strings.TrimSuffix(inner.URL, "/v1"))
	if err != nil {
		return "", nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	address, stop, err := serve(guard(proxy))
	return address + "/v1", func() {
		stop()
		inner.Close()
	}, err
}

// A balancer sends each request to one of the nodes at random, except to nodes that failed within the
// last second.
type balancer struct {
	nodes []*node
	inner http.Transport

	mu     sync.Mutex
	failed map[string]time.Time
}

// RoundTrip implements [http.RoundTripper].
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	for range 50 {
		n := b.nodes[rand.N(len(b.nodes))]
		b.mu.Lock()
		bad := time.Since(b.failed[n.url()]) < time.Second
		b.mu.Unlock()
		if bad {
			err = errors.New("the node failed a moment ago")
			time.Sleep(50 * time.Millisecond)
			continue
		}
		copied := r.Clone(r.Context())
		copied.URL.Host = strings.TrimPrefix(n.url(), "http://")
		if r.GetBody != nil {
			if copied.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		res, e := b.inner.RoundTrip(copied)
		if e == nil && res.StatusCode < 500 {
			return res, nil
		}
		if e == nil {
			_ = res.Body.Close()
			e = fmt.Errorf("%s: status %d", n.url(), res.StatusCode)
		}
		err = e
		b.mu.Lock()
		b.failed[n.url()] = time.Now()
		b.mu.Unlock()
	}
	return nil, err
}
