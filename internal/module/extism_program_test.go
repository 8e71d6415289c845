package module

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

const plugins = "../../testdata/extism"

func readPlugin(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(plugins, name))
	require.NoError(t, err)
	return b
}

// The instructions of puppet, a plug-in whose input is a program that it executes.
const (
	opEnd = iota
	opConst
	opAdd
	opAlloc
	opFree
	opLength
	opLengthUnsafe
	opLoad8
	opLoad64
	opStore8
	opStore64
	opInputOffset
	opInputLength
	opInputLoad8
	opInputLoad64
	opOutputSet
	opErrorSet
	opErrorGet
	opConfigGet
	opVarGet
	opVarSet
	opLogTrace
	opLogDebug
	opLogInfo
	opLogWarn
	opLogError
	opLogLevel
	opHTTPRequest
	opHTTPStatus
	opHTTPHeaders
	opMemoryBytes
	opReset
	opInputSet
	opOutputOffset
	opOutputLength
	opTrap
	opBack
	opGrow
	opRecurse
)

// A program is a sequence of instructions for puppet. All registers are 0 at its start.
type program []byte

// do adds an instruction: d = op(a, b, n).
func (p *program) do(op, a, b, d byte, n ...uint64) {
	*p = append(*p, op, a, b, d)
	*p = binary.LittleEndian.AppendUint64(*p, append(n, 0)[0])
}

// Registers that the helpers use.
const (
	scratch  = 30
	scratch2 = 31
)

// block adds instructions that allocate a block, fill it with text, and put its offset into
// register d.
func (p *program) block(d byte, text string) {
	p.do(opConst, 0, 0, scratch, uint64(len(text)))
	p.do(opAlloc, scratch, 0, d)
	for i := 0; i < len(text); i++ {
		p.do(opConst, 0, 0, scratch, uint64(text[i]))
		p.do(opStore8, d, scratch, 0, uint64(i))
	}
}

// show adds instructions that output the values of registers and end the program.
func (p *program) show(registers ...byte) {
	p.do(opConst, 0, 0, scratch2, uint64(8*len(registers)))
	p.do(opAlloc, scratch2, 0, scratch)
	for i, r := range registers {
		p.do(opStore64, scratch, r, 0, uint64(8*i))
	}
	p.do(opOutputSet, scratch, scratch2, 0)
	p.do(opConst, 0, 0, scratch)
	p.do(opEnd, scratch, 0, 0)
}

func assemble(fn func(p *program)) string {
	var p program
	fn(&p)
	p.do(opConst, 0, 0, scratch)
	p.do(opEnd, scratch, 0, 0)
	return string(p)
}

