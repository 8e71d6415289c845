package abijson

import (
	"bytes"
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

// readables returns the types that modules read.
func readables() []reflect.Type {
	var out []reflect.Type
	for _, v := range []Readable{
		&BeforeAgentInput{}, &BeforeModelRewriteStateInput{}, &BeforeModelInput{}, &WrapModelInput{}, &OnChunkInput{},
		&AfterModelInput{}, &AfterModelRewriteStateInput{}, &BeforeToolInput{}, &WrapToolCallInput{}, &GateToolInput{},
		&AfterToolInput{}, &ToolMessagesInput{}, &AfterToolsInput{}, &AfterAgentInput{}, &ObserveInput{}, &CallToolInput{},
		&TranslateInput{}, &ConfigureInput{}, &ModelReply{}, &ToolReply{}, &LocalValue{}, &LocalVersion{}, &Error{},
		&Received{}, &Message{}, &Response{}, &Result{},
	} {
		out = append(out, reflect.TypeOf(v).Elem())
	}
	return out
}

// checkRead compares Read with strict decoding if strict decoding accepts the text.
func checkRead(t *testing.T, b []byte, typ reflect.Type) {
	t.Helper()
	want := reflect.New(typ)
	if err := (&jsoncodec.Scanner{B: b}).Whole(want.Interface().(codec)); err != nil {
		_ = Read(b, reflect.New(typ).Interface().(Readable)) // must terminate
		return
	}
	got := reflect.New(typ)
	require.NoError(t, Read(b, got.Interface().(Readable)), "%s: %s", typ, b)
	require.Equal(t, want.Interface(), got.Interface(), "%s: %s", typ, b)
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, b := range codecSeeds(t) {
		for _, typ := range readables() {
			checkRead(t, b, typ)
		}
	}
}

// TestReadKeys checks that Read finds keys whatever their length and position.
func TestReadKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"id":"a"}`,
		`{"id" : "a" , "role":"user" }`,
		`{"r":1,"ro":2,"rol":3,"role":"user","roles":5,"contents":6,"contents_":7}`,
		`{"r\u006fle":"user"}`,
		`{"a\":":"x","role":"user"}`,
		`{"\\":"x"}`,
		`{"":1}`,
		`{"extra":{"a":"}\"]"},"role":"user"}`,
		`{"tool_call_id":"1","tool_calls":[]}`,
		`{"content":[{"type":"text","text":"a"}]}`,
		"{\n  \"role\": \"user\",\n  \"content\": null\n}",
		`{"name":"12345678","id":"1234567","origin":"123456789"}`,
	} {
		checkRead(t, []byte(text), reflect.TypeFor[Message]())
	}
	for n := range 40 { // all alignments of the eight-byte words
		text := strings.Repeat("x", n)
		checkRead(t, fmt.Appendf(nil, `{"role":"%s","id":"%s\n%s\"","x%s":"%s"}`, text, text, text, text, text),
			reflect.TypeFor[Message]())
	}
}

// TestReadHostKeys checks that simple finds each key in the host's encoding, whichever field was
// read last. It must not find a key that differs in one byte.
func TestReadHostKeys(t *testing.T) {
	t.Parallel()
	for _, s := range []*objectShape{
		&shapeOfRun, &shapeOfUsage, &shapeOfCall, &shapeOfEvent, &shapeOfMessage, &shapeOfBeforeAgentInput,
		&shapeOfAfterAgentInput,
	} {
		fields := s.fields[:len(s.fields)-1]
		for i := range fields {
			for next := range s.fields {
				read := func(text []byte) (*reader, *shapeField) {
					r := reader{Parser: jsoncodec.Parser{B: append(make([]byte, 0, len(text)+Pad), text...), Own: true}, depth: 1}
					r.pad()
					r.places[0] = place{s: s, p: unsafe.Pointer(&Event{}), field: next * fieldSize, outer: true} // the largest shape
					return &r, r.simple()
				}
				text := fmt.Appendf(nil, `,"%s":x`, fields[i].name)
				r, f := read(text)
				require.True(t, f == &fields[i], "%s from %d", fields[i].name, next)
				require.Equal(t, (i+1)*fieldSize, r.places[0].field)
				require.Equal(t, len(text)-1, r.I)
				for at := range len(text) - 1 { // a key that differs in a single byte
					text[at] ^= 1
					_, f = read(text)
					require.True(t, f == &noMatch, "%s", text)
					text[at] ^= 1
				}
			}
		}
	}
}

// TestReadTruncated checks that Read does not panic for truncated text, and returns an error for
// text that ends in the middle of a message.
func TestReadTruncated(t *testing.T) {
	t.Parallel()
	for _, b := range codecSeeds(t) {
		if !json.Valid(b) || !bytes.HasPrefix(b, []byte("{")) {
			continue
		}
		for _, typ := range readables() {
			for n := range b[:min(len(b), 400)] {
				_ = Read(bytes.Clone(b[:n]), reflect.New(typ).Interface().(Readable))
			}
		}
	}
	for _, text := range []string{
		``, `{`, `{"`, `{"role`, `{"role"`, `{"role":`, `{"role":"`, `{"role":"us`, `{"role":"user"`, `[`, `x`,
		`{"content":[`, `{"content":[{`,
	} {
		require.Error(t, Read([]byte(text), &Message{}), text)
	}
}

// TestReadTrailingBytes checks that Read ignores the bytes after the text, even if they look like
// its continuation.
func TestReadTrailingBytes(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{`1`, `"`, `\`, `x`, `,"id":"x"}`, `":1}`, `}`} {
		for _, text := range []string{
			`{"retry_after_ms":1`, `{"status":`, `{"message":"a`, `{"mess`, `{"retryable":tru`, `{"code":"x"`, `{"status":5}`,
		} {
			b := []byte(text + strings.Repeat(behind, 100))[:len(text)]
			var v Error
			err := Read(b, &v)
			require.Equal(t, text == `{"status":5}`, err == nil, "%s before %s", text, behind)
			require.LessOrEqual(t, v.RetryAfterMS, int64(1))
			require.LessOrEqual(t, len(v.Message), 1)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, b := range codecSeeds(f) {
		f.Add(b)
	}
	types := readables()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range types {
			checkRead(t, b, typ)
		}
	})
}

// TestWrite checks that Write appends what Marshal returns.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, v := range []Writable{&GateToolAnswer{Decision: abi.DecideDeny, Message: "\"no\"\n\u2028é"}, &ObserveAnswer{}, &Message{Role: abi.RoleUser}, &RequestPatch{Model: "m"}} {
		want, err := marshal(v.(codec))
		require.NoError(t, err)
		got, err := Write([]byte("x"), v)
		require.NoError(t, err)
		require.Equal(t, "x"+string(want), string(got))
	}
	_, err := Write(nil, &Custom{Name: "x", Data: []byte("{")})
	require.Error(t, err)
}

// TestReadIntoCapacity checks that Read uses the spare capacity of a slice if it suffices.
func TestReadIntoCapacity(t *testing.T) {
	t.Parallel()
	for _, chunks := range []string{
		`null`, `[]`, `[ ]`, `[{"kind":"text","text":"a"}]`, `[null]`, `[ {"text":"a\n"} ]`, `[{"text":"a"},{"text":"b"}]`,
	} {
		var room [1]abi.Chunk
		plain, roomy := OnChunkInput{}, OnChunkInput{Chunks: room[:0]}
		input := `{"chunks":` + chunks + `,"final":true}`
		require.NoError(t, Read([]byte(input), &plain), input)
		require.NoError(t, Read([]byte(input), &roomy), input)
		require.Equal(t, append([]abi.Chunk{}, plain.Chunks...), append([]abi.Chunk{}, roomy.Chunks...), input)
		require.True(t, roomy.Final)
		if len(roomy.Chunks) == 1 {
			require.Same(t, &room[0], &roomy.Chunks[0], input)
		}
	}
}

// TestSharedDefinitions checks that the constants and the layout that other packages define agree
// with those of this package.
func TestSharedDefinitions(t *testing.T) {
	t.Parallel()
	of, have := reflect.TypeFor[abi.Content](), reflect.TypeFor[content]()
	require.Equal(t, of.Size(), have.Size())
	require.Equal(t, of.NumField(), have.NumField())
	for i := range of.NumField() {
		require.Equal(t, of.Field(i).Offset, have.Field(i).Offset)
		require.Equal(t, of.Field(i).Type.Kind(), have.Field(i).Type.Kind())
	}
	text := abi.Text("x")
	require.EqualValues(t, contentText, (*content)(unsafe.Pointer(&text)).kind)

	for text, ok := range map[string]bool{
		strings.Repeat("[", jsoncodec.MaxDepth) + strings.Repeat("]", jsoncodec.MaxDepth):     true,
		strings.Repeat("[", jsoncodec.MaxDepth+2) + strings.Repeat("]", jsoncodec.MaxDepth+2): false,
		strings.Repeat("1", jsoncodec.MaxNumber):                                              true,
		strings.Repeat("1", jsoncodec.MaxNumber+1):                                            false,
	} {
		require.Equal(t, ok, jsoncodec.Valid([]byte(text)) == nil, text)
	}
	many := []byte("[" + strings.Repeat("1,", jsoncodec.MaxElements) + "1]")
	_, err := Decode(many, &[]int{})
	require.ErrorContains(t, err, "100000")
	_, err = Decode(append(many[:len(many)-3], ']'), &[]int{})
	require.NoError(t, err)
}
