package main

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

func newHost() *middlewaretest.Host {
	return middlewaretest.New(middleware.Options{}, newPolicy())
}

type object = map[string]any

func rules(list ...object) object { return object{"rules": list} }

func only(list ...object) object { return object{"rules": list, "default": "deny"} }

func on(action, tool string, conditions ...string) object {
	r := object{"tools": []string{tool}, "action": action}
	var list []object
	for i := 0; i < len(conditions); i += 2 {
		list = append(list, object{"path": conditions[i], "pattern": conditions[i+1]})
	}
	if list != nil {
		r["arguments"] = list
	}
	return r
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	secret := rules(on("deny", "read_*", "path", `(^|/)secret`))
	data := only(
		on("allow", "*", "to.*", `@example\.com$`),
		on("allow", "read", "path", `^data/`),
		on("deny", "read", "path", `\.\.`),
	)
	deep := rules(on("deny", "*", "", "drop table"))
	amount := rules(on("deny", "pay", "amount", `^[0-9]{3,}$`), on("deny", "pay", "items.0.ok", `^(true|null)$`))
	for name, c := range map[string]struct {
		config    object
		tool      string
		arguments string
		want      string
	}{
		"nothing configured":         {object{}, "t", `{}`, "allow"},
		"default deny":               {object{"default": "deny"}, "t", `{}`, "deny"},
		"pattern of names":           {secret, "read_file", `{"path":"a/secret.txt"}`, "deny"},
		"other tool":                 {secret, "write_file", `{"path":"secret.txt"}`, "allow"},
		"other argument":             {secret, "read_file", `{"file":"secret.txt"}`, "allow"},
		"names match as a whole":     {rules(on("deny", "read")), "read_all", `{}`, "allow"},
		"names are no expressions":   {rules(on("deny", "r.ad")), "read", `{}`, "allow"},
		"unicode escapes":            {secret, "read_file", `{"path":"\u0073ecret"}`, "deny"},
		"escaped keys":               {secret, "read_file", `{"\u0070ath":"secret"}`, "deny"},
		"keys of another case":       {secret, "read_file", `{"PATH":"secret"}`, "deny"},
		"a key twice":                {secret, "read_file", `{"path":"x","path":"secret"}`, "deny"},
		"no JSON":                    {secret, "read_file", `{"path":`, "deny"},
		"no object":                  {secret, "read_file", `[]`, "deny"},
		"no arguments":               {secret, "read_file", ``, "allow"},
		"in a list":                  {secret, "read_file", `{"path":["x","secret"]}`, "deny"},
		"in an object":               {secret, "read_file", `{"path":{"is":["secret"]}}`, "deny"},
		"allowed":                    {data, "read", `{"path":"data/x"}`, "allow"},
		"deny beats allow":           {data, "read", `{"path":"data/../x"}`, "deny"},
		"no rule":                    {data, "read", `{"path":"x"}`, "deny"},
		"all recipients are good":    {data, "mail", `{"to":["a@example.com","b@example.com"]}`, "allow"},
		"one recipient is not":       {data, "mail", `{"to":["a@example.com","b@evil.com"]}`, "deny"},
		"a second key of other case": {data, "read", `{"path":"data/x","Path":"/etc"}`, "deny"},
		"nothing to allow":           {data, "mail", `{"to":[]}`, "deny"},
		"anywhere":                   {deep, "sql", `{"a":[{"b":"drop table x"}]}`, "deny"},
		"anywhere else":              {deep, "sql", `{"a":[{"b":"select"}]}`, "allow"},
		"numbers":                    {amount, "pay", `{"amount":100}`, "deny"},
		"numbers with an exponent":   {amount, "pay", `{"amount":1e2}`, "deny"},
		"zeros before an exponent":   {amount, "pay", `{"amount":1e00000003}`, "deny"},
		"numbers with zeros":         {amount, "pay", `{"amount":100.0}`, "deny"},
		"small numbers":              {amount, "pay", `{"amount":99}`, "allow"},
		"large numbers are exact": {
			rules(on("deny", "*", "n", "^9007199254740993$")), "t", `{"n":9007199254740993}`, "deny",
		},
		"numbers out of range": {rules(on("deny", "*", "n", "^1e999$")), "t", `{"n":1e999}`, "deny"},
		"tiny and huge": {
			rules(on("deny", "*", "n", `^(1e-10|1e\+21|0)$`)), "t", `{"n":[0.0000000001]}`, "deny",
		},
		"zero":                     {rules(on("deny", "*", "n", `^0$`)), "t", `{"n":-0}`, "deny"},
		"zero with a fraction":     {rules(on("deny", "*", "n", `^0$`)), "t", `{"n":-0.0}`, "deny"},
		"items by number":          {amount, "pay", `{"items":[{"ok":true}]}`, "deny"},
		"null":                     {amount, "pay", `{"items":[{"ok":null}]}`, "deny"},
		"another item":             {amount, "pay", `{"items":[{"ok":false},{"ok":true}]}`, "allow"},
		"all conditions must hold": {rules(on("deny", "*", "a", "1", "b", "2")), "t", `{"a":1}`, "allow"},
		"asked":                    {rules(on("ask", "pay", "amount", `^[0-9]{3,}$`)), "pay", `{"amount":100}`, "ask"},
		"not asked":                {rules(on("ask", "pay", "amount", `^[0-9]{3,}$`)), "pay", `{"amount":10}`, "allow"},
		"ask beats allow":          {only(on("ask", "pay"), on("allow", "*")), "pay", `{}`, "ask"},
		"allow does not beat ask":  {only(on("allow", "*"), on("ask", "pay")), "pay", `{}`, "ask"},
		"deny beats ask":           {rules(on("ask", "*"), on("deny", "pay")), "pay", `{}`, "deny"},
		"ask does not beat deny":   {rules(on("deny", "pay"), on("ask", "*")), "pay", `{}`, "deny"},
		"asked by default":         {object{"default": "ask", "rules": []object{on("allow", "read")}}, "pay", `{}`, "ask"},
		"allowed, not asked": {
			object{"default": "ask", "rules": []object{on("allow", "read")}}, "read", `{}`, "allow",
		},
		"look-alike letters":   {secret, "read_file", `{"path":"ѕeсret"}`, "deny"},
		"invisible characters": {secret, "read_file", "{\"path\":\"sec\u200bret\"}", "deny"},
		"percent escapes":      {secret, "read_file", `{"path":"a%2Fsecret"}`, "deny"},
		"base64":               {deep, "run", `{"script":"echo ZHJvcCB0YWJsZSB4 | base64 -d"}`, "deny"},
		"JSON in a string":     {deep, "post", `{"body":"{\"sql\":[\"drop\\u0020table x\"]}"}`, "deny"},
		"not decoded if not wanted": {
			object{"decode": false, "rules": []object{on("deny", "*", "", "drop table")}},
			"run",
			`{"script":"ZHJvcCB0YWJsZSB4"}`,
			"allow",
		},
		"there and back again": {
			rules(on("deny", "*", "path", `^secret(/|$)`)), "read_file", `{"path":"./a/..//b/../secret/x"}`, "deny",
		},
		"backslashes": {secret, "read_file", `{"path":"a\\secret\\x"}`, "deny"},
		"dots at the end": {
			rules(on("deny", "*", "path", `(^|/)secret(/|$)`)), "read_file", `{"path":"a/secret. /x"}`, "deny",
		},
		"NUL": {
			rules(on("deny", "*", "path", `\.key$`)), "read_file", `{"path":"a.key\u0000.png"}`, "deny",
		},
		"NUL, escaped": {
			rules(on("deny", "*", "path", `\.key$`)), "read_file", `{"path":"a.key%00.png"}`, "deny",
		},
		"an overlong slash":       {secret, "read_file", `{"path":"a%c0%afsecret"}`, "deny"},
		"percent escapes, twice":  {secret, "read_file", `{"path":"a%252Fsecret"}`, "deny"},
		"named entities":          {secret, "read_file", `{"path":"a&sol;secret"}`, "deny"},
		"octal escapes":           {secret, "read_file", `{"path":"$'a/\\163ecret'"}`, "deny"},
		"a number in a string":    {amount, "pay", `{"amount":" +1e3 "}`, "deny"},
		"with zeros before it":    {amount, "pay", `{"amount":"000_100.0"}`, "deny"},
		"a small one in a string": {amount, "pay", `{"amount":"009.50"}`, "allow"},
		"what allows is not decoded": {
			only(on("allow", "mail", "to", `@example\.com$`)), "mail", `{"to":"amy@exаmple.com"}`, "deny",
		},
		"all conditions hold": {rules(on("deny", "*", "a", "1", "b", "2")), "t", `{"a":1,"b":2}`, "deny"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost()
			require.NoError(t, h.Configure(c.config))
			answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: c.tool, Arguments: c.arguments}})
			require.NoError(t, err)
			require.Equal(t, c.want, answer.Decision)
			require.Equal(t, c.want != "allow", answer.Message != "", "a denial says why")
		})
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	h := newHost()
	r := on("deny", "rm")
	r["message"] = "Ask an operator."
	require.NoError(t, h.Configure(rules(on("deny", "other"), r)))
	answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: "rm", Arguments: "{}"}})
	require.NoError(t, err)
	require.Equal(t, "Ask an operator.", answer.Message)
}