// TestExtismPrograms checks that each function of Extism behaves the same in this host and in
// Extism's Go SDK.
func TestExtismPrograms(t *testing.T) {
	t.Parallel()
	name := func(p *program, d byte, text string) { p.block(d, text) }
	var calls []pluginCall
	for _, fn := range []func(p *program){
		func(p *program) {}, // no output
		func(p *program) { // an empty block has offset 0
			p.do(opAlloc, 0, 0, 1)
			p.do(opLength, 1, 0, 2)
			p.do(opLength, 0, 0, 3)
			p.do(opFree, 0, 0, 0)
			p.show(1, 2, 3)
		},
		func(p *program) { // lengths
			p.block(1, "hello")
			p.do(opLength, 1, 0, 2)
			p.do(opLengthUnsafe, 1, 0, 3)
			p.do(opFree, 1, 0, 0)
			p.do(opLength, 1, 0, 4)
			p.do(opFree, 1, 0, 0) // twice
			p.block(5, "again")
			p.do(opLength, 5, 0, 6)
			p.show(2, 3, 4, 6)
		},
		func(p *program) { // reads and writes
			p.block(1, "0123456789abcdef")
			p.do(opConst, 0, 0, 2, 0x1122334455667788)
			p.do(opStore64, 1, 2, 0, 3)
			p.do(opConst, 0, 0, 2, 0xfff)
			p.do(opStore8, 1, 2, 0, 0)
			p.do(opLoad64, 1, 0, 3)
			p.do(opLoad64, 1, 0, 4, 8)
			p.do(opLoad8, 1, 0, 5, 15)
			p.show(3, 4, 5)
		},
		func(p *program) { // the input is a block
			p.do(opInputOffset, 0, 0, 1)
			p.do(opLength, 1, 0, 2)
			p.do(opInputLength, 0, 0, 3)
			p.do(opLoad64, 1, 0, 4)
			p.do(opInputLoad64, 0, 0, 5)
			p.do(opInputLoad8, 3, 0, 6) // beyond the end
			p.do(opConst, 0, 0, 7, 0x77)
			p.do(opStore8, 1, 7, 0, 1) // the input is writable
			p.do(opInputLoad64, 0, 0, 8)
			p.do(opLoad64, 1, 0, 9)
			p.show(2, 3, 4, 5, 6, 8, 9)
		},
		func(p *program) { // another input
			p.block(1, "0123456789")
			p.do(opConst, 0, 0, 2, 10)
			p.do(opInputSet, 1, 2, 0)
			p.do(opInputLength, 0, 0, 3)
			p.do(opInputLoad8, 0, 0, 4) // input_load_u64 still reads the old input
			p.show(3, 4)
		},
		func(p *program) { // the output is part of a block
			p.block(1, "0123456789")
			p.do(opConst, 0, 0, 2, 3)
			p.do(opAdd, 1, 0, 3, 4)
			p.do(opOutputSet, 3, 2, 0)
			p.do(opOutputLength, 0, 0, 4)
			p.do(opConst, 0, 0, 5, 'x')
			p.do(opStore8, 1, 5, 0, 4) // after output_set
		},
		func(p *program) { // an empty output replaces another
			p.block(1, "0123456789")
			p.do(opConst, 0, 0, 2, 3)
			p.do(opOutputSet, 1, 2, 0)
			p.block(1, "012345")
			p.do(opOutputSet, 1, 2, 0)
		},
		func(p *program) { // an error with the result 0
			p.block(1, "no")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opErrorGet, 0, 0, 2)
			p.do(opLength, 2, 0, 3)
		},
		func(p *program) { // an error with the result 1
			p.block(1, "not äny")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opConst, 0, 0, 2, 1)
			p.do(opEnd, 2, 0, 0)
		},
		func(p *program) { // an error is cleared
			p.block(1, "no")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opErrorSet, 0, 0, 0)
			p.do(opErrorGet, 0, 0, 2)
			p.show(2)
		},
		func(p *program) { // configuration
			name(p, 1, "color")
			p.do(opConfigGet, 1, 0, 2)
			p.do(opLength, 2, 0, 3)
			p.do(opLoad8, 2, 0, 4)
			p.do(opLength, 1, 0, 5) // the block of the name remains
			name(p, 6, "empty")
			p.do(opConfigGet, 6, 0, 7)
			name(p, 8, "missing")
			p.do(opConfigGet, 8, 0, 9)
			p.do(opConfigGet, 0, 0, 10) // empty name
			p.show(3, 4, 5, 7, 9, 10)
		},
		func(p *program) { // no variables yet
			name(p, 1, "a")
			p.do(opVarGet, 1, 0, 2)
			p.do(opLength, 1, 0, 3) // the block of the name is freed
			p.show(2, 3)
		},
		func(p *program) { // set a variable
			name(p, 1, "a")
			p.block(2, "\x00\xff value")
			p.do(opVarSet, 1, 2, 0)
			p.do(opLength, 1, 0, 3) // both blocks are freed
			p.do(opLength, 2, 0, 4)
			name(p, 1, "a")
			p.do(opVarGet, 1, 0, 5)
			p.do(opLoad64, 5, 0, 6)
			p.do(opLength, 5, 0, 7)
			name(p, 1, "b")
			p.block(2, "text, \"quoted\" <ä>")
			p.do(opVarSet, 1, 2, 0)
			p.show(3, 4, 6, 7)
		},
		func(p *program) { // the variable exists in the next call, and is deleted
			name(p, 1, "a")
			p.do(opVarGet, 1, 0, 2)
			p.do(opLoad64, 2, 0, 3)
			name(p, 1, "a")
			p.do(opVarSet, 1, 0, 0)
			name(p, 1, "a")
			p.do(opVarGet, 1, 0, 4)
			p.block(5, "of no name")
			p.do(opVarSet, 0, 5, 0)
			p.show(3, 4)
		},
		func(p *program) { // logs
			for op := byte(opLogTrace); op <= opLogError; op++ {
				p.block(1, fmt.Sprintf("line %d", op))
				p.do(op, 1, 0, 0)
				p.do(opLength, 1, 0, 2) // the block is freed
				p.do(opAdd, 2, 3, 3)
			}
			p.do(opLogInfo, 0, 0, 0) // empty text
			p.do(opLogLevel, 0, 0, 4)
			p.show(3, 4)
		},
		func(p *program) { // before any HTTP request
			p.do(opHTTPStatus, 0, 0, 1)
			p.do(opHTTPHeaders, 0, 0, 2)
			p.show(1, 2)
		},
		func(p *program) { // reset frees everything
			p.block(1, "hello")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opReset, 0, 0, 0)
			p.do(opInputLength, 0, 0, 2)
			p.do(opErrorGet, 0, 0, 3)
			p.do(opOutputLength, 0, 0, 4)
			p.show(2, 3, 4)
		},
		func(p *program) { // a trap after error_set
			p.block(1, "out of order")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opTrap, 0, 0, 0)
		},
	} {
		calls = append(calls, pluginCall{"run", assemble(fn)})
	}
	config := map[string]string{"color": "blue", "empty": ""}
	wasm := readPlugin(t, "puppet.wasm")
	want, got := callSDK(t, wasm, config, calls), callHere(t, newLoader(t), wasm, config, calls)
	require.Len(t, want, len(calls))
	for i := range want {
		require.Equal(t, want[i], got[i], "program %d", i)
	}
}

