package abijson

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

type embedded struct {
	A int    `json:"a"`
	B string `json:"b,omitempty"`
	X string
}

type Deep struct {
	C    *Deep          `json:"c,omitempty"`
	Many map[string]int `json:"many"`
}

type authored struct {
	embedded
	*Deep
	B       string             `json:"b"`
	Flag    bool               `json:"flag"`
	N8      int8               `json:"n8"`
	U       uint16             `json:"u"`
	F       float64            `json:"f"`
	F32     float32            `json:"f32"`
	List    []string           `json:"list"`
	Three   [3]int             `json:"three"`
	Bytes   []byte             `json:"bytes"`
	Any     any                `json:"any"`
	Raw     json.RawMessage    `json:"raw,omitempty"`
	Time    time.Time          `json:"time"`
	Addr    netip.Addr         `json:"addr"`
	Addrs   map[netip.Addr]int `json:"addrs,omitempty"`
	Ints    map[int]string     `json:"ints,omitempty"`
	Pointer *int               `json:"pointer"`
	Quoted  int                `json:"quoted,string"`
	Zero    time.Time          `json:"zero,omitzero"`
	Message abi.Message        `json:"message"`
	Error   *abi.Error         `json:"error,omitempty"`
	Skip    string             `json:"-"`
	private int                //nolint:unused // unused: the codecs ignore unexported fields
	Dash    string             `json:"-,"`
}

var authorTexts = []string{
	`{}`,
	`{"a":1,"b":"x","X":"y"}`,
	`{"c":{"many":{"x":1}},"many":null}`,
	`{"flag":true,"n8":-128,"u":65535,"f":1e30,"f32":0.25}`,
	`{"n8":128}`,
	`{"u":-1}`,
	`{"n8":1.5}`,
	`{"list":["a",null,"c"],"three":[1,2,3,4]}`,
	`{"three":[1]}`,
	`{"bytes":"aGk="}`,
	`{"bytes":"%"}`,
	`{"any":{"a":[1,"x",null,true,{"b":-2.5e-9}]}}`,
	`{"raw":{"a": [1]}}`,
	`{"raw":null}`,
	`{"time":"2024-01-02T03:04:05Z"}`,
	`{"time":"yesterday"}`,
	`{"addr":"10.0.0.1","addrs":{"::1":4}}`,
	`{"ints":{"-3":"x","4":"y"}}`,
	`{"ints":{"x":"y"}}`,
	`{"pointer":5}`,
	`{"pointer":null}`,
	`{"message":{"role":"user","content":[{"type":"text","text":"é\n"}],"new":1}}`,
	`{"error":{"code":"invalid","message":"no"}}`,
	`{"-":"dash"}`,
	`{"list":{}}`,
	`{"flag":"x"}`,
	`{"many":[]}`,
	`null`,
	`[1]`,
	` { "list" : [ "a" , "b" ] , "ints" : { } } `,
	`{"f":1e400}`,
	`{"any":1e400}`,
}

// TestAuthorValues checks that values of types that module authors define are decoded and encoded
// as encoding/json does.
func TestAuthorValues(t *testing.T) {
	t.Parallel()
	for _, text := range authorTexts {
		want, got := authored{Deep: &Deep{}}, authored{Deep: &Deep{}}
		wrong, err := json.Unmarshal([]byte(text), &want), ReadValue([]byte(text), &got)
		require.Equal(t, wrong == nil, err == nil, "%s: %v, %v", text, wrong, err)
		if wrong != nil {
			continue
		}
		require.Equal(t, want, got, text)
		plain, err := encodeStd(want)
		require.NoError(t, err)
		written, err := MarshalValue(got)
		require.NoError(t, err)
		require.Equal(t, string(plain), string(written), text)
		written, err = MarshalValue(&got)
		require.NoError(t, err)
		require.Equal(t, string(plain), string(written), text)
	}
}

// TestAuthorScalars checks that single values of many Go types are encoded and decoded as
// encoding/json does, and that values without a JSON encoding, cyclic ones included, are rejected.
func TestAuthorScalars(t *testing.T) {
	t.Parallel()
	type named string
	n := 5
	for _, v := range []any{
		nil,
		true,
		1,
		int8(-3),
		uint(7),
		1.5,
		float32(0.1),
		1e21,
		1e-7,
		-1e-9,
		math.MaxFloat64,
		"a\"\u2028<",
		named("x"),
		[]int(nil),
		[]int{},
		[]any{nil, 1},
		map[string]int(nil),
		map[named]int{"b": 1, "a": 2},
		map[string]int{"b": 1, "": -2},
		map[string]string{"x": "\n"},
		map[uint8]bool{200: true},
		[2]bool{true},
		&n,
		(*int)(nil),
		struct{}{},
		time.Unix(0, 0).UTC(),
		json.RawMessage(`{"a": 1}`),
		json.Number("12"),
		[]byte("hi"),
		[]byte(nil),
		[][]int{{1}, {}},
		map[string]int{"h": 1, "b": 2, "ba": 3, "é": -4, "c": 123456, "a": 6, "g": 7, "d": 8},
		map[string]int{"h": 1, "b": 2, "f": 3, "e": 4, "c": 5, "a": 6, "g": 7, "d": 8, "": 9},
		abi.Result{Content: abi.Text("x")},
		&abi.Result{},
		(*abi.Result)(nil),
		abi.Message{Role: abi.RoleUser},
		[]abi.Message{{Role: abi.RoleUser}},
		[]abi.Message(nil),
		abi.Params{"x": abi.JSON("1")},
		struct{ *abi.Message }{&abi.Message{Role: abi.RoleUser}},
	} {
		plain, err := encodeStd(v)
		require.NoError(t, err)
		written, err := MarshalValue(v)
		require.NoError(t, err, "%T", v)
		require.Equal(t, string(plain), string(written), "%T", v)
		if v == nil {
			continue
		}
		if _, ok := v.(struct{ *abi.Message }); ok {
			continue // the embedded pointer is nil, and its methods would panic
		}
		want, got := reflect.New(reflect.TypeOf(v)), reflect.New(reflect.TypeOf(v))
		require.NoError(t, json.Unmarshal(plain, want.Interface()))
		require.NoError(t, ReadValue(plain, got.Interface()), "%T", v)
		require.Equal(t, want.Interface(), got.Interface(), "%T", v)
	}
	for _, v := range []any{
		math.NaN(), math.Inf(-1), func() {}, make(chan int), map[struct{}]int{{}: 1}, json.RawMessage("{"), 1i,
	} {
		_, err := MarshalValue(v)
		require.Error(t, err, "%T", v)
	}
	type ring struct{ Next *ring }
	loop := &ring{}
	loop.Next = loop
	_, err := MarshalValue(loop)
	require.ErrorContains(t, err, "cyclic")
}

// TestReadValueInto checks that ReadValue does not change values that the text does not mention. It
// also checks that an error of DecodeValue has the path of the value.
func TestReadValueInto(t *testing.T) {
	t.Parallel()
	v := struct {
		A, B int
		M    map[string]int
	}{1, 2, map[string]int{"x": 1}}
	require.NoError(t, ReadValue([]byte(`{"B":3,"M":{"y":2}}`), &v))
	require.Equal(t, 1, v.A)
	require.Equal(t, 3, v.B)
	require.Equal(t, map[string]int{"x": 1, "y": 2}, v.M)
	var d struct{ List []struct{ N int8 } }
	_, err := DecodeValue([]byte(`{"List":[{"N":1},{"N":300}]}`), &d)
	require.EqualError(t, err, "List[1].N: number 300 does not fit; want a whole number in range")
}
