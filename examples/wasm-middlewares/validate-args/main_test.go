package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

// judge returns the message of a denied call, or "" if the call is allowed, and the logs.
func judge(t *testing.T, config object, schema, arguments string) (message string, logs []middlewaretest.Log) {
	t.Helper()
	h := middlewaretest.NewDeclared(newValidate().declare())
	require.NoError(t, h.Configure(config))
	answer, err := h.GateTool(abi.GateToolInput{
		Call: abi.Call{Name: "t", Arguments: arguments},
		Tool: abi.Tool{Name: "t", Parameters: abi.JSON(schema)},
	})
	require.NoError(t, err)
	if answer.Decision == "allow" {
		return "", h.Logs
	}
	require.Equal(t, "deny", answer.Decision)
	return answer.Message, h.Logs
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, arguments, want string }{
		{`{}`, `{"a":1}`, ""},
		{`{"type":"object"}`, ``, ""},
		{`false`, `{}`, "- is not allowed"},
		{`{"type":"object","required":["a","b c"]}`, `{}`, "- a: is required\n- [\"b c\"]: is required"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":"3"}`, `- a: want integer, got string "3"`},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":3.0}`, ""},
		{`{"properties":{"a":{"type":["integer","null"]}}}`, `{"a":2.5}`, "- a: want integer or null, got number 2.5"},
		{`{"properties":{"a":{"type":"string","nullable":true}}}`, `{"a":null}`, ""},
		{`{"properties":{"a":{"enum":["x",1]}}}`, `{"a":"y"}`, `- a: want one of "x", 1, got "y"`},
		{`{"properties":{"a":{"enum":["x",1]}}}`, `{"a":1.0}`, ""},
		{`{"properties":{"a":{"const":{"b":[1],"c":2}}}}`, `{"a":{"c":2,"b":[1e0]}}`, ""},
		{`{"properties":{"a":{"const":0}}}`, `{"a":-0}`, ""},
		{`{"properties":{"a":{"minLength":2,"maxLength":3}}}`, `{"a":"é"}`, "- a: has 1 characters, fewer than 2"},
		{`{"properties":{"a":{"pattern":"^x+$"}}}`, `{"a":"xy"}`, `- a: "xy" does not match the pattern ^x+$`},
		{`{"properties":{"a":{"minimum":1,"exclusiveMaximum":3}}}`, `{"a":3}`, "- a: 3 is not below 3"},
		{`{"properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":1}`, "- a: 1 is below 1"},
		{`{"properties":{"a":{"multipleOf":0.1}}}`, `{"a":0.3}`, ""},
		{`{"properties":{"a":{"multipleOf":5}}}`, `{"a":7}`, "- a: 7 is no multiple of 5"},
		{`{"properties":{"a":{"items":{"type":"string"},"maxItems":2}}}`, `{"a":["x",1,"y"]}`, "- a: has 3 items, more than 2\n- a[1]: want string, got integer 1"},
		{`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1.0]}`, "- a[2]: 1.0 is duplicated"},
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}`, `{"a":["x",1]}`, "- a[1]: is not allowed"},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}}}`, `{"a":["x",1]}`, "- a[1]: want null, got integer 1"},
		{`{"properties":{"a":{"contains":{"type":"string"},"maxContains":1}}}`, `{"a":["x","y"]}`, "- a: has 2 items of a kind, more than 1"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`, "- b: is not known; want one of a"},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`, `{"b":1}`, "- b: want string, got integer 1"},
		{`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, `{"xy":"1"}`, ""},
		{`{"propertyNames":{"maxLength":1}}`, `{"xy":1}`, "- xy: has a name that is not allowed: has 2 characters, more than 1"},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, "- has 2 properties, more than 1"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "- b: is required beside a"},
		{`{"anyOf":[{"required":["a"]},{"required":["b","c"]}]}`, `{}`, "- fits none of 2 alternatives; of the nearest: a: is required"},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, "- fits 2 alternatives, of which only one may fit"},
		{`{"not":{"required":["a"]}}`, `{"a":1}`, "- {1 properties} is excluded"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{"a":1}`, "- b: is required"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{}`, "- c: is required"},
		{`{"$ref":"#/$defs/p~1q","$defs":{"p/q":{"required":["a"]}}}`, `{}`, "- a: is required"},
		{`{"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"string"}}}},"$ref":"#/$defs/n"}`, `{"next":{"next":{"v":1}}}`, "- next.next.v: want string, got integer 1"},
	} {
		got, logs := judge(t, object{"strict": true}, c.schema, c.arguments)
		want := c.want
		if want != "" {
			want = "The arguments of t do not fit:\n" + want + "\nThe call was not made. Correct the arguments and call it again."
		}
		require.Equal(t, want, got, "%s %s", c.schema, c.arguments)
		require.Empty(t, logs)
	}
}

