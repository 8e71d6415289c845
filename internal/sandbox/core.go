package sandbox

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// core is an instance of wazero's with its memory. It knows nothing of whom it
// serves, so that a pool can hand it from one Instance to the next.
type core struct {
	code      *code
	module    api.Module
	memory    api.Memory
	linear    memory
	globals   []api.MutableGlobal // what a snapshot keeps
	fuel      api.MutableGlobal   // metering's counters; nil while the start function runs
	depth     api.MutableGlobal
	functions map[string]api.Function
	state     *state // that it was made from and can be reset to, or nil
	born      time.Time
	uses      int // how many instances it served that are closed
}

// instantiate makes c an instance, from s if there is one and from the module's
// data otherwise. The module's start function runs under ctx. The caller's use
// of s becomes that of c.
func (c *core) instantiate(ctx context.Context, s *state, im *Image) (err error) {
	limit := uint64(im.limits.MemoryBytes)
	c.state, c.born = s, time.Now()
	if s != nil {
		c.linear.pages, err = s.pages.open(s.pages.size(), limit)
	} else {
		c.linear.pages, err = c.code.freshPages(limit, im.sandbox.portable)
	}
	if err != nil {
		return err
	}
	ctx = experimental.WithMemoryAllocator(ctx, &c.linear)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if c.module, err = c.code.runtime.InstantiateModule(ctx, c.code.compiled, config); err != nil {
		return err
	}
	c.memory = c.module.Memory()
	if err := c.findGlobals(); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	missing := uint32((s.pages.size() - uint64(c.memory.Size())) / pageBytes)
	if _, ok := c.memory.Grow(missing); !ok {
		return fmt.Errorf("sandbox: the image of %d bytes does not fit", s.pages.size())
	}
	s.restoreGlobals(c)
	return nil
}

// findGlobals looks up what metering exported.
func (c *core) findGlobals() error {
	names := append([]string{wasm.FuelExport, wasm.DepthExport}, c.code.globals...)
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

// freshPages are what the memory of a module is before anything ran: its data.
func (c *code) freshPages(limit uint64, portable bool) (pages, error) {
	p := newPages(limit, portable)
	b := p.resize(c.shape.memoryMin)
	if b == nil {
		p.free()
		return nil, fmt.Errorf("sandbox: there is no memory for %s", bytesText(int64(c.shape.memoryMin)))
	}
	c.data.write(b)
	return p, nil
}

// reset puts c back to the state it was made from. It reports false if that
// cannot be done, and otherwise how many bytes c keeps for itself.
func (c *core) reset() (own int64, ok bool) {
	if c.state == nil || c.memory == nil || uint64(c.memory.Size()) != c.state.pages.size() {
		return 0, false // it never began, or its memory grew, which cannot shrink again
	}
	own = c.linear.pages.reset()
	c.state.restoreGlobals(c)
	return own + c.keepStacks(), true
}

// keptStack is how large a stack may be that an instance keeps when it is reset.
const keptStack = 128 << 10

// keepStacks drops the functions whose stacks have become large, and returns how many
// bytes the others take. A stack begins small and grows by being copied: for most
// guests that would be all that a new one comes to, in each run again.
func (c *core) keepStacks() (own int64) {
	for name, f := range c.functions {
		size, ok := stackOf(f)
		if !ok || size > keptStack {
			delete(c.functions, name)
			continue
		}
		own += size
	}
	return own
}

// stackOf is how many bytes the stack of a function takes; false if that cannot be
// known. wazero does not tell, so its field is looked at.
func stackOf(f api.Function) (int64, bool) {
	engine := reflect.ValueOf(f) // of kind Invalid for nil
	if engine.Kind() != reflect.Pointer || engine.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	stack := engine.Elem().FieldByName("stack")
	if stack.Kind() != reflect.Slice {
		return 0, false
	}
	return int64(stack.Cap()) * int64(stack.Type().Elem().Size()), true
}

// function looks up an exported function.
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

// free gives everything back. Nothing of c may be running.
func (c *core) free() {
	if c.module != nil {
		_ = c.module.Close(context.Background()) // only file systems of guests could fail
	}
	if c.linear.pages != nil {
		c.linear.pages.free()
	}
	if c.state != nil {
		c.state.release()
	}
	*c = core{} // the garbage collector must not see what points to pages that are gone
}