// TestExtismRandomPrograms checks that random programs that use memory correctly behave the same in
// this host and in Extism's Go SDK.
func TestExtismRandomPrograms(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	var calls []pluginCall
	for range 40 {
		calls = append(calls, pluginCall{"run", assemble(func(p *program) { randomProgram(random, p) })})
	}
	wasm := readPlugin(t, "puppet.wasm")
	want, got := callSDK(t, wasm, nil, calls), callHere(t, newLoader(t), wasm, nil, calls)
	require.Len(t, want, len(calls), "seed %d", seed)
	for i := range want {
		require.Equal(t, want[i], got[i], "program %d, seed %d:\n%s", i, seed, hex.Dump([]byte(calls[i].input)))
	}
}

func randomProgram(random *rand.Rand, p *program) {
	lengths := map[byte]int{} // lengths of the blocks in registers 1 to 9
	shown := []byte{}
	observe := func(fn func(d byte)) { // results go to registers 10 to 29
		if d := byte(10 + len(shown)); d < scratch {
			fn(d)
			shown = append(shown, d)
		}
	}
	for range 60 {
		r := byte(1 + random.IntN(9))
		n := lengths[r]
		switch k := random.IntN(8); {
		case n == 0:
			lengths[r] = 1 + random.IntN(40)
			p.block(r, strings.Repeat(string('a'+rune(random.IntN(26))), lengths[r]))
		case k == 0:
			p.do(opFree, r, 0, 0)
			delete(lengths, r)
		case k == 1:
			p.do(opConst, 0, 0, scratch, random.Uint64())
			p.do(opStore8, r, scratch, 0, uint64(random.IntN(n)))
		case k == 2 && n >= 8:
			p.do(opConst, 0, 0, scratch, random.Uint64())
			p.do(opStore64, r, scratch, 0, uint64(random.IntN(n-7)))
		case k == 3 && n >= 8:
			observe(func(d byte) { p.do(opLoad64, r, 0, d, uint64(random.IntN(n-7))) })
		case k == 4:
			observe(func(d byte) { p.do(opLoad8, r, 0, d, uint64(random.IntN(n))) })
		case k == 5:
			observe(func(d byte) { p.do(opLength, r, 0, d) })
		case k == 6:
			p.do(opErrorSet, r, 0, 0)
			p.do(opErrorSet, 0, 0, 0)
		default:
			name := []string{"a", "b"}[random.IntN(2)]
			p.block(scratch2, name)
			if random.IntN(2) == 0 {
				p.do(opVarSet, scratch2, r, 0)
				delete(lengths, r)
				continue
			}
			p.do(opVarGet, scratch2, 0, r)
			observe(func(d byte) { p.do(opLength, r, 0, d) })
			p.do(opConst, 0, 0, r)
			delete(lengths, r)
		}
	}
	p.show(shown...)
}

// runProgram runs a puppet program in a hook.
func runProgram(
	t *testing.T,
	l *Loader,
	limits policy.Limits,
	grants policy.Grants,
	fn func(p *program),
) (*testRun, error) {
	t.Helper()
	m, err := l.LoadBytes(t.Context(), "puppet.wasm", readPlugin(t, "puppet.wasm"), limits)
	require.NoError(t, err)
	defer m.Close()
	mw, err := Configure(t.Context(), m, "guard",
		fmt.Appendf(nil, `{"program":%q}`, hex.EncodeToString([]byte(assemble(fn)))), grants)
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	r := open(t, mw)
	_, err = r.beforeAgent(t)
	return r, err
}

