package module

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestIsolation checks that runs do not share instances, that a run starts from the image, and that
// an instance's memory remains until the end of the run.
func TestIsolation(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	mw := configure(t, m, do("x"))
	one, two := open(t, mw), open(t, mw)
	for range 2 {
		for _, r := range []*testRun{one, two} {
			_, err := r.beforeAgent(t)
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{"count 1", "count 2"}, one.host.customs())
	require.Equal(t, []string{"count 1", "count 2"}, two.host.customs())
	require.Equal(t, int64(1), one.Stats()[0].Instances)

	one.Close()
	after := open(t, mw)
	_, err := after.beforeAgent(t)
	require.NoError(t, err)
	require.Equal(t, []string{"count 1"}, after.host.customs(), "an instance that comes back is clean")
	_, err = one.beforeAgent(t)
	require.ErrorIs(t, err, sandbox.ErrClosed)
}

// TestNested checks that a nested call of the same entry uses another instance, and that the number
// of instances is limited.
func TestNested(t *testing.T) {
	t.Parallel()
	r := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{}), next("1")))
	depth := 0
	var inner func(ctx context.Context, _ abi.Call) (*abi.Result, error)
	inner = func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		if depth++; depth == 6 {
			return abi.TextResult("bottom"), nil
		}
		outcome, err := r.callTool(ctx, inner)
		return outcome.Result, err
	}
	outcome, err := r.callTool(t.Context(), inner)
	require.NoError(t, err)
	require.Equal(t, "bottom", outcome.Result.Content.String())
	require.Equal(t, []string{"served 1", "served 1", "served 1", "served 1", "served 1", "served 1"}, r.host.customs())
	require.Equal(t, int64(6), r.Stats()[0].Instances)

	few := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{Instances: 2}), next("1")))
	var deepest error
	inner = func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		outcome, err := few.callTool(ctx, inner)
		if deepest == nil {
			deepest = err
		}
		return outcome.Result, err
	}
	_, err = few.callTool(t.Context(), inner)
	require.NoError(t, err, "to the calls outside, the tool failed")
	require.ErrorContains(t, deepest, "3 concurrent calls of the entry, more than the limit instances of 2")

	shallow := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{Limits: sandbox.Limits{Nesting: 2}}), next("1")))
	deepest = nil
	inner = func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		outcome, err := shallow.callTool(ctx, inner)
		if deepest == nil {
			deepest = err
		}
		return outcome.Result, err
	}
	_, err = shallow.callTool(t.Context(), inner)
	require.NoError(t, err)
	require.ErrorContains(t, deepest, "guests call guests more than 2 deep")
}

// TestParallel checks that concurrent calls in one run succeed, each in its own instance. At most
// maxIdle instances are kept for later calls.
func TestParallel(t *testing.T) {
	t.Parallel()
	r := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{}), next("1")))
	const calls, rounds = 16, 4
	for range rounds {
		var wg, inside sync.WaitGroup
		inside.Add(calls)
		for range calls {
			wg.Go(func() {
				outcome, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
					inside.Done()
					inside.Wait() // until all calls are in next
					return abi.TextResult("done"), nil
				})
				if err != nil || outcome.Result.Content.String() != "done" {
					t.Error(outcome, err)
				}
			})
		}
		wg.Wait()
	}
	stats := r.Stats()[0]
	require.Equal(t, int64(calls*rounds), stats.Calls)
	require.Equal(t, int64(calls+(rounds-1)*(calls-maxIdle)), stats.Instances, "a few wait for the next calls")
}

// TestCloseDuringCall checks that a session can be closed during a call.
func TestCloseDuringCall(t *testing.T) {
	t.Parallel()
	r := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{}), next("1")))
	_, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
		r.Close()
		return abi.TextResult("late"), nil
	})
	require.NoError(t, err)
}

