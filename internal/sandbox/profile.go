package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// What a profile keeps of modules that call ever deeper, and ever another way, so that all
// its stacks together take 160 MB at most: what goes beyond is counted where it was called.
const (
	maxProfileDepth = 200
	maxProfileNodes = 50_000
)

// A Profile collects how much fuel each function of guests uses, and on which way it was
// called; see [Options.Profile]. The zero value is ready. It is safe for concurrent use.
//
// It counts, and does not look from time to time: the same calls give the same profile on
// every machine, and all its fuel together is what the reports of the calls tell. Fuel
// that imports use is that of the function that calls them.
type Profile struct {
	mu    sync.Mutex
	roots map[profileRoot]*profileNode // guarded by mu
	nodes int                          // guarded by mu
}

// A profileRoot is where calls begin.
type profileRoot struct {
	module, export string
	names          *names
}

// A profileNode is a function that was called on one way.
type profileNode struct {
	calls, fuel int64
	inner       map[uint32]*profileNode // what it called
}

// A ProfileSample is what a function took that was called on one way.
type ProfileSample struct {
	Module string   // its name, as it was loaded
	Export string   // that the host called
	Stack  []string // the function, what called it, and so on
	Calls  int64
	Fuel   int64 // without that of the functions which it called
}

// Reset forgets what was collected.
func (p *Profile) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots, p.nodes = nil, 0
}

// Samples is what was collected, what took most first.
func (p *Profile) Samples() []ProfileSample {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []ProfileSample
	for root, n := range p.roots {
		all = n.samples(all, root, nil)
	}
	slices.SortFunc(all, func(a, b ProfileSample) int {
		return cmp.Or(cmp.Compare(b.Fuel, a.Fuel), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Module, b.Module),
			cmp.Compare(a.Export, b.Export), slices.Compare(a.Stack, b.Stack))
	})
	return all
}

// samples appends those of all that n called. callers begins with n.
func (n *profileNode) samples(all []ProfileSample, root profileRoot, callers []string) []ProfileSample {
	for function, called := range n.inner {
		name := root.names.of(function)
		if name == "" {
			name = fmt.Sprintf("$%d", function)
		}
		stack := append([]string{name}, callers...)
		all = append(all, ProfileSample{root.module, root.export, stack, called.calls, called.fuel})
		all = called.samples(all, root, stack)
	}
	return all
}

// node is where a function counts that in calls now.
func (p *Profile) node(in *Instance, function uint32) *profileNode {
	var caller *profileNode
	if n := len(in.profiled); n > 0 {
		caller = in.profiled[n-1].node
	} else {
		root := profileRoot{in.image.name, in.export, in.image.code.names}
		if caller = p.roots[root]; caller == nil {
			caller = &profileNode{}
			if p.roots == nil {
				p.roots = map[profileRoot]*profileNode{}
			}
			p.roots[root] = caller
		}
	}
	n := caller.inner[function]
	if n == nil {
		if len(in.profiled) > 0 && (len(in.profiled) >= maxProfileDepth || p.nodes >= maxProfileNodes) {
			return caller
		}
		n = &profileNode{}
		p.nodes++
		if caller.inner == nil {
			caller.inner = map[uint32]*profileNode{}
		}
		caller.inner[function] = n
	}
	n.calls++
	return n
}

// A profileFrame is a function of a guest that is being called.
type profileFrame struct {
	node  *profileNode
	began int64 // what the call had used then
	inner int64 // used by what it called
}

// enter is told when a function of in begins.
func (p *Profile) enter(in *Instance, function uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.profiled = append(in.profiled, profileFrame{node: p.node(in, function), began: in.usedNow()})
}

// leave is told when the function ends that began last, at that much fuel.
func (p *Profile) leave(in *Instance, used int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(in.profiled) - 1
	f := in.profiled[last]
	in.profiled = in.profiled[:last]
	f.node.fuel += used - f.began - f.inner
	if last > 0 {
		in.profiled[last-1].inner += used - f.began
	}
}

// finish ends the functions that did not return, since the call was ended in them.
func (p *Profile) finish(in *Instance) {
	for len(in.profiled) > 0 {
		p.leave(in, int64(in.report.Fuel))
	}
}

// usedNow is what the call that runs has used so far.
func (in *Instance) usedNow() int64 { return in.tank.used(int64(in.core.fuel.Get())) }

// listen has wazero tell the profile of each function of c that begins or ends.
func (p *Profile) listen(ctx context.Context, c *code) context.Context {
	if p == nil {
		return ctx
	}
	return experimental.WithFunctionListenerFactory(ctx, listeners{p, c})
}

type listeners struct {
	p *Profile
	c *code
}

// NewFunctionListener listens to the functions that the module came with.
func (l listeners) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	if _, _, imported := def.Import(); imported || def.ModuleName() == wasm.ReservedModule {
		return nil
	}
	function, ok := l.c.original(def.Index())
	if !ok {
		return nil
	}
	return &listener{l.p, function}
}

type listener struct {
	p        *Profile
	function uint32
}

// Before is called when the function begins.
func (l *listener) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	if in := profiledIn(ctx); in != nil {
		l.p.enter(in, l.function)
	}
}

// After is called when it returns.
func (l *listener) After(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64) {
	if in := profiledIn(ctx); in != nil {
		l.p.leave(in, in.usedNow())
	}
}

// Abort is called when it does not, for one or all that were called: see finish.
func (*listener) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// profiledIn is whose function runs; nil in a start function, which has no counters yet.
func profiledIn(ctx context.Context) *Instance {
	in := ctx.Value(instanceKey{}).(*Instance)
	if in.core.fuel == nil {
		return nil
	}
	return in
}