// TestExtismAttacks checks that a misbehaving plug-in is stopped with an explanation. The test
// makes no comparison with Extism's Go SDK, which crashes or hangs in these programs.
func TestExtismAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	l := newLoader(t)
	shortLimit := policy.Limits{Limits: sandbox.Limits{HookTime: 300 * time.Millisecond, Fuel: 1 << 40}}
	small := policy.Limits{InputBytes: 10_000, OutputBytes: 10_000, ReplyBytes: 10_000}
	for name, tc := range map[string]struct {
		want   string
		stage  ending.Stage
		limits policy.Limits
		attack func(p *program)
	}{
		"read nowhere":            {"load_u8: 1 bytes at offset 0x0 are in no block", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opLoad8, 0, 0, 1) }},
		"read far away":           {"load_u64: 8 bytes at offset 0xfffffffffffffff8 are in no block", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opLoad64, 0, 0, 1, ^uint64(7)) }},
		"read before a block":     {"are in no block", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opLoad8, 1, 0, 2, ^uint64(0)) }},
		"read behind a block":     {"load_u8: 1 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opLoad8, 1, 0, 2, 5) }},
		"read over its end":       {"load_u64: 8 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello, you"); p.do(opLoad64, 1, 0, 2, 3) }},
		"write nowhere":           {"store_u64: 8 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opStore64, 0, 1, 0, 64) }},
		"write where a kernel is": {"store_u8: 1 bytes at offset 0x41", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opStore8, 0, 1, 0, 65) }},
		"forge a header":          {"store_u64: 8 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opStore64, 1, 2, 0, ^uint64(11)) }},
		"write over an end":       {"store_u64: 8 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello, you"); p.do(opStore64, 1, 2, 0, 4) }},
		"read what was freed":     {"load_u8: 1 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opFree, 1, 0, 0); p.do(opLoad8, 1, 0, 2) }},
		"read the old, not the new": {"load_u8: 1 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) {
			p.block(1, "hello")
			p.do(opFree, 1, 0, 0)
			p.block(2, "hello")
			p.do(opLoad8, 1, 0, 3)
		}},
		"read after a reset": {"load_u8: 1 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) {
			p.block(1, "hello")
			p.do(opReset, 0, 0, 0)
			p.block(2, "hello")
			p.do(opLoad8, 1, 0, 2)
		}},
		"output nowhere":      {"output_set: 5 bytes at offset 0x0", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 5); p.do(opOutputSet, 0, 1, 0) }},
		"output of 2^64":      {"output_set: 18446744073709551615 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opConst, 0, 0, 2, ^uint64(0)); p.do(opOutputSet, 1, 2, 0) }},
		"output over its end": {"output_set: 6 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opConst, 0, 0, 2, 6); p.do(opOutputSet, 1, 2, 0) }},
		"input over its end":  {"input_set: 6 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "hello"); p.do(opConst, 0, 0, 2, 6); p.do(opInputSet, 1, 2, 0) }},
		"a name in the middle": {"config_get: the name: no block begins at offset", ending.StageHostCall, policy.Limits{}, func(p *program) {
			p.block(1, "hello")
			p.do(opAdd, 1, 0, 1, 1)
			p.do(opConfigGet, 1, 0, 2)
		}},
		"an error nowhere":       {"error_set: no block begins", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 7); p.do(opErrorSet, 1, 0, 0) }},
		"a log nowhere":          {"log: no block begins", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 7); p.do(opLogInfo, 1, 0, 0) }},
		"a name that is not one": {"var_set: invalid: the name is not valid UTF-8", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, "\xff"); p.block(2, "x"); p.do(opVarSet, 1, 2, 0) }},
		"a name that is long":    {"var_get: limit: a name of 300 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, strings.Repeat("x", 300)); p.do(opVarGet, 1, 0, 2) }},
		"2^64 bytes":             {"a block of 18446744073709551615 bytes", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, ^uint64(0)); p.do(opAlloc, 1, 0, 2) }},
		"2^31 bytes":             {"more than the limit block_bytes of", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 1<<31); p.do(opAlloc, 1, 0, 2) }},
		"leak of large blocks":   {"more than the limit block_bytes of", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 1<<20); p.do(opAlloc, 1, 0, 2); p.do(opBack, 0, 0, 0, 1) }},
		"leak of small blocks":   {"65537 blocks at once, more than the limit blocks of 65536", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opConst, 0, 0, 1, 1); p.do(opAlloc, 1, 0, 2); p.do(opBack, 0, 0, 0, 1) }},
		"leak of replies": {"more than the limit block_bytes of", ending.StageHostCall, policy.Limits{InputBytes: 1 << 16, OutputBytes: 1 << 16, ReplyBytes: 1 << 16}, func(p *program) {
			p.block(1, "program") // a long text
			p.do(opConfigGet, 1, 0, 2)
			p.do(opBack, 0, 0, 0, 1)
			for range 400 {
				p.do(opConst, 0, 0, 1, 1)
			}
		}},
		"alloc and free for ever": {"ran longer than", ending.StageHook, shortLimit, func(p *program) {
			p.do(opConst, 0, 0, 1, 1<<20)
			p.do(opAlloc, 1, 0, 2)
			p.do(opFree, 2, 0, 0)
			p.do(opBack, 0, 0, 0, 2)
		}},
		"read for ever":       {"ran longer than", ending.StageHook, shortLimit, func(p *program) { p.do(opInputLoad64, 0, 0, 1); p.do(opBack, 0, 0, 0, 1) }},
		"read with fuel":      {"used more than its 1000000 fuel", ending.StageHook, policy.Limits{Limits: sandbox.Limits{Fuel: 1_000_000}}, func(p *program) { p.do(opInputLoad64, 0, 0, 1); p.do(opBack, 0, 0, 0, 1) }},
		"host calls for ever": {"more than the limit host_calls of 10000", ending.StageHostCall, policy.Limits{}, func(p *program) { p.do(opLogInfo, 0, 0, 0); p.do(opBack, 0, 0, 0, 1) }},
		"a loop":              {"ran longer than", ending.StageHook, shortLimit, func(p *program) { p.do(opBack, 0, 0, 0) }},
		"recursion":           {"its calls are nested too deeply", ending.StageHook, policy.Limits{}, func(p *program) { p.do(opRecurse, 0, 0, 0) }},
		"all memory, then a trap": {"refused memory beyond 64 MiB", ending.StageHook, policy.Limits{}, func(p *program) {
			p.do(opGrow, 0, 0, 0)
			p.do(opTrap, 0, 0, 0)
		}},
		"an output that is too long": {"the answer: 20000 bytes, more than the limit output_bytes of 10000", ending.StageHostCall, small, func(p *program) {
			p.do(opConst, 0, 0, 1, 20_000)
			p.do(opAlloc, 1, 0, 2)
			p.do(opOutputSet, 2, 1, 0)
		}},
		"an argument that is too long": {"config_get: the name: 20000 bytes, more than the limit output_bytes of 10000", ending.StageHostCall, small, func(p *program) {
			p.do(opConst, 0, 0, 1, 20_000)
			p.do(opAlloc, 1, 0, 2)
			p.do(opConfigGet, 2, 0, 2)
		}},
		"an output that is no JSON": {"answer: want a JSON value", ending.StageAnswer, policy.Limits{}, func(p *program) {
			p.block(1, "hello")
			p.do(opConst, 0, 0, 2, 5)
			p.do(opOutputSet, 1, 2, 0)
		}},
		"http to nowhere": {"http_request: unavailable: http: this host sends no requests", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, `{"url":"x"}`); p.do(opHTTPRequest, 1, 0, 2) }},
		"http":            {"http_request: unavailable: http: this host sends no requests", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, `{"url":"http://169.254.169.254/"}`); p.do(opHTTPRequest, 1, 0, 2) }},
		"http, granted":   {"http_request: unavailable: http: this host sends no requests", ending.StageHostCall, policy.Limits{}, func(p *program) { p.block(1, `{"url":"https://example.com/"}`); p.do(opHTTPRequest, 1, 0, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second round reuses the memory of the first
				_, err := runProgram(t, l, tc.limits, policy.Grants{HTTP: []string{"example.com"}}, tc.attack)
				var fault *ending.FaultError
				require.ErrorAs(t, err, &fault)
				require.ErrorContains(t, fault.Cause, tc.want)
				require.Equal(t, contract.HookBeforeAgent, fault.Hook)
				require.Equal(t, tc.stage, fault.Stage)
			}
		})
	}
}
