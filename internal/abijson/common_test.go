package abijson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

const commonBegin = `{"run":{"id":"run_1","agent":"agent","step":3,"step_id":"step_3","max_steps":20,` +
	`"usage":{"prompt_tokens":1234567,"completion_tokens":10,"total_tokens":0},`

// TestCommon checks that Read, which uses fastCommon, agrees with strict decoding for unusual
// encodings of the common fields and for truncated text.
func TestCommon(t *testing.T) {
	t.Parallel()
	const rest = `,"call":{"id":"c","name":"n","arguments":"{\"a\":1}"}}`
	whole := commonBegin + `"now_ms":1795294856590},"entry":"guard"` + rest
	texts := []string{
		whole,
		commonBegin + `"now_ms":1795294856590,"deadline_ms":5,"parent":"run_0"},"entry":"guard"` + rest,
		commonBegin + `"metadata":{"now_ms":1,"a":{"b":[]}},"now_ms":1795294856590},"entry":"guard"` + rest,
		commonBegin + `"now_ms":17},"entry":"guard"` + rest,
		commonBegin + `"later":{"now_ms":7},"now_ms":1795294856590},"entry":"gu\u0061rd"` + rest,
		commonBegin + `"now_ms":1795294856590},"entry":"guard"}`,
		commonBegin + `"now_ms":1795294856590},"entry":"guard","resume":{"id":"i","answer":{}}` + rest,
	}
	for _, change := range [][2]string{
		{`"step":3,"step_id":"step_3"`, `"step":0`}, {`"step":3`, `"step":123456789`}, {`"step":3`, `"step":-1`},
		{`"step":3`, `"step": 3`}, {`"step":3`, `"step":null`}, {`"max_steps":20`, `"max_steps":12345678`},
		{`1234567`, `12345678`}, {`1234567`, `123456789012`}, {`"run_1"`, `"run_#1]\n"`}, {`"run_1"`, `""`},
		{`"run_1"`, `null`}, {`"agent":"agent",`, ``}, {`"agent":"agent"`, `"agent":"what a long name this is"`},
		{`{"run"`, `{ "run"`}, {`"usage":{`, `"usage":{"more":1,`}, {`"usage"`, `"usagE"`},
	} {
		require.Contains(t, whole, change[0])
		texts = append(texts, strings.Replace(whole, change[0], change[1], 1))
	}
	for _, text := range texts {
		for _, typ := range []reflect.Type{
			reflect.TypeFor[GateToolInput](), reflect.TypeFor[ObserveInput](), reflect.TypeFor[Message](),
		} {
			checkRead(t, []byte(text), typ)
			for n := range text {
				err := Read([]byte(text)[:n:n], reflect.New(typ).Interface().(Readable))
				require.Error(t, err, "%s", text[:n])
			}
		}
	}
}

// TestFastCommon checks that fastCommon reads the host's own encoding completely, and that it stops
// after the first minFastFields fields of a run that has a deadline or metadata.
func TestFastCommon(t *testing.T) {
	t.Parallel()
	in := GateToolInput{
		Common: abi.Common{Entry: "guard", Run: abi.Run{ID: "run_1", Agent: "agent", Step: 3, StepID: "step_3", MaxSteps: 20,
			Usage: abi.Usage{PromptTokens: 1234567, CompletionTokens: 10, TotalTokens: 99}, NowMS: 1795294856590}},
	}
	read := func(write func()) (*reader, *GateToolInput) {
		write()
		b, err := Marshal((*abi.GateToolInput)(&in))
		require.NoError(t, err)
		r, out := &reader{Parser: jsoncodec.Parser{B: b, Own: true}, depth: 1}, &GateToolInput{}
		r.pad()
		r.places[0] = place{s: &shapeOfGateToolInput}
		r.enter(&r.places[0], unsafe.Pointer(out))
		r.fastCommon(&r.places[0])
		return r, out
	}
	r, out := read(func() {})
	require.Equal(t, in.Common, out.Common)
	require.Equal(t, 1, r.depth)
	require.Equal(t, `"call":`, string(r.B[r.I+1:r.I+8]))

	for _, write := range []func(){
		func() { in.Run.DeadlineMS = 5 },
		func() { in.Run.Metadata = map[string]abi.JSON{"a": []byte("1")} },
	} {
		r, out = read(write)
		require.Equal(t, in.Run.Usage, out.Run.Usage)
		require.Zero(t, out.Run.NowMS)
		require.Equal(t, 2, r.depth)
		require.Equal(t, "usage", r.places[1].s.fields[minFastFields-1].name)
		require.Equal(t, minFastFields*fieldSize, r.places[1].field)
	}
}

func TestReadLocal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"value":{"a":1,"b":-2},"version":7}`, `{"version":7,"more":[{}],"value":{"a":1,"b":-2}}`, ` { "value" : {"a":1,"b":-2} , "version" : 7 } `} {
		var counts map[string]int
		version, err := ReadLocal([]byte(text), &counts)
		require.NoError(t, err, text)
		require.EqualValues(t, 7, version)
		require.Equal(t, map[string]int{"a": 1, "b": -2}, counts)

		type author struct {
			A int `json:"a"`
			B int `json:"b"`
		}
		var mine author
		version, err = ReadLocal([]byte(text), &mine)
		require.NoError(t, err, text)
		require.EqualValues(t, 7, version)
		require.Equal(t, author{1, -2}, mine)

		var other []string
		_, err = ReadLocal([]byte(text), &other)
		require.Error(t, err)
		for n := range strings.TrimSpace(text) {
			_, err = ReadLocal([]byte(strings.TrimSpace(text))[:n:n], &counts)
			require.Error(t, err, text[:n])
		}
	}
	var result abi.Result
	version, err := ReadLocal([]byte(`{"value":{"content":"a\nb","is_error":true},"version":1}`), &result)
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	require.Equal(t, abi.Result{Content: abi.Text("a\nb"), IsError: true}, result)
}

// TestShortTexts checks that short strings of every length, with every kind of byte at every position, have the
// encoding of encoding/json and decode to the same string, and that Writer.Int writes integers like fmt.
func TestShortTexts(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		plain := strings.Repeat("x", n)
		for at := range n + 1 {
			for _, c := range []string{"", "\"", "\\", "\n", "\x01", "\x7f", "é", "\u2028"} {
				text := plain[:at] + c + plain[at:]
				want, err := json.Marshal(text)
				require.NoError(t, err)
				require.Equal(t, string(want), string(jsoncodec.AppendText(nil, text)))
				var back string
				require.NoError(t, ReadValue(want, &back))
				require.Equal(t, text, back)
				if c == "" {
					break
				}
			}
		}
	}
	for _, n := range []int64{0, 9, 10, 55, 99, 100, -1, 1 << 62} {
		w := jsoncodec.Writer{}
		w.Int(n)
		require.Equal(t, fmt.Sprint(n), string(w.B))
	}
}
