package abijson

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// generatedTypes returns the types with generated codecs.
func generatedTypes() []reflect.Type {
	var out []reflect.Type
	add := func(t reflect.Type) {
		if t.NumField() > 0 && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for _, h := range contract.Hooks() {
		in, answer := contract.Exchange(h)
		add(reflect.TypeOf(in).Elem())
		add(reflect.TypeOf(answer).Elem())
	}
	for _, v := range []any{
		abi.Event{}, abi.Error{}, abi.RequestPatch{}, contract.LocalValue{}, abi.Message{}, abi.ToolCall{}, abi.Part{},
		abi.Chunk{}, abi.Response{}, abi.Tool{},
	} {
		add(reflect.TypeOf(v))
	}
	return out
}

// byReflection decodes b by reflection. The result is the reference for the generated code.
func byReflection(b []byte, t reflect.Type) (v any, unknown []string, err error) {
	s := jsoncodec.Scanner{B: b, Enter: enterType}
	if err := s.Document(t); err != nil {
		return nil, nil, err
	}
	fresh := reflect.New(t)
	return fresh.Interface(), s.Unknown, json.Unmarshal(b, fresh.Interface())
}

// encodeStd encodes v with encoding/json.
func encodeStd(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// checkCodec checks that the generated code of typ decodes and encodes b like reflection.
func checkCodec(t *testing.T, b []byte, typ reflect.Type) {
	t.Helper()
	want, unknown, wrong := byReflection(b, typ)
	fast := reflect.New(typ).Interface()
	got, err := Decode(b, fast)
	if wrong != nil {
		require.Error(t, err, "%s: %s: %v", typ, b, wrong)
		require.True(t, reflect.ValueOf(fast).Elem().IsZero(), "%s: %s", typ, b)
		return
	}
	require.NoError(t, err, "%s: %s", typ, b)
	require.Equal(t, want, fast, "%s: %s", typ, b)
	require.Equal(t, unknown, got, "%s: %s", typ, b)
	plain, wrong := encodeStd(fast)
	written, err := Marshal(fast)
	if wrong != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, string(plain), string(written), "%s: %s", typ, b)
	again := reflect.New(typ).Interface()
	_, err = Decode(written, again)
	require.NoError(t, err, "%s: %s", typ, written)
}

// codecSeeds returns JSON for the tests of codecs: the inputs, answers and errors of the golden
// vectors, and corner cases.
func codecSeeds(t testing.TB) (out [][]byte) {
	files, err := filepath.Glob("../../testdata/abi/*.json")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		var v struct{ Input, Answer, Error json.RawMessage }
		require.NoError(t, json.Unmarshal(b, &v))
		for _, raw := range [][]byte{v.Input, v.Answer, v.Error} {
			if raw != nil {
				out = append(out, raw)
			}
		}
	}
	for _, text := range []string{
		`null`,
		`{}`,
		` { } `,
		`[]`,
		`1`,
		`"x"`,
		`{"a":1,"a":2}`,
		`{"run":{"id":"r","id":"s"}}`,
		`{"Run":{}}`,
		`{"messages":{"splice":[{"at":1,"insert":[{"role":"user","content":null,"x":[1, 2]}]}]}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"new","y":{"z":1}}]}]}`,
		`{"messages":5}`,
		`{"tools":{"add":[{"name":"a"}],"remove":["b"]}}`,
		`{"tools":[]}`,
		`{"tools":null}`,
		`{"name":"\ud83d\ude00\n\u00e9\/"}`,
		`{"name":"\ud83d"}`,
		`{"na\u006de":"x"}`,
		`{"code":"x","status":1.5}`,
		`{"status":99999999999999999999}`,
		`{"status":-9223372036854775808}`,
		`{"retry_after_ms":-0}`,
		`{"call":null,"tool":null}`,
		`{"run":{"metadata":{"a":null,"b":[1,{"c":2}]}}}`,
		`{"params":{"x":null,"y": 1}}`,
		`{"entries":[{"hooks":{"observe":3,"x":1}}]}`,
		`{"text":"` + "\u2028" + `<&>\u0001"}`,
		`{"kind":"tool_call","index":2,"arguments":"{}"}`,
		`{"kind":"part","part":{"type":"text"}}`,
		`{"content":7}`,
		`{"extra":{ "a" : 1 }}`,
		`{"is_error":"yes"}`,
		`{"final":nul}`,
		`{"hooks":["a","b"],"events":[]}`,
		`{"limits":{"tools":{"a":1,"a":2}}}`,
		`{"unknown":{"deep":[[[]]]}}`,
	} {
		out = append(out, []byte(text))
	}
	return out
}

func TestCodec(t *testing.T) {
	t.Parallel()
	for _, b := range codecSeeds(t) {
		for _, typ := range generatedTypes() {
			checkCodec(t, b, typ)
		}
	}
}

func FuzzCodec(f *testing.F) {
	for _, b := range codecSeeds(f) {
		f.Add(b)
	}
	types := generatedTypes()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range types {
			checkCodec(t, b, typ)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	input := []byte(
		`{"run":{"id":"run_1","agent":"a","step":1,"max_steps":20,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"now_ms":1767225600000},"entry":"policy","call":{"id":"call_1","name":"search","arguments":"{\"query\":\"croissants\"}","owner":"host"},"tool":{"name":"search","description":"Searches the orders.","parameters":{"type":"object","properties":{"query":{"type":"string"}}},"owner":"host"}}`,
	)
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in abi.GateToolInput
			if _, err := Decode(input, &in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := byReflection(input, reflect.TypeFor[abi.GateToolInput]()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
