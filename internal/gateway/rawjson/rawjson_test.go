package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"duplicate names":  {`{"a":1,"b":{"x":1,"x":2}}`, `invalid JSON at "/b/x", offset 18: duplicate object member name`},
		"escaped names":    {`{"a":1,"\u0061":2}`, `invalid JSON at "/a", offset 7: duplicate object member name`},
		"text after":       {`{} x`, "there is text after the JSON value, at offset 2"},
		"nothing":          {``, "invalid JSON: EOF"},
		"too deep":         {strings.Repeat("[", 300), "arrays and objects are nested more than 256 deep"},
		"too large":        {"[" + strings.Repeat("0,", MaxTokens) + "0]", "more than 1048576 tokens"},
		"cut":              {`{"a":`, "unexpected EOF"},
		"invalid UTF-8":    {"\"a\xff\"", "invalid UTF-8"},
		"a half surrogate": {`"\ud83d"`, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.doc))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestEdits(t *testing.T) {
	const doc = " {\"a\" : 1.0e0, \"b\":[ {\"t\":\"x\\u0041\"},2 ],\n \"c\":null }\n"
	for name, c := range map[string]struct {
		edit func(v Value, e *Edits)
		want string
	}{
		"nothing": {func(Value, *Edits) {}, doc},
		"nested": {
			func(v Value, e *Edits) { e.Replace(v.Get("b").Elements()[0].Get("t"), Quote("y\"")) },
			" {\"a\" : 1.0e0, \"b\":[ {\"t\":\"y\\\"\"},2 ],\n \"c\":null }\n",
		},
		"member changed and added": {
			func(v Value, e *Edits) {
				e.Members(v, map[string][]byte{"c": []byte("3"), "z": []byte("4"), "y": []byte("5")})
			},
			" {\"a\" : 1.0e0, \"b\":[ {\"t\":\"x\\u0041\"},2 ],\n \"c\":3 ,\"y\":5,\"z\":4}\n",
		},
		"member removed": {
			func(v Value, e *Edits) { e.Members(v, map[string][]byte{"b": nil, "a": []byte("2"), "z": []byte("4")}) },
			" {\"a\":2,\"c\":null,\"z\":4}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Parse([]byte(doc))
			require.NoError(t, err)
			e := &Edits{Doc: []byte(doc)}
			c.edit(v, e)
			require.Equal(t, c.want, string(e.Apply()))
		})
	}
}

func TestMembersOfEmptyObject(t *testing.T) {
	v, err := Parse([]byte(`{}`))
	require.NoError(t, err)
	e := &Edits{Doc: v.Text}
	e.Members(v, map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	require.Equal(t, `{"a":1,"b":2}`, string(e.Apply()))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",null,{"b":true}]}`))
	f.Add([]byte(`["\u00e9","\\\"","\\\\",{"\\":"]"}, [ ] , {} ,true,1]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := Parse(doc)
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		var want any
		require.NoError(t, d.Decode(&want))
		require.Equal(t, want, decoded(v), "encoding/json reads the same")
		e := &Edits{Doc: doc}
		walk(v, e)
		require.True(t, bytes.Equal(doc, e.Apply()), "edits that change nothing must keep every byte")
	})
}

// walk replaces every scalar with itself.
func walk(v Value, e *Edits) {
	switch {
	case v.IsArray():
		for _, x := range v.Elements() {
			walk(x, e)
		}
	case v.IsObject():
		for _, m := range v.Members() {
			walk(m.Value, e)
		}
	default:
		_ = v.String()
		e.Replace(v, bytes.Clone(v.Text))
	}
}

// decoded returns a value as encoding/json decodes it.
func decoded(v Value) any {
	switch {
	case v.IsArray():
		out := []any{}
		for _, x := range v.Elements() {
			out = append(out, decoded(x))
		}
		return out
	case v.IsObject():
		out := map[string]any{}
		for _, m := range v.Members() {
			out[m.Name] = decoded(m.Value)
		}
		return out
	case v.IsString():
		return v.String()
	case v.IsTrue():
		return true
	case v.IsNull():
		return nil
	case string(v.Text) == "false":
		return false
	}
	return json.Number(v.Text)
}

// FuzzString compares the text of strings with that of encoding/json.
func FuzzString(f *testing.F) {
	f.Add([]byte(`"a\n\"b\"\\\/\r\t\b\f\\"`))
	f.Add([]byte(`"\u00e9 \n"`))
	f.Add([]byte(`""`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := Parse(doc)
		if err != nil || !v.IsString() {
			return
		}
		var want string
		require.NoError(t, json.Unmarshal(doc, &want))
		require.Equal(t, want, v.String())
	})
}
