package module

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// caller returns a module whose before_agent calls one import with args. The argument texts maps
// addresses in the module's memory to their contents.
func caller(t *testing.T, from, name string, args []int64, texts map[int]string) []byte {
	t.Helper()
	var typ wasm.FuncType
	for _, imp := range surface().Imports {
		if imp.Module == from && imp.Name == name {
			typ = wasm.FuncType{Params: wasmTypes(imp.Params), Results: wasmTypes(imp.Results)}
		}
	}
	if from == "wasi_snapshot_preview1" {
		typ = wasm.FuncType{
			Params:  []wasm.ValueType{wasm.I32, wasm.I32, wasm.I32, wasm.I32},
			Results: []wasm.ValueType{wasm.I32},
		}
	}
	require.Len(t, args, len(typ.Params))
	var body []byte
	for i, arg := range args {
		op := byte(0x41) // i32.const
		if typ.Params[i] == wasm.I64 {
			op = 0x42
		}
		body = append(append(body, op), leb128(arg)...)
	}
	body = append(body, 0x10, 0) // call
	for range typ.Results {
		body = append(body, 0x1a) // drop
	}
	m := &wasm.Module{
		Types:     []wasm.FuncType{typ, {Params: []wasm.ValueType{wasm.I32}, Results: []wasm.ValueType{wasm.I32}}},
		Imports:   []wasm.Import{{Module: from, Name: name, Kind: wasm.ExternalFunction}},
		Functions: []uint32{1},
		Memories:  []wasm.Memory{{Size: wasm.Range{Min: 2}}},
		Exports:   []wasm.Export{{Name: "memory", Kind: wasm.ExternalMemory}, {Name: "before_agent", Index: 1}},
		Code:      []wasm.Code{{Body: append(body, 0x41, 0, 0x0b)}},
	}
	for at, text := range texts {
		m.Data = append(m.Data, wasm.Data{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: uint64(at)}, Init: []byte(text)})
	}
	return m.Encode()
}

func wasmTypes(types []byte) []wasm.ValueType {
	out := make([]wasm.ValueType, len(types))
	for i, typ := range types {
		out[i] = wasm.ValueType(typ)
	}
	return out
}

// leb128 encodes a signed number.
func leb128(n int64) []byte {
	var b []byte
	for ; n < -64 || n > 63; n >>= 7 {
		b = append(b, byte(n)&0x7f|0x80)
	}
	return append(b, byte(n)&0x7f)
}

// fuelOf calls before_agent of a module with limits. It returns the fuel of the call, the run, and
// the error of the call.
func fuelOf(t *testing.T, b []byte, limits policy.Limits) (fuel int64, r *testRun, err error) {
	t.Helper()
	m, err := loadBytes(t, b, limits)
	require.NoError(t, err)
	mw := configure(t, m, "")
	mw.OnCall(func(r CallReport) { fuel = int64(r.Fuel) })
	r = openRun(t, hook.Entry{Name: "guard", Middleware: mw, Read: hook.ReadAll})
	_, err = r.beforeAgent(t)
	return fuel, r, err
}

// TestFuelSchedules checks the differences between the fuel costs of host calls in versions 1 and
// 2. In version 1, host calls have no costs of their own.
func TestFuelSchedules(t *testing.T) {
	t.Parallel()
	const at, record, value, perByte = 1024, 48_000, 2_000, 64
	text := strings.Repeat("x", 1000)
	str := func(s string) int64 { return int64(len(s)) }
	event := `{"name":"e","data":"` + text + `"}`
	quoted := `"` + text + `"`
	line := text + "\n"
	iov := string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, at), uint32(len(line))))
	for name, tc := range map[string]struct {
		from string
		args []int64
		text string
		want int64
	}{
		"emit":         {contract.ImportModule, []int64{at, str(event)}, event, record + perByte*str(event)},
		"log":          {contract.ImportModule, []int64{contract.LogInfo, at, str(text)}, text, record + perByte*str(text)},
		"write":        {contract.ImportModule, []int64{at, 2}, "{}", 2 * perByte},
		"local_set":    {contract.ImportModule, []int64{at, 1, at + 8, str(quoted), -1}, "kkkkkkkk" + quoted, value + perByte*(1+str(quoted))},
		"local_add":    {contract.ImportModule, []int64{at, 3, 1}, "key", value + 3*perByte},
		"local_delete": {contract.ImportModule, []int64{at, 3}, "key", value + 3*perByte},
		"local_get":    {contract.ImportModule, []int64{at, 3}, "key", 3 * perByte},
		"store_set":    {contract.ImportModule, []int64{at, 1, at + 8, str(quoted), -1, 0}, "kkkkkkkk" + quoted, record + perByte*(1+str(quoted))},
		"store_add":    {contract.ImportModule, []int64{at, 3, 1}, "key", record + 3*perByte},
		"next":         {contract.ImportModule, []int64{at, 2}, "{}", record + 2*perByte},
		"send":         {contract.ImportModule, []int64{at, 2}, "{}", record + 2*perByte},
		"model":        {contract.ImportModule, []int64{at, 2}, "{}", record + 2*perByte},
		"tool":         {contract.ImportModule, []int64{at, 2}, "{}", record + 2*perByte},
		"http":         {contract.ImportModule, []int64{at, 2}, "{}", 2 * perByte},
		"read":         {contract.ImportModule, []int64{at, 100}, "", 0},
		"changed":      {contract.ImportModule, []int64{0, 0}, "", 0},
		"fd_write":     {"wasi_snapshot_preview1", []int64{1, 16, 1, 32}, line, record + perByte*str(text)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := caller(t, tc.from, name, tc.args, map[int]string{16: iov, at: tc.text})
			free, _, err := fuelOf(t, b, policy.Limits{FuelSchedule: 1})
			require.NoError(t, err)
			paid, _, err := fuelOf(t, b, policy.Limits{})
			require.NoError(t, err)
			require.Equal(t, tc.want, paid-free)
		})
	}
}

