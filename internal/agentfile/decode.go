package agentfile

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// Bounds of a file. A value counts each time that an alias uses it.
const (
	maxDepth = 64
	maxNodes = 100_000
	maxJSON  = 1 << 20 // total bytes of the keys and scalars that toJSON converts, such as those of configurations
	// Bounds of the parser's input. The parser's time is quadratic in these numbers.
	maxOpen   = 500 // brackets and braces
	maxDashes = 64  // nested list items on one line
)

// A decoder decodes YAML strictly. It returns an error with a position for an unknown key or a
// value of the wrong type.
type decoder struct {
	file    *File
	anchors map[string]ast.Node
	nodes   int
	depth   int
	json    int // total bytes of the strings that toJSON has converted
}

// decode decodes the text into f, and records the position of each key.
func (f *File) decode(b []byte) error { return f.decodeInto(b, reflect.ValueOf(f).Elem()) }

// decodeInto decodes the text into v, and records the position of each key in f.
func (f *File) decodeInto(b []byte, v reflect.Value) error {
	switch {
	case len(b) > MaxSize:
		return fmt.Errorf("%s: larger than %d bytes, the limit for this file", f.path, MaxSize)
	case !utf8.Valid(b):
		return fmt.Errorf("%s: not text in UTF-8", f.path)
	case tooDeep(b):
		return fmt.Errorf("%s: nested too deeply", f.path)
	}
	root, err := f.parse(b)
	if err != nil || root == nil {
		return err
	}
	d := &decoder{file: f, anchors: map[string]ast.Node{}}
	return d.value("", root, v)
}

// tooDeep reports whether b is nested so deeply that parsing b could take too long.
func tooDeep(b []byte) bool {
	open := 0
	for _, c := range b {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > maxOpen {
			return true
		}
	}
	return bytes.Contains(b, bytes.Repeat([]byte("- "), maxDashes))
}

// parse returns the root of the only document in b, or nil if the document is empty.
func (f *File) parse(b []byte) (root ast.Node, err error) {
	defer func() {
		if v := recover(); v != nil { // the parser panics on some invalid input
			root, err = nil, fmt.Errorf("%s: not valid YAML", f.path)
		}
	}()
	tree, err := parser.ParseBytes(b, 0)
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil:
		return nil, f.errorAt(markOf(syntax.Token), fmt.Errorf("not valid YAML: %s", syntax.Message))
	case err != nil:
		return nil, fmt.Errorf("%s: not valid YAML: %w", f.path, err)
	}
	for _, doc := range tree.Docs {
		if _, ok := doc.Body.(*ast.DirectiveNode); ok || doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, f.errorAt(place(doc.Body), errors.New("more than one YAML document; want one"))
		}
		root = doc.Body
	}
	return root, nil
}

func markOf(t *token.Token) mark {
	if t == nil || t.Position == nil {
		return mark{1, 1}
	}
	return mark{t.Position.Line, t.Position.Column}
}

// place returns the position at which a node starts. For a mapping, that is the position of the
// first key, because the mapping's own token is the first colon.
func place(n ast.Node) mark {
	if pairs := pairsOf(n); len(pairs) > 0 {
		return markOf(pairs[0].Key.GetToken())
	}
	return markOf(n.GetToken())
}

func (d *decoder) errorf(n ast.Node, format string, args ...any) error {
	return d.file.errorAt(place(n), fmt.Errorf(format, args...))
}

// resolve returns the value of a node after following anchors and aliases. It returns an error for
// tags, unknown aliases, and more than maxNodes nodes in the file.
func (d *decoder) resolve(n ast.Node) (ast.Node, error) {
	for range maxDepth {
		if d.nodes++; d.nodes > maxNodes {
			return nil, d.errorf(n, "more than %d values", maxNodes)
		}
		switch at := n.(type) {
		case *ast.AnchorNode:
			d.anchors[at.Name.GetToken().Value] = at.Value
			n = at.Value
		case *ast.AliasNode:
			to, ok := d.anchors[at.Value.GetToken().Value]
			if !ok {
				return nil, d.errorf(n, "unknown anchor &%s", at.Value.GetToken().Value)
			}
			n = to
		case *ast.TagNode:
			return nil, d.errorf(n, "tag %s is not supported; remove it", at.Start.Value)
		default:
			return unsplit(n), nil
		}
	}
	return nil, d.errorf(n, "aliases nested too deeply")
}