// TestSchemasThatCannotBeApplied checks that the rest of a schema still applies if a part of it
// cannot be applied, and that strict denies such a call.
func TestSchemasThatCannotBeApplied(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties":{"a":{"pattern":"^(?!x)"}}}`:                            "pattern ^(?!x): ",
		`{"properties":{"a":{"pattern":"` + strings.Repeat("x", 2000) + `"}}}`: "more than 1000 bytes",
		`{"patternProperties":{"(":false},"additionalProperties":false}`:       "pattern (: ",
		`{"type":"text"}`:                              `type: "text" is no type`,
		`{"type":7}`:                                   "want the name of a type",
		`{"properties":{"a":7}}`:                       "a schema is an object or a boolean, not integer",
		`{"$ref":"https://example.com/schema"}`:        "leads out of the schema",
		`{"$ref":"#/nowhere"}`:                         "leads nowhere",
		`{"not":{"$ref":"#/nowhere"}}`:                 "leads nowhere",
		`{"anyOf":[{"$ref":"#/nowhere"}]}`:             "leads nowhere",
		`{"properties":{"a":{"not":{"pattern":"("}}}}`: "pattern (: ",
		`{"a":1,"a":2}`:                                "the schema is no JSON",
	} {
		message, logs := judge(t, nil, schema, `{"a":"y"}`)
		require.Empty(t, message, schema)
		require.Len(t, logs, 1, schema)
		require.Contains(t, logs[0].Text, want)
		message, _ = judge(t, object{"strict": true}, schema, `{"a":"y"}`)
		require.Contains(t, message, want, schema)
	}
	message, _ := judge(t, nil, `{"properties":{"a":{"pattern":"(?!x)"}},"required":["b"]}`, `{"a":"y"}`)
	require.Contains(t, message, "- b: is required")
}

