package sandbox

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/api"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		os.Exit(child.Main(child.Handler{Name: "where", Do: whereJob})) //nolint:forbidigo // this is a main
	}
	goleak.VerifyTestMain(m)
}

//go:embed testdata/guest.wasm
var guestWasm []byte

const i32 = api.ValueTypeI32

// testValue is the Value of the tests' instances. It implements their imports.
type testValue struct {
	call func(ctx context.Context, g *Guest, n uint32) uint32
	wait func(ctx context.Context, n uint32) uint32
}

func testSurface() Surface {
	one, two := []api.ValueType{i32}, []api.ValueType{i32, i32}
	return Surface{
		Name: "ABI v1",
		Imports: []Import{
			{
				Module:  "test_v1",
				Name:    "call",
				Params:  one,
				Results: one,
				Func: func(ctx context.Context, g *Guest, stack []uint64) {
					stack[0] = uint64(g.Value().(*testValue).call(ctx, g, uint32(stack[0])))
				},
			},
			{
				Module:  "test_v1",
				Name:    "wait",
				Params:  one,
				Results: one,
				Waits:   true,
				Func: func(ctx context.Context, g *Guest, stack []uint64) {
					stack[0] = uint64(g.Value().(*testValue).wait(ctx, uint32(stack[0])))
				},
			},
			{
				Module:  "test_v1",
				Name:    "read",
				Params:  two,
				Results: one,
				Func: func(_ context.Context, g *Guest, stack []uint64) {
					stack[0] = uint64(len(g.Read(uint32(stack[0]), uint32(stack[1]))))
				},
			},
		},
		Exports: func([]verify.ImportInfo) (verify.CheckExport, error) {
			return func(name string) (verify.FuncType, bool) {
				return verify.FuncType{Params: one, Results: one}, name == "hook"
			}, nil
		},
	}
}

func newSandbox(t testing.TB, opts Options) *Sandbox {
	t.Helper()
	if opts.Surface.Imports == nil {
		opts.Surface = testSurface()
	}
	s, err := New(t.Context(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func load(t testing.TB, s *Sandbox, wasm []byte, l Limits) *Image {
	t.Helper()
	im, err := s.Load(t.Context(), "guest.wasm", wasm, l)
	require.NoError(t, err)
	t.Cleanup(im.Close)
	return im
}

func instantiate(t testing.TB, im *Image, cfg InstanceConfig) *Instance {
	t.Helper()
	in, err := im.Instantiate(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(in.Close)
	return in
}

// guest returns an instance of guest.wat.
func guest(t testing.TB, cfg InstanceConfig, l Limits) *Instance {
	t.Helper()
	return instantiate(t, load(t, newSandbox(t, Options{}), guestWasm, l), cfg)
}

func call(t testing.TB, in *Instance, export string, args ...uint64) []uint64 {
	t.Helper()
	results, err := in.Call(t.Context(), export, args...)
	require.NoError(t, err)
	return slices.Clone(results) // the next call has them in the same place
}

func TestCall(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	require.Equal(t, []uint64{api.EncodeI64(39)}, call(t, in, "add", api.EncodeI32(-3), 42))
	require.Equal(t, []uint64{1, 2}, call(t, in, "two"))
	require.Equal(t, []uint64{101}, call(t, in, "count"), "_initialize has run")
	require.Equal(t, []uint64{102}, call(t, in, "count"), "the memory lasts")
}
