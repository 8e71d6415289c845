package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A keyword is the required form of the value of a JSON Schema keyword.
type keyword struct {
	want string
	is   func(v any) bool
	// schemas says whether the value is a schema, contains schemas, or does neither.
	schemas inside
}

type inside int

const (
	noSchemas inside = iota
	oneSchema
	manySchemas
)

const wantSchema = "a schema: an object, true or false"

// keywords returns the required forms of the values that are checked, by keyword of JSON Schema.
func keywords() map[string]keyword {
	number := keyword{want: "a number", is: isA[float64]}
	count := keyword{want: "a whole number of at least 0", is: isCount}
	text := keyword{want: "a string", is: isA[string]}
	flag := keyword{want: "true or false", is: isA[bool]}
	list := keyword{want: "a list", is: isA[[]any]}
	names := keyword{want: "a list of strings", is: isNames}
	schema := keyword{wantSchema, isSchema, oneSchema}
	schemas := keyword{"a list of schemas", isA[[]any], manySchemas}
	byName := keyword{"an object of schemas", isA[map[string]any], manySchemas}
	return map[string]keyword{
		"type":                  {want: "one of " + strings.Join(jsonTypes, ", ") + ", or a list of them", is: isType},
		"minimum":               number,
		"maximum":               number,
		"exclusiveMinimum":      number,
		"exclusiveMaximum":      number,
		"multipleOf":            number,
		"minLength":             count,
		"maxLength":             count,
		"minItems":              count,
		"maxItems":              count,
		"minProperties":         count,
		"maxProperties":         count,
		"minContains":           count,
		"maxContains":           count,
		"pattern":               text,
		"title":                 text,
		"description":           text,
		"format":                text,
		"$ref":                  text,
		"$schema":               text,
		"$comment":              text,
		"uniqueItems":           flag,
		"deprecated":            flag,
		"readOnly":              flag,
		"writeOnly":             flag,
		"enum":                  list,
		"examples":              list,
		"required":              names,
		"items":                 schema,
		"contains":              schema,
		"additionalProperties":  schema,
		"propertyNames":         schema,
		"not":                   schema,
		"if":                    schema,
		"then":                  schema,
		"else":                  schema,
		"unevaluatedItems":      schema,
		"unevaluatedProperties": schema,
		"allOf":                 schemas,
		"anyOf":                 schemas,
		"oneOf":                 schemas,
		"prefixItems":           schemas,
		"properties":            byName,
		"patternProperties":     byName,
		"$defs":                 byName,
		"definitions":           byName,
		"dependentSchemas":      byName,
	}
}

var jsonTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

func isCount(v any) bool {
	n, ok := v.(float64)
	return ok && n >= 0 && n == float64(int64(n))
}

func isNames(v any) bool {
	all, ok := v.([]any)
	return ok && !slices.ContainsFunc(all, func(v any) bool { return !isA[string](v) })
}

func isSchema(v any) bool { return isA[map[string]any](v) || isA[bool](v) }

func isType(v any) bool {
	if all, ok := v.([]any); ok {
		return len(all) > 0 && !slices.ContainsFunc(all, func(v any) bool { return isA[[]any](v) || !isType(v) })
	}
	name, ok := v.(string)
	return ok && slices.Contains(jsonTypes, name)
}

// checkKeywords returns an error for the first keyword whose value has the wrong form. The error
// names the keyword's path. The validator's own errors are not used, because they name Go types.
func checkKeywords(v any, path string) error {
	object, ok := v.(map[string]any)
	if !ok {
		if !isSchema(v) {
			return fmt.Errorf("%s is %s; want %s", path, describe(v), wantSchema)
		}
		return nil
	}
	known := keywords()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		k, ok := known[name]
		if !ok {
			continue
		}
		value, at := object[name], strings.TrimPrefix(path+"/"+name, "/")
		if name == "items" && isA[[]any](value) { // in draft-07, one schema per element
			k = known["allOf"]
		}
		if !k.is(value) {
			return fmt.Errorf("%s is %s; want %s", at, describe(value), k.want)
		}
		var err error
		switch value := value.(type) {
		case map[string]any:
			if k.schemas == oneSchema {
				err = checkKeywords(value, at)
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if k.schemas == manySchemas && err == nil {
					err = checkKeywords(value[key], at+"/"+key)
				}
			}
		case []any:
			for i, v := range value {
				if k.schemas == manySchemas && err == nil {
					err = checkKeywords(v, fmt.Sprintf("%s/%d", at, i))
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// describe returns a value in words for an error message. A scalar is its JSON, and a container is
// "a list" or "an object".
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%.64q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprint(v)
	}
}
