package sandbox

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/sandbox/compile"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Limits of a profile, so that all its stacks take at most 160 MB, whatever the modules call. Calls
// beyond them are not counted, and their fuel counts for their caller.
const (
	maxProfileDepth = 200
	maxProfileNodes = 50_000
)

// A Profile collects how much fuel each function of guests uses, by call stack; see
// [Options.Profile]. The zero value is ready to use. It is safe for concurrent use.
//
// It counts instead of sampling: the same calls have the same profile on every machine, and
// its total is the fuel in the reports of the calls. The fuel of imports counts for the
// function that calls them.
type Profile struct {
	mu    sync.Mutex
	roots map[profileRoot]*profileNode // guarded by mu
	nodes int                          // guarded by mu
}

// A profileRoot is the bottom of call stacks: an export of a module.
type profileRoot struct {
	module, export string
	names          *compile.Names
}

// A profileNode is a function with one call stack.
type profileNode struct {
	calls, fuel int64
	callees     map[uint32]*profileNode // the functions that this one called, by their index
}

// A ProfileSample is the cost of a function with one call stack.
type ProfileSample struct {
	Module string   // the name that it was loaded with
	Export string   // the export that the host called
	Stack  []string // the function, its caller, and so on
	Calls  int64
	Fuel   int64 // fuel used by the function, without that of the functions that it called
}

// Reset clears the profile.
func (p *Profile) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots, p.nodes = nil, 0
}

// Samples returns the collected samples, in descending order of fuel.
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

// samples appends the samples of the direct and indirect callees of n to a slice, and returns the
// slice. callers is the call stack of n, innermost first; it is empty if n is a root.
func (n *profileNode) samples(all []ProfileSample, root profileRoot, callers []string) []ProfileSample {
	for function, called := range n.callees {
		stack := append([]string{root.names.Function(function)}, callers...)
		all = append(all, ProfileSample{root.module, root.export, stack, called.calls, called.fuel})
		all = called.samples(all, root, stack)
	}
	return all
}

// node counts a call of a function by the innermost running function of in, and returns the node of
// the called function. If a new node would exceed the profile's limits, it counts nothing and
// returns the caller's node. The outermost function always gets a node.
func (p *Profile) node(in *Instance, function uint32) *profileNode {
	var caller *profileNode
	if n := len(in.profiled); n > 0 {
		caller = in.profiled[n-1].node
	} else {
		root := profileRoot{in.image.name, in.export, in.image.code.Names}
		if caller = p.roots[root]; caller == nil {
			caller = &profileNode{}
			if p.roots == nil {
				p.roots = map[profileRoot]*profileNode{}
			}
			p.roots[root] = caller
		}
	}
	n := caller.callees[function]
	if n == nil {
		if len(in.profiled) > 0 && (len(in.profiled) >= maxProfileDepth || p.nodes >= maxProfileNodes) {
			return caller
		}
		n = &profileNode{}
		p.nodes++
		if caller.callees == nil {
			caller.callees = map[uint32]*profileNode{}
		}
		caller.callees[function] = n
	}
	n.calls++
	return n
}

// A profileFrame is a running function of a guest.
type profileFrame struct {
	node    *profileNode
	began   int64 // fuel that the call had used when the function started
	callees int64 // fuel used by the function's callees so far
}

// enter records that a function of in starts.
func (p *Profile) enter(in *Instance, function uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.profiled = append(in.profiled, profileFrame{node: p.node(in, function), began: in.usedNow()})
}

// endCall records the end of the innermost function. used is the fuel that the call has used by
// then.
func (p *Profile) endCall(in *Instance, used int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(in.profiled) - 1
	f := in.profiled[last]
	in.profiled = in.profiled[:last]
	f.node.fuel += used - f.began - f.callees
	if last > 0 {
		in.profiled[last-1].callees += used - f.began
	}
}

// finish records the end of the functions that were still running when the call was aborted.
func (p *Profile) finish(in *Instance) {
	for len(in.profiled) > 0 {
		p.endCall(in, int64(in.report.Fuel))
	}
}

// usedNow returns the fuel that the running call has used so far.
func (in *Instance) usedNow() int64 { return in.meter.used(int64(in.core.fuel.Get())) }

// listeners is a factory of the listeners to which wazero reports the start and end of each
// function.
type listeners struct {
	p     *Profile
	facts *compile.Facts
}

// NewFunctionListener returns a listener for a function of the original module, and nil for imports
// and for functions that metering added.
func (l listeners) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	if _, _, imported := def.Import(); imported || def.ModuleName() == wasm.ReservedModule {
		return nil
	}
	function, ok := l.facts.Original(def.Index())
	if !ok {
		return nil
	}
	return &listener{l.p, function}
}

type listener struct {
	p        *Profile
	function uint32
}

// Before implements [experimental.FunctionListener].
func (l *listener) Before(
	ctx context.Context,
	_ api.Module,
	_ api.FunctionDefinition,
	_ []uint64,
	_ experimental.StackIterator,
) {
	if in := profiledIn(ctx); in != nil {
		l.p.enter(in, l.function)
	}
}

// After implements [experimental.FunctionListener].
func (l *listener) After(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64) {
	if in := profiledIn(ctx); in != nil {
		l.p.endCall(in, in.usedNow())
	}
}

// Abort implements [experimental.FunctionListener]. It does nothing, see finish.
func (*listener) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// profiledIn returns the running instance, or nil in a start function, which has no counters
// yet.
func profiledIn(ctx context.Context) *Instance {
	in := ctx.Value(instanceKey{}).(*Instance)
	if in.core.fuel == nil {
		return nil
	}
	return in
}