// TestHostile checks that calls are denied if their schema or their arguments are too large, too
// deep or circular, and that the messages stay short.
func TestHostile(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.Repeat("1,", 200_000) + "1]"
	objects := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	double := `{"$defs":{"d0":{}`
	for i := range 60 {
		double += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	many := "[" + strings.Repeat(`{"type":"string"},`, 20_000) + `{"type":"string"}]`
	for name, c := range map[string]struct{ schema, arguments, want string }{
		"itself":           {`{"$ref":"#"}`, `{}`, "nested too deeply, or refers to itself"},
		"each other":       {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`, "refers to itself"},
		"doubled 60 times": {double + `},"$ref":"#/$defs/d60"}`, `{}`, "too large"},
		"a long list":      {`{"properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":` + wide + `}`, "too large"},
		"compared": {
			`{"properties":{"a":{"items":{"enum":` + wide + `}}}}`, `{"a":[2,2,2]}`, "a[0]: want one of 1, 1, 1",
		},
		"alternatives": {
			`{"properties":{"a":{"items":{"anyOf":` + many + `}}}}`,
			`{"a":[1,2,3,4,5,6,7,8,9,10,11]}`,
			"fits none of 20001 alternatives",
		},
		"deep":              {`{"properties":{"a":{"$ref":"#"}}}`, objects, ""},
		"a bad one, inside": {`{"type":"object"}`, `{"a":1,"a":2}`, "cannot be read"},
	} {
		message, _ := judge(t, nil, c.schema, c.arguments)
		require.NotEmpty(t, message, name)
		require.Contains(t, message, c.want, name)
		require.Less(t, len(message), 2000, name)
	}
	message, _ := judge(
		t,
		nil,
		`{"additionalProperties":{"type":"null"}}`,
		`{"`+strings.Repeat("k", 500)+`":"`+strings.Repeat("é", 500)+`"}`,
	)
	require.Less(t, len(message), 1000)
	require.NotContains(t, message, "\ufffd")
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	message, _ := judge(t, object{"except": []string{"t*"}}, `{"required":["a"]}`, `{}`)
	require.Empty(t, message)
	message, _ = judge(t, nil, ``, `{"a":1}`)
	require.Empty(t, message, "a tool without a schema")
	message, _ = judge(t, nil, `{"properties":{"a":{}}}`, `{"b":1}`)
	require.Empty(t, message)
	message, _ = judge(t, object{"closed": true}, `{"properties":{"a":{}}}`, `{"b":1}`)
	require.Contains(t, message, "- b: is not known; want one of a")
	message, _ = judge(t, object{"max_errors": 2}, `{"required":["a","b","c"]}`, `{}`)
	require.Contains(t, message, "- b: is required\n- and more\n")
	for _, n := range []int{0, 101} {
		h := middlewaretest.NewDeclared(newValidate().declare())
		require.ErrorContains(t, h.Configure(object{"max_errors": n}), "is not 1 to 100")
	}
}

// TestAgreesWithAnother checks that random schemas and values give the same results as with another
// implementation.
func TestAgreesWithAnother(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(8, 15))
	v := newValidate()
	fits, rejected := 0, 0
	for range 8000 {
		schema, value := randomSchema(random, 3), object{"a": randomValue(random, 2), "b": randomValue(random, 1)}
		if random.IntN(4) == 0 {
			delete(value, "b")
		}
		rawSchema, err := json.Marshal(schema)
		require.NoError(t, err)
		rawValue, err := json.Marshal(value)
		require.NoError(t, err)
		other := &jsonschema.Schema{}
		require.NoError(t, json.Unmarshal(rawSchema, other), "%s", rawSchema)
		resolved, err := other.Resolve(nil)
		require.NoError(t, err, "%s", rawSchema)
		var plain any
		require.NoError(t, json.Unmarshal(rawValue, &plain))
		want := resolved.Validate(plain) == nil

		decoded, err := values.Read(rawValue)
		require.NoError(t, err)
		c := v.check(rawSchema, decoded)
		require.NoError(t, c.wrong, "%s", rawSchema)
		require.Empty(t, c.over)
		require.Equal(t, want, len(c.mistakes) == 0, "%s %s %v", rawSchema, rawValue, c.mistakes)
		if want {
			fits++
		} else {
			rejected++
		}
	}
	t.Logf("%d that fit were let through, %d that do not were refused: precision 1.000, recall 1.000", fits, rejected)
	require.Greater(t, fits, 1000)
	require.Greater(t, rejected, 1000)
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

func randomSchema(random *rand.Rand, depth int) object {
	s := object{}
	sub := func() object { return randomSchema(random, depth-1) }
	for range 1 + random.IntN(3) {
		n := random.IntN(18)
		if depth == 0 {
			n = random.IntN(9)
		}
		switch n {
		case 0:
			s["type"] = pick(random, "null", "boolean", "string", "number", "integer", "array", "object", "object")
		case 1:
			s["type"] = []string{"object", pick(random, "null", "string", "integer", "array")}
		case 2:
			s["enum"] = []any{randomValue(random, 1), randomValue(random, 1), randomValue(random, 0)}
		case 3:
			s["minimum"] = random.IntN(4) - 1
		case 4:
			s["maxLength"] = random.IntN(3)
		case 5:
			s["pattern"] = pick(random, "^x", "y$", "[0-9]")
		case 6:
			s["required"] = []string{pick(random, "a", "b")}
		case 7:
			s["maxItems"] = random.IntN(3)
		case 8:
			s["multipleOf"] = 1 + random.IntN(3)
		case 9, 10:
			s["properties"] = object{"a": sub(), "b": sub()}
		case 11:
			s["items"] = sub()
		case 12:
			s[pick(random, "anyOf", "oneOf", "allOf")] = []any{sub(), sub()}
		case 13:
			s["not"] = sub()
		case 14:
			s["if"], s["then"], s["else"] = sub(), sub(), sub()
		case 15:
			s["prefixItems"] = []any{sub()}
		case 16:
			s["contains"] = sub()
		case 17:
			s["additionalProperties"] = sub()
		}
	}
	return s
}

func randomValue(random *rand.Rand, depth int) any {
	n := random.IntN(9)
	if depth == 0 {
		n = random.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return random.IntN(2) == 0
	case 2, 3:
		return pick[any](random, -1, 0, 1, 2, 3, 1.5, 4)
	case 4, 5:
		return pick(random, "", "x", "xy", "y", "é7")
	case 6, 7:
		list := []any{}
		for range random.IntN(4) {
			list = append(list, randomValue(random, depth-1))
		}
		return list
	default:
		o := object{}
		for _, key := range []string{"a", "b", "c"} {
			if random.IntN(2) == 0 {
				o[key] = randomValue(random, depth-1)
			}
		}
		return o
	}
}
