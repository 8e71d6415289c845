package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// A host holds a loader of modules and the errors that the loader logged.
type host struct {
	loader *module.Loader

	mu     sync.Mutex
	errors []string // messages that the loader logged as errors
}

func newHost() (*host, error) {
	h := &host{}
	var err error
	h.loader, err = module.NewLoader(context.Background(), &module.LoaderOptions{Logger: slog.New(mistakes{h})})
	return h, err
}

func (h *host) close() error { return h.loader.Close(context.Background()) }

// complaints returns the errors that the host logged since the last call.
func (h *host) complaints() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.errors
	h.errors = nil
	return out
}

// mistakes is a log handler that records errors in its host.
type mistakes struct{ host *host }

func (m mistakes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (m mistakes) WithAttrs([]slog.Attr) slog.Handler           { return m }
func (m mistakes) WithGroup(string) slog.Handler                { return m }
func (m mistakes) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "stack" {
			text += " " + a.String()
		}
		return true
	})
	m.host.mu.Lock()
	defer m.host.mu.Unlock()
	m.host.errors = append(m.host.errors, text)
	return nil
}

// A hookCall is a call of a hook by a chain.
type hookCall struct {
	hook  abi.Hook
	wall  time.Duration // elapsed time, without the time in next
	own   time.Duration // wall without the time in which the call's thread was ready but other threads ran
	cpu   time.Duration // processor time of the call's thread
	waits bool          // whether the hook called next; own and cpu then include the work of that call
	err   error
	left  bool // whether err only says that the result was no longer needed
}

// watched is a middleware that records each call of its hooks.
type watched struct {
	hook.Middleware
	note func(hookCall)
}

func (w *watched) Open(ctx context.Context, entry, run string) (hook.Session, error) {
	s, err := w.Middleware.Open(ctx, entry, run)
	return &watchedSession{s, w.note}, err
}

type watchedSession struct {
	hook.Session
	note func(hookCall)
}

func (s *watchedSession) Call(ctx context.Context, c *hook.Call, in, out any) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	delay, cpu, began := threadDelay(), threadTime(), time.Now()
	err := s.Session.Call(ctx, c, in, out)
	wall := time.Since(began) - hook.ControlOf(c).Waited()
	left := ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	s.note(
		hookCall{
			c.Hook,
			wall,
			wall - max(0, threadDelay()-delay),
			threadTime() - cpu,
			hook.ControlOf(c).Waited() > 0,
			err,
			left,
		},
	)
	return err
}

// An outcome is the result of running a module.
type outcome struct {
	Seen
	refusal error // why the module was rejected; nil if it ran
	digest  string
	rebuilt bool // whether the module's instances cannot be reset, and each is built anew
	load    time.Duration
	calls   []hookCall
}

// run loads a module, configures it, and uses it in a run.
func (h *host) run(ctx context.Context, c *Case) *outcome {
	out := &outcome{}
	began := time.Now()
	m, err := h.loader.LoadBytes(ctx, "hostile.wasm", c.Module(), c.Limits)
	if err != nil {
		out.refusal = err
		return out
	}
	defer m.Close()
	out.digest = m.Info().Digest
	var config json.RawMessage
	if c.Config != "" {
		config = json.RawMessage(c.Config)
	}
	mw, err := module.Configure(ctx, m, "hostile", config, policy.Grants{})
	if err != nil {
		out.refusal = err
		return out
	}
	defer mw.Close()
	out.load = time.Since(began)
	out.rebuilt = strings.Contains(m.Info().Instances, "anew")
	if err := out.take(ctx, c, mw); err != nil {
		out.refusal = err
	}
	return out
}

// take runs an agent whose chain contains mw c.Entries times, but at least once, and records the
// outcome.
func (o *outcome) take(ctx context.Context, c *Case, mw hook.Middleware) error {
	var mu sync.Mutex
	w := &watched{mw, func(call hookCall) {
		mu.Lock()
		defer mu.Unlock()
		o.calls = append(o.calls, call)
	}}
	var entries []hook.Entry
	for i := range max(1, c.Entries) {
		name := "hostile"
		if i > 0 {
			name = fmt.Sprint("hostile-", i)
		}
		entries = append(entries, hook.Entry{Name: name, Ring: hook.Tenant, OnFault: c.OnFault, Middleware: w})
	}
	ch, err := chain.New(entries...)
	if err != nil {
		return err
	}
	replies := c.Replies
	if replies == nil {
		replies = usualReplies
	}
	asked := scripted.New(replies()...)
	got := make(chan struct{}, 1<<16) // a value for each delivered chunk
	var m model.Model = asked
	if c.Paced {
		m = paced{asked, got}
	}
	offered, release := tools()
	a, err := agent.New(
		&agent.Options{
			Model:       m,
			ModelName:   "scripted",
			Instruction: "be brief",
			Tools:       offered,
			Chain:       ch,
			MaxSteps:    6,
			NoStream:    c.Whole,
		},
	)
	if err != nil {
		return err
	}
	for e, err := range a.Run(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}, RunID: "run"}) {
		o.Events, o.Err = append(o.Events, e), err
		if e.Type == abi.EventChunk && c.Paced {
			got <- struct{}{}
		}
		if e.Type == abi.EventFault {
			release()
		}
		if c.Watch != nil {
			c.Watch(e)
		}
	}
	for _, r := range asked.Requests() {
		o.Requests = append(o.Requests, requestOf(r))
	}
	return nil
}

// paced is a model that delays each chunk until the previous one was delivered.
type paced struct {
	model.Model
	got <-chan struct{}
}

