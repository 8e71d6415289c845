// Package schema compiles the JSON Schema of a module's configuration, and checks configurations
// with it. Modules are untrusted, so the size of a schema and the work of checking it are limited,
// and a schema can refer only to itself. The package must not import package module.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

const (
	// maxSchema is the maximum size of a schema, in bytes.
	maxSchema = 64 << 10
	// maxValues is the maximum number of values in a schema after each reference is replaced by its
	// target. It limits the work of checking one value of a configuration.
	maxValues = 50_000
)

// Compile compiles a module's schema. It returns nil if raw is empty or null. The validator follows
// references without a limit. Because schemas are untrusted, Compile returns an error for recursive
// references, for references that multiply the schema beyond maxValues, and for references to other
// documents.
func Compile(raw json.RawMessage) (_ *jsonschema.Resolved, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(raw), maxSchema)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	if _, ok := tree.(map[string]any); !ok {
		return nil, errors.New("want an object")
	}
	w := sizer{root: tree, refs: map[string]int{}}
	if _, err := w.of(tree, true); err != nil {
		return nil, err
	}
	if err := checkKeywords(tree, ""); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be used: %v", r)
		}
	}()
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, cutError(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, cutError(err)
	}
	// Resolve does not check the draft, and an error of Validate would be too late.
	if s := schema.Schema; s != "" && !strings.Contains(s, "json-schema.org/draft/2020-12/") &&
		!strings.Contains(s, "json-schema.org/draft-07/") {
		return nil, fmt.Errorf("$schema is %.64q; want draft 2020-12 or draft-07", s)
	}
	return resolved, nil
}

// Size returns the number of values in a schema after each reference is replaced by its target.
// [Compile] must accept the schema.
func Size(raw json.RawMessage) int {
	var tree any
	if json.Unmarshal(raw, &tree) != nil {
		return 0
	}
	w := sizer{root: tree, refs: map[string]int{}}
	n, err := w.of(tree, true)
	if err != nil {
		return 0
	}
	return n
}

// A sizer counts the values of a schema as if each reference were replaced by its target.
type sizer struct {
	root any
	refs map[string]int // size of each reference's target; 0 while the target is being measured
}

// of returns the number of values in a part of a schema, including the targets of references. The
// argument top reports whether part is the whole schema, because only the whole schema may have an
// $id. The method returns an error if there are more than maxValues values, or if a reference is
// not allowed or has no target.
func (w *sizer) of(part any, top bool) (int, error) {
	work := 1
	add := func(n int, err error) error {
		if work += n; err == nil && work > maxValues {
			err = fmt.Errorf("its references multiply to more than %d values", maxValues)
		}
		return err
	}
	switch part := part.(type) {
	case []any:
		for _, v := range part {
			if err := add(w.of(v, false)); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			v := part[key]
			text, isText := v.(string)
			var err error
			switch {
			case key == "$ref" && isText:
				err = add(w.ofRef(text))
			case (key == "$id" && !top || key == "$dynamicRef" || key == "$recursiveRef") && isText:
				err = fmt.Errorf("%s is not allowed; refer to a part of the schema with a $ref like #/$defs/name", key)
			default:
				err = add(w.of(v, false))
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return work, nil
}

func (w *sizer) ofRef(ref string) (int, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return 0, fmt.Errorf("$ref %.64q: only references within the schema are allowed, like #/$defs/name", ref)
	}
	if work, seen := w.refs[ref]; seen {
		if work == 0 {
			return 0, fmt.Errorf("$ref %.64q leads back to itself; recursive schemas are not allowed", ref)
		}
		return work, nil
	}
	target, err := follow(w.root, pointer)
	if err != nil {
		return 0, fmt.Errorf("$ref %.64q: %w", ref, err)
	}
	w.refs[ref] = 0
	work, err := w.of(target, pointer == "")
	w.refs[ref] = work
	return work, err
}

// follow returns the value to which a JSON pointer in a URI fragment points.
func follow(v any, pointer string) (any, error) {
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, errors.New("is not well-formed")
	}
	if pointer == "" {
		return v, nil
	}
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = pointerEscapes.Replace(step)
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[step]
			if !ok {
				return nil, fmt.Errorf("there is no %.64q", step)
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("there is no element %.64q", step)
			}
			v = in[i]
		default:
			return nil, fmt.Errorf("there is no %.64q", step)
		}
	}
	return v, nil
}