// unsplit restores a string that the parser split. In a flow list, the parser reads "read:last" as
// a key and a value, although no space follows the colon.
func unsplit(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	k, ok := m.Values[0].Key.(*ast.StringNode)
	colon, v := m.Values[0].Start, m.Values[0].Value.GetToken()
	if !ok || k.Token.Type != token.StringType || v.Type != token.StringType && v.Type != token.IntegerType ||
		v.Position.Line != colon.Position.Line || v.Position.Column != colon.Position.Column+1 {
		return n
	}
	t := *k.Token
	t.Value = k.Value + ":" + v.Value
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: &t, Value: t.Value}
}

// value decodes a node into v. path is the value's path in the file, under which value records
// positions and reports errors.
func (d *decoder) value(path string, n ast.Node, v reflect.Value) error {
	if d.depth++; d.depth > maxDepth {
		return d.errorf(n, "nested deeper than %d", maxDepth)
	}
	defer func() { d.depth-- }()
	n, err := d.resolve(n)
	if err != nil {
		return err
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		b, err := d.toJSON(n)
		v.SetBytes(b)
		return err
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(path, n, v.Elem())
	}
	if _, null := n.(*ast.NullNode); null {
		switch v.Kind() {
		case reflect.Struct, reflect.Slice, reflect.Map:
			return nil // the value is empty, for example because everything below "tools:" is commented out
		}
		return d.errorf(n, "%s has no value; set one, or remove the key", key(path))
	}
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	text, single := scalarText(n)
	switch {
	case ok && single:
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return d.errorf(n, "%s: %w", key(path), err)
		}
		return nil
	case ok && v.Kind() != reflect.Slice:
		return d.errorf(n, "%s: want a single value, not %s", key(path), kindOf(n))
	}
	return d.byKind(path, n, v)
}

// byKind decodes a node into v according to the kind of v's type. The method value handles
// pointers, nulls and types that decode themselves from text.
func (d *decoder) byKind(path string, n ast.Node, v reflect.Value) error {
	wrong := func(want string) error { return d.errorf(n, "%s: want %s, not %s", key(path), want, kindOf(n)) }
	switch v.Kind() {
	case reflect.Struct:
		if !isMap(n) {
			return wrong("keys and values: " + strings.Join(keysOf(v.Type()), ", "))
		}
		return d.object(path, n, v)
	case reflect.Map:
		if !isMap(n) {
			return wrong("keys and values")
		}
		return d.dictionary(path, n, v)
	case reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return wrong("a list")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
		for i, item := range list.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			d.file.marks[at] = place(item)
			if err := d.value(at, item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.String:
		text, ok := textOf(n)
		if !ok {
			return wrong("text, in quotes if need be")
		}
		v.SetString(text)
		return nil
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return wrong("true or false")
		}
		v.SetBool(b.Value)
		return nil
	case reflect.Int, reflect.Int64:
		i, ok := intOf(n)
		if !ok {
			return wrong("a whole number")
		}
		v.SetInt(i)
		return nil
	case reflect.Float64:
		f, ok := n.(*ast.FloatNode)
		i, whole := intOf(n)
		if !ok && !whole {
			return wrong("a number")
		}
		v.SetFloat(float64(i))
		if ok {
			v.SetFloat(f.Value)
		}
		return nil
	default: // a type that the decoder does not support
		return d.errorf(n, "%s cannot be read", key(path))
	}
}

