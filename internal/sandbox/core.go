package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// core is an instance of wazero with its memory. It has no reference to the Instance that it
// serves, so that a pool can pass it from one Instance to the next.
type core struct {
	code      *code
	module    api.Module
	memory    api.Memory
	linear    image.Memory
	globals   []api.MutableGlobal // the globals that a snapshot contains
	fuel      api.MutableGlobal   // remaining fuel; nil while the start function runs
	depth     api.MutableGlobal   // remaining bytes of stack; nil while the start function runs
	functions map[string]api.Function
	created   time.Time
	uses      int // number of closed instances that the core served
}

// instantiate instantiates the module in c. Its memory starts from the snapshot s, or from the
// module's data if s is nil. The module's start function runs under ctx. c takes over the caller's
// reference to s.
func (c *core) instantiate(ctx context.Context, s *image.Snapshot, im *Image) (err error) {
	limit := uint64(im.limits.MemoryBytes)
	c.created = time.Now()
	if s != nil {
		err = c.linear.Open(s, limit)
	} else {
		err = c.openFresh(limit, im.sandbox.portable)
	}
	if err != nil {
		return err
	}
	ctx = experimental.WithMemoryAllocator(ctx, &c.linear)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if c.module, err = c.code.Runtime.InstantiateModule(ctx, c.code.Compiled, config); err != nil {
		return err
	}
	c.memory = c.module.Memory()
	if err := c.findGlobals(); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	missing := uint32((s.Size() - uint64(c.memory.Size())) / pageBytes)
	if _, ok := c.memory.Grow(missing); !ok {
		return fmt.Errorf("sandbox: the image of %d bytes does not fit", s.Size())
	}
	c.restoreGlobals(s)
	return nil
}

// openFresh starts the memory, which can grow to limit bytes, with the module's data. If portable
// is set, the memory is on Go's heap on every system.
func (c *core) openFresh(limit uint64, portable bool) error {
	size := c.code.Outline.MemoryMin
	b := c.linear.OpenEmpty(size, limit, portable)
	if b == nil {
		return fmt.Errorf("sandbox: there is no memory for %s", text.Bytes(int64(size)))
	}
	c.code.Data.Write(b)
	return nil
}

// findGlobals looks up the globals that metering exports.
func (c *core) findGlobals() error {
	names := append([]string{wasm.FuelExport, wasm.DepthExport}, c.code.Globals...)
	all := make([]api.MutableGlobal, len(names))
	for i, name := range names {
		g, ok := c.module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("sandbox: metering did not export %s", name)
		}
		all[i] = g
	}
	c.fuel, c.depth, c.globals = all[0], all[1], all[2:]
	return nil
}

// capture takes a snapshot of an instance that is not running. The error is an *ImageRoomError if the snapshot
// exceeds the image budget. The caller gets the only reference. The snapshot may be stored as a difference from near,
// which may be nil.
func (c *core) capture(ctx context.Context, box *Sandbox, near *image.Snapshot) (*image.Snapshot, error) {
	memory, _ := c.memory.Read(0, c.memory.Size())
	s, err := c.linear.Capture(memory, near, box.portable)
	if err != nil {
		return nil, err
	}
	name, n, room := tenantOf(ctx).Name, s.Bytes(), &box.imageBudget
	if !room.try(name, n) {
		s.Release()
		return nil, &ImageRoomError{Bytes: n, All: room.total}
	}
	s.OnFree(func() { room.release(name, n) })
	s.Globals = make([]uint64, len(c.globals))
	for i, g := range c.globals {
		s.Globals[i] = g.Get()
	}
	return s, nil
}

// restoreGlobals sets the globals to those of s.
func (c *core) restoreGlobals(s *image.Snapshot) {
	for i, g := range c.globals {
		g.Set(s.Globals[i])
	}
}

// reset restores c to its snapshot, and returns the number of bytes that c does not share with the
// snapshot. It returns false if c cannot be reset.
func (c *core) reset() (own int64, ok bool) {
	s := c.linear.Snapshot()
	if s == nil || c.memory == nil || uint64(c.memory.Size()) != s.Size() {
		return 0, false // the instance never started, or its memory grew and cannot shrink again
	}
	own = c.linear.Reset()
	c.restoreGlobals(s)
	return own + c.trimStacks(), true
}

// maxIdleStack is the size in bytes of the largest stack that an idle instance keeps.
const maxIdleStack = 128 << 10

// trimStacks drops the functions with large stacks, and returns the size of the remaining stacks in bytes. Small
// stacks are kept, because a new stack starts small and grows by being copied. For most guests, that would be most of
// the cost of an instance in each run.
func (c *core) trimStacks() (own int64) {
	for name, f := range c.functions {
		size, ok := engine.StackBytes(f)
		if !ok || size > maxIdleStack {
			delete(c.functions, name)
			continue
		}
		own += size
	}
	return own
}

// function returns an exported function. It looks up each function once, because the result keeps
// its stack between calls.
func (c *core) function(name string) api.Function {
	f, ok := c.functions[name]
	if !ok {
		f = c.module.ExportedFunction(name)
		if c.functions == nil {
			c.functions = map[string]api.Function{}
		}
		c.functions[name] = f
	}
	return f
}

// close frees everything that c holds. No function of c may be running.
func (c *core) close() {
	if c.module != nil {
		_ = c.module.Close(context.Background()) // only file systems of guests could fail
	}
	c.linear.Close()
	*c = core{} // the garbage collector must not see pointers to unmapped pages
}