func TestStats(t *testing.T) {
	t.Parallel()
	mw := configure(t, load(t, "wrap.wasm", policy.Limits{}), next("1"))
	r := open(t, mw)
	began, waited := time.Now(), time.Duration(0)
	for range 2 {
		_, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
			began := time.Now()
			time.Sleep(10 * time.Millisecond) // waiting does not count as time of the hook
			waited += time.Since(began)
			return abi.TextResult("done"), nil
		})
		require.NoError(t, err)
	}
	took := time.Since(began)
	stats := r.Stats()[0]
	require.Equal(t, "guard", stats.Entry)
	require.Equal(t, mw.Module().digest, stats.Digest)
	require.Equal(t, map[abi.Hook]int64{contract.HookWrapToolCall: 2}, stats.Hooks)
	reply := len(`{"result":{"content":"done"}}`)
	require.Equal(t, int64(2*(len(next("1"))+reply)), stats.BytesIn, "what was read")
	require.Equal(t, int64(2*(len(`{"name":"served","data":0}`)+reply)), stats.BytesOut)
	require.LessOrEqual(t, stats.WallUS, (took - waited).Microseconds())
	require.Positive(t, stats.Fuel)
}

// hexOf decodes the bytes that wasi.wasm reports as one letter per half byte.
func hexOf(t *testing.T, custom string) []byte {
	t.Helper()
	letters := strings.Trim(strings.TrimPrefix(custom, "bytes "), `"`)
	b, err := hex.DecodeString(
		strings.NewReplacer("a", "0", "b", "1", "c", "2", "d", "3", "e", "4", "f", "5", "g", "6", "h", "7",
			"i", "8", "j", "9", "k", "a", "l", "b", "m", "c", "n", "d", "o", "e", "p", "f").Replace(letters),
	)
	require.NoError(t, err)
	return b
}

// TestDeterminism checks that random bytes depend on the run, the entry and the call, and that the
// clock advances only in host calls that wait.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	mw := configure(t, load(t, "wasi.wasm", policy.Limits{}), "{}")
	randoms := func(entry string) []string {
		r := openRun(t, hook.Entry{Name: entry, Middleware: mw})
		var out []string
		for range 2 {
			_, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
				r.host.tick(90 * time.Second)
				return abi.TextResult("done"), nil
			})
			require.NoError(t, err)
		}
		customs := r.host.customs()
		require.Len(t, customs, 6)
		var clock []int64
		for i, c := range customs {
			if i%3 == 0 {
				out = append(out, c)
				continue
			}
			clock = append(clock, int64(binary.LittleEndian.Uint64(hexOf(t, c)))/1e9)
		}
		const began = 1_767_225_600
		require.Equal(t, []int64{began, began + 90, began + 90, began + 180}, clock)
		return out
	}
	one := randoms("one")
	require.NotEqual(t, one[0], one[1], "another call")
	require.Equal(t, one, randoms("one"), "the same run again")
	require.NotEqual(t, one, randoms("two"), "another entry")
}

// TestPrinted checks that output to stdout and stderr is logged, and that a fault contains it.
func TestPrinted(t *testing.T) {
	t.Parallel()
	m := load(t, "wasi.wasm", policy.Limits{})
	r := open(t, configure(t, m, do("x")))
	_, err := r.beforeAgent(t)
	var fault *ending.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, []string{"info to stdout", "info to stderr"}, r.host.logs())
	require.Equal(t, []string{"to stdout", "to stderr"}, fault.Stderr)
	require.ErrorContains(t, fault.Cause, "proc_exit(3)")
	require.Equal(t, fault.Stderr, r.host.faults()[0].Stderr)
}

// TestInputLimit checks that an input that exceeds the limit is a fault, and that the fault
// contains advice.
func TestInputLimit(t *testing.T) {
	t.Parallel()
	long := chain.Start{Messages: conversation(strings.Repeat("long ", 1000))}
	full, err := loadBytes(t, answering(t, `{}`, "", 0), policy.Limits{InputBytes: 4000})
	require.NoError(t, err)
	_, err = open(t, configure(t, full, "")).BeforeAgent(t.Context(), long)
	require.ErrorContains(t, err, "more than the limit input_bytes of 4000")
	require.ErrorContains(t, err, `"messages": "lazy"`)

	lazy, err := loadBytes(t, answering(t, `{"messages":"lazy"}`, "", 0), policy.Limits{InputBytes: 4000})
	require.NoError(t, err)
	r := open(t, configure(t, lazy, ""))
	_, err = r.BeforeAgent(t.Context(), long)
	require.NoError(t, err)
	_, err = r.BeforeAgent(t.Context(), chain.Start{Instruction: strings.Repeat("long ", 1000), Messages: conversation()})
	require.ErrorContains(t, err, "more than the limit input_bytes of 4000")
	require.NotContains(t, err.Error(), "lazy", "that would not help")
}