// Check validates a configuration against a schema. If schema is nil, it checks only that the
// configuration is valid JSON. The error begins with the path of the invalid value, unless that is
// the whole configuration or the schema cannot be used.
func Check(schema *jsonschema.Resolved, config json.RawMessage) (err error) {
	if err := jsoncodec.Valid(config); err != nil {
		return err
	}
	if schema == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the module's config_schema cannot be used: %v", r)
		}
	}()
	var v any
	if err := json.Unmarshal(config, &v); err != nil {
		return err
	}
	if err := schema.Validate(v); err != nil {
		return configError(err)
	}
	return nil
}

// validating matches the validator's description of the position in the schema.
var validating = regexp.MustCompile(`^(?s)validating ([^:]*): (.*)$`)

// configError returns a validator's error without Go terms. It replaces the position in the schema
// with the position in the configuration.
func configError(err error) error {
	text, at, path := err.Error(), "", ""
	for m := validating.FindStringSubmatch(text); m != nil; m = validating.FindStringSubmatch(text) {
		// A position that does not extend the previous position is the target of a reference. It
		// applies to the same value.
		if step, ok := strings.CutPrefix(m[1], at); ok {
			path += configPath(step)
		}
		at, text = m[1], m[2]
		if at == "root" {
			at = ""
		}
	}
	text = cutError(errors.New(explain(text))).Error()
	if path = strings.TrimPrefix(path, "."); path != "" {
		text = path + ": " + text
	}
	return errors.New(text)
}

// explanations maps patterns of the validator's messages to messages without Go terms.
var explanations = []struct {
	pattern *regexp.Regexp
	means   string
}{
	{regexp.MustCompile(`^(?s)type: .* has type "(\w+)", want (?:one of )?(.*)$`), "is of type $1; want $2"},
	{regexp.MustCompile(`^(?s)enum: (?:map\[.*\]|\[.*\]|(.*)) does not equal any of: \[(.*)\]$`), "is not one of $2"},
	{regexp.MustCompile(`^(?s)const: .* does not equal (.*)$`), "want $1"},
	{regexp.MustCompile(`^m(?:ini|axi)mum: (\S+) is (\S+) than (-?\d+)\.?0*$`), "$1 is $2 than $3"},
	{regexp.MustCompile(`^(?s)(anyOf|oneOf): did not validate against any of .*$`), "fits none of the schemas in $1"},
	{regexp.MustCompile(`^(?s)oneOf: validated against both .*$`), "fits more than one of the schemas in oneOf"},
	{regexp.MustCompile(`^(?s)not: validated against .*$`), "fits the schema in not"},
	{
		regexp.MustCompile(`^(?s)contains: .* does not have an item matching .*$`),
		"has no item that fits the schema in contains",
	},
}

func explain(text string) string {
	for _, w := range explanations {
		if w.pattern.MatchString(text) {
			return w.pattern.ReplaceAllString(text, w.means)
		}
	}
	return text
}

// configPath returns the path between two values of a configuration that corresponds to steps in
// the schema.
func configPath(steps string) string {
	var b strings.Builder
	list := strings.Split(steps, "/")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "properties":
			if i++; i < len(list) {
				b.WriteString("." + pointerEscapes.Replace(list[i]))
			}
		case "items", "prefixItems", "contains":
			b.WriteString("[]")
		}
	}
	return b.String()
}

// pointerEscapes decodes the escapes of JSON pointers.
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// cutError returns an error with a truncated text, because the text may contain a whole schema or
// configuration.
func cutError(err error) error {
	const limit = 500
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > limit {
		text = truncate.Text(text, limit) + "…"
	}
	return errors.New(text)
}
