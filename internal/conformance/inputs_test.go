package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/abisource"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/tck"
)

// TestInputs checks that each hook input in the golden cases matches its declared type: first the
// Go type, from which the declarations of all SDKs are generated, then the TypeScript type.
func TestInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it plays all golden cases")
	}
	t.Parallel()
	source, err := abisource.Read(filepath.Join(root, "abi"), filepath.Join(root, "internal", "contract"))
	require.NoError(t, err)
	c := &inputChecker{source: source, literals: map[string]map[string]bool{}, wrong: map[string]bool{}}
	h := newHost(t)
	load := h.Middleware
	h.Middleware = func(ctx context.Context, m *wire.Middleware) (hook.Middleware, error) {
		loaded, err := load(ctx, m)
		return &checkedMiddleware{loaded, c}, err
	}
	_, err = tck.Check(t.Context(), h, nil)
	require.NoError(t, err)
	withoutTools := &wrong{Host: h, request: func(r *wire.Request) {
		r.Tools = nil
		r.Agent.Limits = &wire.Limits{ModelCalls: 1, OnLimit: "answer"} // the last call offers no tools
	}}
	_, err = tck.Check(
		t.Context(),
		withoutTools,
		&tck.Options{Match: func(name string) bool { return name == "eino-1-order" }},
	)
	require.NoError(t, err)
	require.Empty(t, slices.Sorted(maps.Keys(c.wrong)))

	var script strings.Builder
	script.WriteString(
		"import type { HookTypes } from \"@agent-runner/middleware\";\n\ndeclare const messages: never;\n\n",
	)
	for _, row := range abitable.Hooks() {
		if row.Name == "describe" || row.Name == "configure" {
			continue // runs do not call describe and configure
		}
		literals := slices.Sorted(maps.Keys(c.literals[row.Name]))
		require.NotEmpty(t, literals, "no golden case calls %s", row.Name)
		name := underscore.ReplaceAllStringFunc(row.Name, func(s string) string { return strings.ToUpper(s[1:]) })
		fmt.Fprintf(
			&script,
			"export const %s: HookTypes[%q][\"input\"][] = [\n\t%s,\n];\n",
			name,
			name,
			strings.Join(literals, ",\n\t"),
		)
	}
	compileScripts(t, map[string]string{"inputs.ts": script.String()})
}

var underscore = regexp.MustCompile(`_[a-z]`)

// An inputChecker compares inputs with their declared types.
type inputChecker struct {
	source *abisource.Source

	mu       sync.Mutex
	literals map[string]map[string]bool // the inputs of each hook as TypeScript literals
	wrong    map[string]bool            // differences from the declarations
}

// A checkedMiddleware passes each input to the checker before the wrapped middleware receives it.
type checkedMiddleware struct {
	hook.Middleware
	checker *inputChecker
}

func (m *checkedMiddleware) Open(ctx context.Context, entry, run string) (hook.Session, error) {
	s, err := m.Middleware.Open(ctx, entry, run)
	return &checkedSession{s, m.checker}, err
}

type checkedSession struct {
	hook.Session
	checker *inputChecker
}

func (s *checkedSession) Call(ctx context.Context, c *hook.Call, in, out any) error {
	b, err := abijson.Marshal(in)
	if err != nil {
		return err
	}
	s.checker.check(c.Hook, b)
	return s.Session.Call(ctx, c, in, out)
}

func (c *inputChecker) check(h abi.Hook, in []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row := abitable.HookOf(h)
	text := c.literal(c.source.Decl(row.Input()).Type(), row.Name, in)
	if c.literals[row.Name] == nil {
		c.literals[row.Name] = map[string]bool{}
	}
	c.literals[row.Name][text] = true
}

// literal returns in as a TypeScript literal of type t. It replaces values that do not affect the
// type, so that inputs of the same form have the same literal. It records values of a wrong type in
// c.wrong.
func (c *inputChecker) literal(t *abisource.Type, path string, in json.RawMessage) string {
	switch {
	case t.Name == "List":
		return "messages" // a script receives an object that fetches the messages
	case t.Name == "Content" && string(in) == "null":
		return "null"
	case t.Name == "Content" && in[0] == '"':
		return `""`
	case t.Kind == abisource.Raw:
		return "null"
	case t.Kind == abisource.Pointer:
		return c.literal(t.Elem, path, in)
	case t.Kind == abisource.Slice || t.Name == "Content":
		elem := t.Elem
		if elem == nil {
			elem = c.source.Decl("Part").Type()
		}
		all := map[string]bool{}
		for i, v := range decoded[[]json.RawMessage](c, path, in) {
			all[c.literal(elem, fmt.Sprintf("%s[%d]", path, i), v)] = true
		}
		return "[" + strings.Join(slices.Sorted(maps.Keys(all)), ", ") + "]"
	case t.Kind == abisource.Map:
		all := map[string]bool{}
		for key, v := range decoded[map[string]json.RawMessage](c, path, in) {
			all[`"`+strconv.Itoa(len(all))+`": `+c.literal(t.Elem, path+"."+key, v)] = true
		}
		return "{" + strings.Join(slices.Sorted(maps.Keys(all)), ", ") + "}"
	case t.Kind == abisource.Struct:
		return c.object(t, path, in)
	case t.Kind == abisource.Int:
		_ = decoded[int64](c, path, in)
		return "0"
	case t.Kind == abisource.Bool:
		return strconv.FormatBool(decoded[bool](c, path, in))
	default:
		if word.Match(in) {
			return string(in) // the type may permit only certain words
		}
		_ = decoded[string](c, path, in)
		return `"…"`
	}
}

var word = regexp.MustCompile(`^"[a-z_]*"$`)

func (c *inputChecker) object(t *abisource.Type, path string, in json.RawMessage) string {
	values := decoded[map[string]json.RawMessage](c, path, in)
	d := c.source.Decl(t.Name)
	var all []string
	for _, f := range d.Flat() {
		switch v, ok := values[f.Key]; {
		case ok:
			all = append(all, f.Key+": "+c.literal(f.Type, path+"."+f.Key, v))
		case f.Omit == "" && t.Name != "Chunk": // the fields of a chunk depend on its kind
			c.wrong[path+": no "+f.Key] = true
		}
		delete(values, f.Key)
	}
	for key := range values {
		if !d.Open() {
			c.wrong[path+": unknown key "+key] = true
		}
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// decoded decodes in. If in is null or has the wrong type, decoded records that in c.wrong.
func decoded[T any](c *inputChecker, path string, in json.RawMessage) (v T) {
	if err := json.Unmarshal(in, &v); err != nil || string(in) == "null" {
		c.wrong[fmt.Sprintf("%s: want %T, got %.40s", path, v, in)] = true
	}
	return v
}