// TestClosedLoader checks that a loader can be closed before its runs, and that later calls return
// ErrClosed.
func TestClosedLoader(t *testing.T) {
	t.Parallel()
	l, err := NewLoader(t.Context(), nil)
	require.NoError(t, err)
	m, err := l.Load(t.Context(), modules+"/puppet.wasm", policy.Limits{})
	require.NoError(t, err)
	mw := configure(t, m, do("w"))
	r := open(t, mw)
	require.NoError(t, l.Close(context.Background()))
	_, err = r.beforeAgent(t)
	require.ErrorIs(t, err, sandbox.ErrClosed)
	_, err = Configure(t.Context(), m, "late", nil, policy.Grants{})
	require.ErrorIs(t, err, sandbox.ErrClosed)
	_, err = l.Load(t.Context(), modules+"/puppet.wasm", policy.Limits{})
	require.ErrorIs(t, err, sandbox.ErrClosed)
	m.Close()
	m.Close()
}

func BenchmarkHook(b *testing.B) {
	l, err := NewLoader(b.Context(), nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, l.Close(context.Background())) }()
	m, err := l.Load(b.Context(), modules+"/mirror.wasm", policy.Limits{})
	require.NoError(b, err)
	mw, err := Configure(b.Context(), m, "guard", nil, policy.Grants{})
	require.NoError(b, err)
	for _, size := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := mw.Open(b.Context(), "guard", "run-1")
			require.NoError(b, err)
			defer s.Close()
			in := &abi.BeforeToolInput{Call: abi.Call{ID: "c1", Name: "t", Arguments: strings.Repeat("x", size)}}
			b.ReportAllocs()
			for b.Loop() {
				inv, err := s.(*session).invocation(&hook.Call{Hook: contract.HookBeforeTool}, in)
				require.NoError(b, err)
				inv.LogFunc = func(int32, string) {}
				var out abi.BeforeToolInput
				if err := s.(*session).serve(b.Context(), inv, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// encoding is a middleware that encodes inputs like a session, but calls no guest.
type encoding struct {
	mw    *Middleware
	input []byte
}

func (e *encoding) Describe() hook.Description {
	var d hook.Description
	d.Hooks = []abi.Hook{contract.HookBeforeModelRewriteState, contract.HookBeforeModel}
	return d
}

func (e *encoding) Open(context.Context, string, string) (hook.Session, error) { return e, nil }

func (e *encoding) Call(_ context.Context, c *hook.Call, in, _ any) error {
	inv, err := (&session{mw: e.mw}).invocation(c, in)
	e.input = inv.Input
	return err
}

func (e *encoding) Stats() abi.EntryStats { return abi.EntryStats{} }
func (e *encoding) Close()                {}

// TestShown checks that inserting encoded messages into an input has the same result as encoding
// both together. This must also hold if other parts of the input look like a list.
func TestShown(t *testing.T) {
	t.Parallel()
	messages := conversation("hello", "{\"list\":0,\"revision\":1,\"total\":3}", "<&>\u2028")
	decoy := json.RawMessage(`{"messages":{"list":0,"revision":1,"total":3},"items":[]}`)
	tool := abi.Tool{Name: "t", Parameters: decoy}
	for read, want := range map[hook.Read]int{hook.ReadAll: 3, hook.ReadLast: 1, hook.ReadNone: 0} {
		e := &encoding{mw: &Middleware{module: load(t, "no-tools.wasm", policy.Limits{})}}
		r := openRun(t, hook.Entry{Name: "guard", Middleware: e, Read: read})
		_, err := r.BeforeModelRewriteState(t.Context(), chain.Draft{Messages: messages, Tools: []abi.Tool{tool}, Model: "m"})
		require.NoError(t, err)
		var state abi.BeforeModelRewriteStateInput
		requireShown(t, e.input, &state, func() *abi.List { return &state.Messages }, messages.All()[3-want:])
		require.Equal(t, string(decoy), string(state.Tools[0].Parameters))

		_, _, err = r.CallModel(t.Context(), chain.ModelCall{State: messages, Delivered: func() bool { return false },
			Request: chain.ModelRequest{Messages: messages, Tools: []abi.Tool{tool}, Params: abi.Params{"messages": decoy}},
			Generate: func(context.Context, chain.ModelRequest, pipe.Sink) (*abi.Response, error) {
				return &abi.Response{Message: abi.Assistant("hi")}, nil
			}})
		require.NoError(t, err)
		var request abi.BeforeModelInput
		requireShown(t, e.input, &request, func() *abi.List { return &request.Request.Messages }, messages.All()[3-want:])
		require.Equal(t, string(decoy), string(request.Request.Params["messages"]))
	}
}

func requireShown(t *testing.T, input []byte, in any, list func() *abi.List, want []abi.Message) {
	t.Helper()
	unknown, err := abijson.Decode(input, in)
	require.NoError(t, err)
	require.Empty(t, unknown)
	got, err := abijson.Marshal(list().Items)
	require.NoError(t, err)
	if len(want) == 0 {
		want = []abi.Message{}
	}
	encoded, err := abijson.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, string(encoded), string(got))
	again, err := abijson.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, string(again), string(input), "the very bytes")
}