func (p paced) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	return p.Model.Generate(ctx, req, func(c abi.Chunk) error {
		if err := sink(c); err != nil {
			return err
		}
		select {
		case <-p.got:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func requestOf(r model.Request) Request {
	return Request{Messages: r.Messages, Tools: r.Tools, Params: r.Params}
}

func usualReplies() []scripted.Reply {
	last := scripted.Text("all done")
	last.Size = 3
	return []scripted.Reply{scripted.Calls(abi.NewToolCall("c1", "t", `{"n":1}`)), last}
}

// tools returns a tool that answers, and one that blocks its calls until all of parallelCalls
// have arrived, or until they are released.
func tools() (list []tool.Tool, release func()) {
	var came atomic.Int32
	all := make(chan struct{})
	release = sync.OnceFunc(func() { close(all) })
	return []tool.Tool{
		tool.Func(
			abi.Tool{Name: "t"},
			func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("t-ok"), nil },
		),
		tool.Func(abi.Tool{Name: "meet"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
			if came.Add(1) == concurrentCalls {
				release()
			}
			select {
			case <-all:
				return abi.TextResult("met"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
	}, release
}

// fault returns the first fault of a hook, or nil.
func (o *outcome) fault() *ending.FaultError {
	for _, c := range o.calls {
		var f *ending.FaultError
		if errors.As(c.err, &f) {
			return f
		}
	}
	// The host finds a mistake in an answer after the call.
	var f *ending.FaultError
	errors.As(o.Err, &f)
	return f
}

// check returns an error if the outcome of a module is not the one that c expects.
func (o *outcome) check(c *Case) error {
	var err error
	switch c.Want {
	case Refused:
		err = o.rejected(c)
	case Faulted:
		err = o.hasFaulted(c)
	case ErrorReply:
		err = o.reportedError(c)
	case Harmless:
		err = o.noFault()
	}
	if err == nil && c.Check != nil {
		err = c.Check(&o.Seen)
	}
	return err
}

func (o *outcome) rejected(c *Case) error {
	if o.refusal == nil {
		return fmt.Errorf("was not refused; its run ended with %v", o.Last().FinishReason)
	}
	var refused *verify.RefusedError
	var config *module.ConfigError
	if !errors.As(o.refusal, &refused) && !errors.As(o.refusal, &config) {
		return fmt.Errorf("the refusal is of no type of its own: %w", o.refusal)
	}
	return holds("the refusal", o.refusal.Error(), append([]string{"hostile.wasm"}, c.Text...))
}

func (o *outcome) hasFaulted(c *Case) error {
	if o.refusal != nil {
		return fmt.Errorf("was refused: %w", o.refusal)
	}
	events := o.Of(abi.EventFault)
	if c.Hook == "" { // the module itself reports the failure
		return holds("the run's error", fmt.Sprint(o.Err), append([]string{"hostile"}, c.Text...))
	}
	if len(events) == 0 {
		return fmt.Errorf("no event of a fault; the run ended with %v: %w", o.Last().FinishReason, o.Err)
	}
	e := events[0]
	if e.Hook != c.Hook || !strings.HasPrefix(e.Entry, "hostile") || e.Action == "" {
		return fmt.Errorf("the event names %s of %s, want %s: %s", e.Hook, e.Entry, c.Hook, e.Cause)
	}
	if err := holds("the event", e.Cause, c.Text); err != nil {
		return err
	}
	for _, s := range o.Last().Entries {
		if s.Digest != o.digest {
			return fmt.Errorf("the entry's digest is %q, want %q", s.Digest, o.digest)
		}
	}
	f := o.fault()
	if c.Kind == "" {
		return nil
	}
	if f == nil {
		return fmt.Errorf("no typed fault: %s", e.Cause)
	}
	var guest *sandbox.FaultError
	switch {
	case !errors.As(f, &guest):
		return fmt.Errorf("the fault is none of the sandbox: %w", f)
	case guest.Kind != c.Kind:
		return fmt.Errorf("the fault is of kind %s, want %s: %w", guest.Kind, c.Kind, f)
	case guest.Module != "hostile.wasm" || guest.Digest != o.digest || f.Digest != o.digest || f.Hook != c.Hook:
		return fmt.Errorf("the fault names module %q, digest %q and hook %q", guest.Module, guest.Digest, f.Hook)
	}
	return nil
}

func (o *outcome) reportedError(c *Case) error {
	if o.refusal != nil {
		return fmt.Errorf("was refused: %w", o.refusal)
	}
	return holds("what the guest was told", strings.Join(replies(&o.Seen), "\n"), c.Text)
}

func (o *outcome) noFault() error {
	if o.refusal != nil {
		return fmt.Errorf("was refused: %w", o.refusal)
	}
	if f := o.Of(abi.EventFault); len(f) > 0 {
		return fmt.Errorf("%s faulted: %s", f[0].Hook, f[0].Cause)
	}
	return o.Err
}

func holds(what, text string, want []string) error {
	for _, w := range want {
		if !strings.Contains(text, w) {
			return fmt.Errorf("%s does not say %q: %s", what, w, text[:min(len(text), 2000)])
		}
	}
	return nil
}

// memory returns the size of the heap in bytes after a garbage collection.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// allocations returns the total of all allocations in bytes.
func allocations() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// requireWorking checks that a run of a well-behaved module still succeeds.
func requireWorking(t *testing.T, h *host) {
	t.Helper()
	c := &Case{
		Module: func() []byte { return answering(contract.HookBeforeAgent, `{"instruction":"be kind"}`) },
		Want:   Harmless,
		Check:  func(s *Seen) error { return wantInstruction(s, "be kind") },
	}
	require.NoError(t, h.run(t.Context(), c).check(c), "another module no longer works")
}