// TestFuelOfReplies checks that version 2 charges for a reply even if the guest does not read the
// reply.
func TestFuelOfReplies(t *testing.T) {
	t.Parallel()
	b := caller(t, contract.ImportModule, "messages", []int64{0, 0, 9}, nil)
	free, r, err := fuelOf(t, b, policy.Limits{FuelSchedule: 1})
	require.NoError(t, err)
	require.Empty(t, r.host.logs())
	paid, _, err := fuelOf(t, b, policy.Limits{})
	require.NoError(t, err)
	list, err := abijson.Marshal(conversation("hello", "how are you?").All())
	require.NoError(t, err)
	require.InDelta(t, len(list)/16, paid-free, 4)
}

// TestEventsCostFuel checks that no event is sent if the guest lacks the fuel for the event.
func TestEventsCostFuel(t *testing.T) {
	t.Parallel()
	event := `{"name":"e","data":"` + strings.Repeat("x", 8000) + `"}`
	b := caller(t, contract.ImportModule, "emit", []int64{64, int64(len(event))}, map[int]string{64: event})
	var limits policy.Limits
	limits.Fuel = 500_000
	fuel, r, err := fuelOf(t, b, limits)
	var fault *ending.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "fuel", fault.Limit)
	require.Empty(t, r.host.customs(), "the event came before the fuel")
	require.Greater(t, fuel, limits.Fuel)

	limits.FuelSchedule = 1
	_, r, err = fuelOf(t, b, limits)
	require.NoError(t, err)
	require.Len(t, r.host.customs(), 1)
}

// TestReplayKeepsFuelSchedule checks that a recording is replayed under its version of the fuel
// schedule, and under version 1 if it has none.
func TestReplayKeepsFuelSchedule(t *testing.T) {
	t.Parallel()
	for version := 1; version <= policy.FuelSchedule; version++ {
		dir := t.TempDir()
		m := loadRecording(t, dir, "moody.wasm", policy.Limits{FuelSchedule: version})
		r := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, ""), Hooks: []abi.Hook{contract.HookGateTool}})
		_, err := r.callTool(t.Context(), nil)
		require.NoError(t, err)
		b := onlyBundle(t, dir)
		require.Equal(t, version, b.Limits.FuelSchedule)
		requireSame(t, b)

		old := *b
		text, err := json.Marshal(b.Limits)
		require.NoError(t, err)
		text = []byte(strings.Replace(string(text), `"FuelSchedule":`, `"Unknown":`, 1))
		old.Limits = policy.Limits{}
		require.NoError(t, json.Unmarshal(text, &old.Limits))
		require.Equal(t, version == 1, replayed(t, &old).Same, "without a version")
	}
}

// TestUnknownFuelSchedule checks that an unknown version of the fuel schedule is rejected.
func TestUnknownFuelSchedule(t *testing.T) {
	t.Parallel()
	_, err := newLoader(t).Load(t.Context(), modules+"/says.wasm", policy.Limits{FuelSchedule: policy.FuelSchedule + 1})
	require.ErrorContains(t, err, "fuel_schedule is 3; want 1 to 2")
}