// BenchmarkInput encodes an input with a conversation of 20 or 1,000 messages (8 or 400 KB), as
// each step of a run does.
func BenchmarkInput(b *testing.B) {
	l, err := NewLoader(b.Context(), nil)
	require.NoError(b, err)
	defer func() { require.NoError(b, l.Close(context.Background())) }()
	m, err := l.Load(b.Context(), modules+"/no-tools.wasm", policy.Limits{})
	require.NoError(b, err)
	text, err := os.ReadFile("bench/sample.json")
	require.NoError(b, err)
	var sample []abi.Message
	require.NoError(b, json.Unmarshal(text, &sample))
	for i := range sample {
		sample[i].ID, sample[i].Origin = fmt.Sprintf("msg_%d", i+1), abi.OriginUser
	}
	for _, times := range []int{1, 50} {
		b.Run(fmt.Sprint(20*times), func(b *testing.B) {
			e := &encoding{mw: &Middleware{module: m}}
			c, err := chain.New(hook.Entry{Name: "guard", Middleware: e})
			require.NoError(b, err)
			d := chain.Draft{Messages: message.NewList(message.NewRevisions(), slices.Repeat(sample, times))}
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.Open(b.Context(), abi.Run{ID: "run-1"}, &fakeHost{}, local.New())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.BeforeModelRewriteState(b.Context(), d); err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
			b.SetBytes(int64(len(e.input)))
		})
	}
}

// TestRunFuel checks that RunFuel is 100 times Fuel by default, and that a hook that exceeds
// RunFuel faults.
func TestRunFuel(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 100*sandbox.DefaultFuel, load(t, "puppet.wasm", policy.Limits{}).Limits().RunFuel)
	require.EqualValues(t, 100*700_000,
		load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{Fuel: 700_000}}).Limits().RunFuel)
	require.EqualValues(t, math.MaxInt64,
		load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{Fuel: math.MaxInt64}}).Limits().RunFuel)

	mw := configure(t, load(t, "puppet.wasm", policy.Limits{RunFuel: 5}), do("n"))
	for range 2 { // each run has its own RunFuel
		_, err := open(t, mw).beforeAgent(t)
		var fault *ending.FaultError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, "run_fuel", fault.Limit)
		require.EqualValues(t, 5, fault.Value)
		require.ErrorContains(t, err, "fuel in this run, more than the limit run_fuel of 5")
	}
}

