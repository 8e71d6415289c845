package jsoncodec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shop is the type that the tests below read.
type shop struct {
	names []string
	rows  [][]int64
	price float64
	open  bool
	rest  string
	inner string
}

func readShop(text string) (s shop, err error) {
	r := NewReader([]byte(text))
	for r.Key() {
		switch r.Name() {
		case "names":
			for r.Next() {
				s.names = append(s.names, r.Text())
			}
		case "rows":
			for r.Next() {
				var row []int64
				for r.Next() {
					row = append(row, r.Int())
				}
				s.rows = append(s.rows, row)
			}
		case "price":
			s.price = r.Float()
		case "open":
			s.open = r.Bool()
		case "rest":
			s.rest = string(r.Raw())
		case "inner":
			for r.Key() {
				if r.Name() == "name" {
					s.inner = r.Text()
				} else {
					r.Skip()
				}
			}
		default:
			r.Refuse("is not known")
		}
	}
	return s, r.Err()
}

func TestReader(t *testing.T) {
	t.Parallel()
	got, err := readShop(` { "names" : ["a","b\n", null] , "rows":[[1,-2],[],[3]], "price":1.5e1,
		"open":true,"rest":{"a":[1,"]"]},"inner":{"x":[[{}]],"name":"n","y":null}}  `)
	require.NoError(t, err)
	require.Equal(t, shop{
		names: []string{"a", "b\n", ""}, rows: [][]int64{{1, -2}, nil, {3}}, price: 15,
		open: true, rest: `{"a":[1,"]"]}`, inner: "n",
	}, got)
	for _, text := range []string{"{}", "null", `{"names":null,"rows":[],"price":null,"open":null,"inner":{}}`} {
		got, err = readShop(text)
		require.NoError(t, err, text)
		require.Equal(t, shop{}, got, text)
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                                "want an object, got an array (at byte 0)",
		`{"names":{}}`:                      "names: want an array, got an object (at byte 9)",
		`{"names":["a",7]}`:                 "names[1]: want a string, got a number (at byte 14)",
		`{"rows":[[1],[2,1.5]]}`:            "rows[1][1]: number 1.5 does not fit; want a whole number in range (at byte 19)",
		`{"rows":[[99999999999999999999]]}`: "rows[0][0]: number 99999999999999999999 does not fit; want a whole number in range (at byte 30)",
		`{"rows":[5]}`:                      "rows[0]: want an array, got a number (at byte 9)",
		`{"price":"dear"}`:                  "price: want a number, got a string (at byte 9)",
		`{"price":1e999}`:                   "price: number 1e999 does not fit (at byte 14)",
		`{"open":"yes"}`:                    "open: want true or false, got a string (at byte 8)",
		`{"inner":{"name":[]}}`:             "inner.name: want a string, got an array (at byte 17)",
		`{"inner":{},"colour":1}`:           "colour: is not known (at byte 21)",
	} {
		_, err := readShop(text)
		require.EqualError(t, err, want, text)
	}
}

func TestReaderKind(t *testing.T) {
	t.Parallel()
	r := NewReader([]byte(` [ {"a": 1} , [ ], "b", -1, 2, true, false, null ] `))
	var kinds []byte
	require.Equal(t, byte('['), r.Kind())
	for r.Next() {
		kinds = append(kinds, r.Kind())
		require.Equal(t, kinds[len(kinds)-1], r.Kind(), "asking reads nothing")
		r.Skip()
	}
	require.NoError(t, r.Err())
	require.Equal(t, `{["00ttn`, string(kinds))
	require.Zero(t, r.Kind(), "behind the end")
	r = NewReader([]byte(`"text"`))
	r.Int()
	require.Error(t, r.Err())
	require.Zero(t, r.Kind(), "after an error")
}

// FuzzReader checks that reading terminates, and that ReadValue accepts all valid text that a
// Reader accepts.
func FuzzReader(f *testing.F) {
	for _, text := range []string{`{"names":["a"],"rows":[[1]],"inner":{"x":{}}}`, `{"names":[`, `[[[`, `{"rows":[1,,]}`, `{"a"`, "", "{]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := readShop(string(b))
		if err == nil && Valid(b) == nil {
			var v struct {
				Names []string  `json:"names"`
				Rows  [][]int64 `json:"rows"`
				Price float64   `json:"price"`
				Open  bool      `json:"open"`
				Rest  any       `json:"rest"`
				Inner struct {
					Name string `json:"name"`
				} `json:"inner"`
			}
			require.NoError(t, ReadValue(Clone(b), &v))
		}
	})
}

// TestBoolReplacesTheValue checks that the scanner replaces an earlier value with true or false,
// and that null leaves it unchanged.
func TestBoolReplacesTheValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"true": true, "false": false, "null": true} {
		v := true
		require.NoError(t, (&Scanner{B: []byte(text)}).Bool(&v), text)
		require.Equal(t, want, v, text)
	}
}