// TestAsk checks that the first of the strictest matching rules provides the message, and that a rule
// that sets no message has a default one.
func TestAsk(t *testing.T) {
	t.Parallel()
	h := newHost()
	first, second := on("ask", "pay"), on("ask", "*")
	second["message"] = "And this?"
	require.NoError(t, h.Configure(rules(second, first)))
	answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: "pay", Arguments: "{}"}})
	require.NoError(t, err)
	require.Equal(t, "And this?", answer.Message)
	require.JSONEq(t, `{"rule":0}`, string(answer.Payload))
	require.NoError(t, h.Configure(rules(first)))
	answer, err = h.GateTool(abi.GateToolInput{Call: abi.Call{Name: "pay", Arguments: "{}"}})
	require.NoError(t, err)
	require.Equal(t, "May pay be called with these arguments?", answer.Message)
}

// TestTooMuchEncoded checks that a policy denies a call whose arguments have too many layers of
// encoding, but only if a rule covers its tool.
func TestTooMuchEncoded(t *testing.T) {
	t.Parallel()
	h := newHost()
	text := "drop table"
	for range 7 {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	in := abi.GateToolInput{Call: abi.Call{Name: "sql", Arguments: `{"q":"` + text + `"}`}}
	require.NoError(t, h.Configure(rules(on("deny", "sql", "q", "drop"))))
	answer, err := h.GateTool(in)
	require.NoError(t, err)
	require.Equal(t, "deny", answer.Decision)
	require.Contains(t, answer.Message, "cannot check the arguments")
	require.NoError(t, h.Configure(rules(on("deny", "other", "q", "drop"))))
	answer, err = h.GateTool(in)
	require.NoError(t, err)
	require.Equal(t, "allow", answer.Decision)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]any{
		`config: default: "no" is not one of allow, ask, deny`:            object{"default": "no"},
		`config: rules[1].action: "block" is not one of allow, ask, deny`: rules(on("deny", "t"), on("block", "t")),
		"config: rules[0].action: allow has no effect if":                 rules(on("allow", "t")),
		"config: rules[0].tools: name at least one tool":                  rules(object{"action": "deny"}),
		"config: rules[0].tools[0]: a tool's name is never empty":         rules(on("deny", "")),
		"config: rules[0]: want an object":                                object{"rules": []any{nil}},
		"config: rules[0].arguments[1].pattern: error parsing regexp":     rules(on("deny", "t", "a", "x", "b", "(")),
		"config: rules[0].arguments[0].pattern: want a pattern":           rules(on("deny", "t", "a", "")),
		`config: rules[0].arguments[0].path: "a..b" has an empty key`:     rules(on("deny", "t", "a..b", "x")),
		"rules[0].actoin": rules(object{"tools": []string{"t"}, "actoin": "deny"}),
		"rules[0].tools":  rules(object{"tools": "t", "action": "deny"}),
	} {
		require.ErrorContains(t, newHost().Configure(config), want)
	}
}

// FuzzDecide checks that the gate returns a valid decision, or an error, for every configuration
// and every call.
func FuzzDecide(f *testing.F) {
	f.Add("t*", "a.*.b", "x+", "tool", `{"a":[{"b":"x"}]}`)
	f.Add("*", "", ".", "", `{"A":1e5,"a":null}`)
	f.Fuzz(func(t *testing.T, name, path, pattern, tool, arguments string) {
		h := newHost()
		if h.Configure(rules(on("deny", name, path, pattern))) != nil {
			return
		}
		answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: tool, Arguments: arguments}})
		if err == nil {
			require.Contains(t, []string{"allow", "ask", "deny"}, answer.Decision)
		}
	})
}