// TestInstancesBeyondReservation checks that a session with more instances than its run reserved
// reserves memory for them, or fails.
func TestInstancesBeyondReservation(t *testing.T) {
	t.Parallel()
	const spare = 1
	loader, err := NewLoader(t.Context(), &LoaderOptions{MemoryBytes: 1})
	require.NoError(t, err)
	m, err := loader.Load(t.Context(), filepath.Join(modules, "puppet.wasm"), policy.Limits{})
	require.NoError(t, err)
	mw := configure(t, m, do("n"))
	planned := mw.instances(1)
	all := int64(planned+spare) * mw.worstCase()
	require.NoError(t, loader.Close(context.Background()))

	loader, err = NewLoader(t.Context(), &LoaderOptions{MemoryBytes: all})
	require.NoError(t, err)
	defer func() { require.NoError(t, loader.Close(context.Background())) }()
	m, err = loader.Load(t.Context(), filepath.Join(modules, "puppet.wasm"), policy.Limits{})
	require.NoError(t, err)
	mw = configure(t, m, do("n"))
	ctx, reservation, err := loader.Reserve(t.Context(), []Placed{{Middleware: mw}}, 1)
	require.NoError(t, err)
	opened, err := mw.Open(ctx, "guard", "run")
	require.NoError(t, err)
	s := opened.(*session)
	var workers []*worker
	for range planned + spare {
		w, err := s.acquire(ctx, &invoke.Invocation{Limits: &m.limits})
		require.NoError(t, err)
		workers = append(workers, w)
	}
	_, err = s.acquire(ctx, &invoke.Invocation{Limits: &m.limits})
	var room *sandbox.NoRoomError
	require.ErrorAs(t, err, &room, "all memory is given out")
	s.release(workers[planned], false)
	_, err = s.acquire(ctx, &invoke.Invocation{Limits: &m.limits})
	require.NoError(t, err, "what was taken was given back")
	s.Close()
	reservation.Release()
}

// TestAnswerBeforeHostCall checks that arguments of a later host call do not overwrite the answer.
func TestAnswerBeforeHostCall(t *testing.T) {
	t.Parallel()
	const answer, key, value = `{"instruction":"first"}`, "key", `"later, and longer than the answer is"`
	i32 := wasm.I32
	at := func(offset uint64, text string) wasm.Data {
		return wasm.Data{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: offset}, Init: []byte(text)}
	}
	guest := wasm.Module{
		Types: []wasm.FuncType{
			{Params: []wasm.ValueType{i32, i32}},
			{Params: []wasm.ValueType{i32, i32, i32, i32, wasm.I64}, Results: []wasm.ValueType{i32}},
			{Params: []wasm.ValueType{i32}, Results: []wasm.ValueType{i32}},
		},
		Imports: []wasm.Import{
			{Module: contract.ImportModule, Name: "write", Kind: wasm.ExternalFunction, Type: 0},
			{Module: contract.ImportModule, Name: "local_set", Kind: wasm.ExternalFunction, Type: 1},
		},
		Functions: []uint32{2},
		Memories:  []wasm.Memory{{Size: wasm.Range{Min: 1}}},
		Exports: []wasm.Export{
			{Name: "memory", Kind: wasm.ExternalMemory},
			{Name: "before_agent", Kind: wasm.ExternalFunction, Index: 2},
		},
		Data: []wasm.Data{at(0, answer), at(32, key), at(40, value)},
		Code: []wasm.Code{{Body: []byte{
			0x41, 0, 0x41, byte(len(answer)), 0x10, 0, // write
			// local_set with version -1, which means any version
			0x41, 32, 0x41, byte(len(key)), 0x41, 40, 0x41, byte(len(value)), 0x42, 0x7f, 0x10, 1, 0x1a,
			0x41, 0, 0x0b,
		}}},
	}
	m, err := loadBytes(t, guest.Encode(), policy.Limits{})
	require.NoError(t, err)
	r := open(t, configure(t, m, "{}"))
	for range 3 {
		start, err := r.beforeAgent(t)
		require.NoError(t, err)
		require.Equal(t, "first", start.Instruction)
	}
}