// object decodes a mapping into a struct.
func (d *decoder) object(path string, n ast.Node, v reflect.Value) error {
	fields := fieldsOf(v.Type())
	for _, pair := range pairsOf(n) {
		name, err := d.key(pair)
		if err != nil {
			return err
		}
		index, ok := fields[name]
		if !ok {
			names := keysOf(v.Type())
			return d.errorf(pair.Key, "unknown key %q%s; %s", name, in(path), instead(name, names, "allowed:"))
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		d.file.marks[at] = markOf(pair.Key.GetToken())
		if err := d.value(at, pair.Value, v.FieldByIndex(index)); err != nil {
			return err
		}
	}
	return nil
}

// dictionary decodes a mapping into a map.
func (d *decoder) dictionary(path string, n ast.Node, v reflect.Value) error {
	v.Set(reflect.MakeMap(v.Type()))
	for _, pair := range pairsOf(n) {
		name, err := d.key(pair)
		if err != nil {
			return err
		}
		at := path + "." + name
		d.file.marks[at] = markOf(pair.Key.GetToken())
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(at, pair.Value, item); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
	return nil
}

func (d *decoder) key(pair *ast.MappingValueNode) (string, error) {
	k, ok := pair.Key.(*ast.StringNode)
	if !ok {
		return "", d.errorf(pair.Key, "a key must be text, in quotes if need be")
	}
	return k.Value, nil
}

// toJSON converts a node to JSON. It follows aliases, and rejects infinities and NaN.
func (d *decoder) toJSON(n ast.Node) ([]byte, error) {
	if d.depth++; d.depth > maxDepth {
		return nil, d.errorf(n, "nested deeper than %d", maxDepth)
	}
	defer func() { d.depth-- }()
	n, err := d.resolve(n)
	if err != nil {
		return nil, err
	}
	switch at := n.(type) {
	case *ast.NullNode:
		return []byte("null"), nil
	case *ast.SequenceNode:
		parts := make([]string, len(at.Values))
		for i, item := range at.Values {
			b, err := d.toJSON(item)
			if err != nil {
				return nil, err
			}
			parts[i] = string(b)
		}
		return []byte("[" + strings.Join(parts, ",") + "]"), nil
	case *ast.MappingNode, *ast.MappingValueNode:
		return d.jsonObject(n)
	case *ast.InfinityNode, *ast.NanNode:
		return nil, d.errorf(n, "this number cannot be written in JSON")
	case *ast.StringNode:
		if at.Token.Type == token.StringType && isNumber(at.Value) { // too large for the parser's integers
			return d.bounded(n, []byte(at.Value), nil)
		}
		b, err := abijson.Marshal(at.Value)
		return d.bounded(n, b, err)
	case *ast.LiteralNode:
		b, err := abijson.Marshal(at.Value.Value)
		return d.bounded(n, b, err)
	case ast.ScalarNode:
		b, err := abijson.Marshal(at.GetValue())
		if err != nil {
			return nil, d.errorf(n, "cannot be written in JSON: %w", err)
		}
		return d.bounded(n, b, nil)
	}
	return nil, d.errorf(n, "%s cannot be written in JSON", kindOf(n))
}

// bounded adds the length of b, the JSON of key or scalar n, to the total for the file. It returns
// an error if the total exceeds maxJSON, since aliases can repeat long keys and values. Otherwise it returns b
// and err.
func (d *decoder) bounded(n ast.Node, b []byte, err error) ([]byte, error) {
	if d.json += len(b); d.json > maxJSON {
		return nil, d.errorf(n, "values of more than %d bytes", maxJSON)
	}
	return b, err
}

func (d *decoder) jsonObject(n ast.Node) ([]byte, error) {
	var parts []string
	for _, pair := range pairsOf(n) {
		name, err := d.key(pair)
		if err != nil {
			return nil, err
		}
		k, err := abijson.Marshal(name)
		if k, err = d.bounded(pair.Key, k, err); err != nil {
			return nil, err
		}
		b, err := d.toJSON(pair.Value)
		if err != nil {
			return nil, err
		}
		parts = append(parts, string(k)+":"+string(b))
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

func isMap(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func pairsOf(n ast.Node) []*ast.MappingValueNode {
	switch at := n.(type) {
	case *ast.MappingNode:
		return at.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{at}
	}
	return nil
}

// textOf returns the text of a string node. It reports false if n is another kind of node.
func textOf(n ast.Node) (string, bool) {
	switch at := n.(type) {
	case *ast.StringNode:
		return at.Value, true
	case *ast.LiteralNode:
		return at.Value.Value, true
	}
	return "", false
}

// scalarText returns the text of a string, number or boolean as it is in the file, without a
// string's quotes. It reports false if n is another kind of node.
func scalarText(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return textOf(n)
}

func intOf(n ast.Node) (int64, bool) {
	at, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch v := at.Value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	}
	return "this"
}

// key returns the last part of a path for error messages, such as "module" for
// "middlewares[0].module".
func key(path string) string {
	if path == "" {
		return "an agent"
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

// fieldsOf maps the JSON keys of a struct's fields to the fields' indexes. It includes the fields
// of embedded structs.
func fieldsOf(t reflect.Type) map[string][]int {
	out := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = f.Index
		}
	}
	return out
}

// keysOf returns the JSON keys of a struct in the order of the fields.
func keysOf(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
