package hostile

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// greatest has the largest values of the limits that cannot be raised to math.MaxInt64.
var greatest = map[string]int64{
	"MemoryBytes": 4 << 30,
	"InputBytes":  1 << 30, "OutputBytes": 1 << 30, "ReplyBytes": 1 << 30, "HostCalls": 1 << 30, "Instances": 1 << 30,
	"FuelSchedule": 1, // the first schedule, in which data that a module passes to the host is free
}

// runLimits returns the names of all runtime limits.
func runLimits() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Limits]()) {
		if !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	return names
}

// TestEachLimitStopsItsCase checks that each limit stops its case, and that nothing else stops
// the case.
func TestEachLimitStopsItsCase(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	cases := LimitCases()
	require.Len(t, cases, len(runLimits()))
	for _, name := range runLimits() {
		t.Run(name, func(t *testing.T) {
			c, ok := cases[name]
			require.True(t, ok, "the limit has no case")
			require.NoError(t, h.run(t.Context(), &c).check(&c))

			limit := int64(math.MaxInt64)
			if n, ok := greatest[name]; ok {
				limit = n
			}
			reflect.ValueOf(&c.Limits).Elem().FieldByName(name).SetInt(limit)
			o := h.run(t.Context(), &c)
			require.Error(t, o.check(&c), "the limit is not what stops it")
			require.NoError(t, o.noFault(), "something else stops it")
		})
	}
}

func TestEachLimitOfStructureStopsItsCase(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	cases := StructureCases()
	fields := reflect.TypeFor[wasm.Limits]()
	require.Len(t, cases, fields.NumField())
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		t.Run(name, func(t *testing.T) {
			build, ok := cases[name]
			require.True(t, ok, "the limit has no case")
			limits := wasm.DefaultLimits()
			field := reflect.ValueOf(&limits).Elem().FieldByName(name)
			b := build(int(field.Int()) + 1)

			c := Case{Module: fixed(b), Want: Refused, Text: []string{"limit"}}
			if name != "ModuleBytes" && name != "MemoryPages" { // checked by the runtime limits, with other errors
				require.NoError(t, h.run(t.Context(), &c).check(&c))
			}
			_, err := wasm.Decode(b, limits)
			var refusal *wasm.Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, wasm.OverLimit, refusal.Kind, refusal)
			require.Equal(t, uint64(field.Int()), refusal.Limit, refusal)

			field.SetInt(math.MaxInt)
			_, err = wasm.Decode(b, limits)
			require.NoError(t, err, "the limit is not what stops it")
		})
	}
}
