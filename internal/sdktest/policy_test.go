package sdktest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// policies runs a test on every port of the example tool-policy.
func policies(t *testing.T, test func(t *testing.T, p *policy)) {
	t.Helper()
	met := ported(t, "tool-policy", func(t *testing.T, h *Host) { test(t, &policy{t, h}) })
	require.Positive(t, met)
}

type policy struct {
	t *testing.T
	h *Host
}

type object = map[string]any

func (p *policy) configure(config any) (failed string) {
	p.t.Helper()
	input, err := json.Marshal(object{"entry": "e", "config": config})
	require.NoError(p.t, err)
	output, ok, err := p.h.Hook(p.t.Context(), "configure", string(input))
	require.NoError(p.t, err)
	require.Equal(p.t, output == "", ok)
	return output
}

func (p *policy) decide(tool, arguments string) string {
	p.t.Helper()
	call, err := json.Marshal(abi.Call{ID: "c", Name: tool, Arguments: arguments})
	require.NoError(p.t, err)
	output, ok, err := p.h.Hook(p.t.Context(), "gate_tool", `{`+envelope+`,"call":`+string(call)+`,"tool":{"name":"t"}}`)
	require.NoError(p.t, err)
	require.True(p.t, ok, output)
	var answer abi.GateToolAnswer
	_, err = abijson.Decode([]byte(output), &answer)
	require.NoError(p.t, err)
	require.Equal(p.t, answer.Decision != "allow", answer.Message != "", "who denies or asks says why")
	return answer.Decision
}

func on(action, tool string, conditions ...string) object {
	r := object{"tools": []string{tool}, "action": action}
	list := []object{}
	for i := 0; i < len(conditions); i += 2 {
		list = append(list, object{"path": conditions[i], "pattern": conditions[i+1]})
	}
	r["arguments"] = list
	return r
}

// TestPatterns checks that the small matchers of the ports agree with Go's regexp package, and
// reject patterns that they do not support.
func TestPatterns(t *testing.T) {
	t.Parallel()
	texts := []string{
		"",
		"a",
		"b",
		"ab",
		"ba",
		"aab",
		"abab",
		"abc",
		"secret",
		"a/secret/b",
		"secrets",
		"x@example.com",
		"x@example.comx",
		"A",
		"äöü",
		"ä",
		"日本",
		"a\nb",
		"12",
		"1234",
		"12345",
		"-",
		"a-b",
		"]",
		"^",
		"a.b",
		"a b",
		"_",
		"\t",
		"😀",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaac",
	}
	patterns := []string{
		"a", "ab|ba", "a|", "(a|b)+c", "^a", "b$", "^$", "^(a|b)*$", "a?b", "a+b", "a*b", ".", "^.$", "(^|/)secret(/|$)",
		`@example\.com$`, "[a-c]+$", "[^a-c]", "[]]", "[^]a]", "[a-]", "[-a]", `[\d_]`, `\d{2,3}$`, `^\d{4}$`, `^\d{2,}$`,
		`a{2}b`, "a{0}b", "a{,2}", "a{", `\w+`, `^\W$`, `\s`, `\S\S`, `\bb`, `\Bb`, "ä|ö", "^[ä-ü]+$", "日.", "^.本$", "(?i)A",
		"(?i)[A-C]b", "(?i)ÄB|b", "(?s)a.b", "a.b", `\.`, `[\]^]`, "(?:ab)+", "((a*)*)*c", "(a*)*$", "(a+)+$x",
		"^(a?){5}a{5}", "x*", "(|a)+", "()", `\t`, `a\nb`, `[^\w]`, `[\W\d]`,
	}
	refused := []string{
		"(",
		")",
		"a)",
		"[",
		"[a",
		"*",
		"+a",
		"a**",
		`\`,
		`\p{L}`,
		"[b-a]",
		"a{3,2}",
		"(?P<n>a)",
		"(?=a)",
		"[[:alpha:]]",
		"(?m)a",
		"a{1000}{1000}",
	}
	policies(t, func(t *testing.T, p *policy) {
		for _, pattern := range patterns {
			want := regexp.MustCompile(pattern)
			require.Empty(t, p.configure(object{"rules": []object{on("deny", "t", "x", pattern)}}), pattern)
			for _, text := range texts {
				arguments, err := json.Marshal(object{"x": text})
				require.NoError(t, err)
				require.Equal(t, want.MatchString(text), p.decide("t", string(arguments)) == "deny", "%q in %q", pattern, text)
			}
		}
		for _, pattern := range refused {
			require.Contains(
				t,
				p.configure(object{"rules": []object{on("deny", "t", "x", pattern)}}),
				"rules[0].arguments[0].pattern",
				pattern,
			)
		}
	})
}

// TestSlowPattern checks that the ports match a string of 5,000 letters on which backtracking would
// take exponential time.
func TestSlowPattern(t *testing.T) {
	t.Parallel()
	policies(t, func(t *testing.T, p *policy) {
		require.Empty(t, p.configure(object{"rules": []object{on("deny", "t", "", "(a|aa|a*)*b$")}}))
		require.Equal(t, "allow", p.decide("t", `{"x":"`+strings.Repeat("a", 5000)+`"}`))
	})
}

// TestPolicies checks that the ports make the decisions of the example in Go, and reject invalid
// configurations.
func TestPolicies(t *testing.T) {
	t.Parallel()
	rules := func(list ...object) object { return object{"rules": list} }
	only := func(list ...object) object { return object{"rules": list, "default": "deny"} }
	secret := rules(on("deny", "read_*", "path", `(^|/)secret`))
	data := only(
		on("allow", "*", "to.*", `@example\.com$`),
		on("allow", "read", "path", `^data/`),
		on("deny", "read", "path", `\.\.`),
	)
	deep := rules(on("deny", "*", "", "drop table"))
	amount := rules(on("deny", "pay", "amount", `^[0-9]{3,}$`), on("deny", "pay", "items.0.ok", `^(true|null)$`))
	policies(t, func(t *testing.T, p *policy) {
		for _, c := range []struct {
			config                object
			tool, arguments, want string
		}{
			{object{}, "t", `{}`, "allow"},
			{object{"default": "deny"}, "t", `{}`, "deny"},
			{object{"default": "ask"}, "t", `{}`, "ask"},
			{secret, "read_file", `{"path":"a/secret.txt"}`, "deny"},
			{secret, "write_file", `{"path":"secret.txt"}`, "allow"},
			{secret, "read_file", `{"file":"secret.txt"}`, "allow"},
			{rules(on("deny", "read")), "read_all", `{}`, "allow"},
			{rules(on("deny", "r.ad")), "read", `{}`, "allow"},
			{rules(on("deny", "a*b*c")), "a_b_b_c", `{}`, "deny"},
			{rules(on("deny", "a*b*c")), "a_c_b", `{}`, "allow"},
			{secret, "read_file", `{"path":"\u0073ecret"}`, "deny"},
			{secret, "read_file", `{"\u0070ath":"secret"}`, "deny"},
			{secret, "read_file", `{"PATH":"secret"}`, "deny"},
			{secret, "read_file", `{"path":"x","path":"secret"}`, "deny"},
			{secret, "read_file", `{"path":`, "deny"},
			{secret, "read_file", `[]`, "deny"},
			{secret, "read_file", ``, "allow"},
			{secret, "read_file", `{"path":["x","secret"]}`, "deny"},
			{secret, "read_file", `{"path":{"is":["secret"]}}`, "deny"},
			{data, "read", `{"path":"data/x"}`, "allow"},
			{data, "read", `{"path":"data/../x"}`, "deny"},
			{data, "read", `{"path":"x"}`, "deny"},
			{data, "mail", `{"to":["a@example.com","b@example.com"]}`, "allow"},
			{data, "mail", `{"to":["a@example.com","b@evil.com"]}`, "deny"},
			{data, "read", `{"path":"data/x","Path":"/etc"}`, "deny"},
			{data, "mail", `{"to":[]}`, "deny"},
			{deep, "sql", `{"a":[{"b":"drop table x"}]}`, "deny"},
			{deep, "sql", `{"a":[{"b":"select"}]}`, "allow"},
			{amount, "pay", `{"amount":100}`, "deny"},
			{amount, "pay", `{"amount":1e2}`, "deny"},
			{amount, "pay", `{"amount":0.1e+3}`, "deny"},
			{amount, "pay", `{"amount":1e00000003}`, "deny"},
			{amount, "pay", `{"amount":1E+00000000000000000000000002}`, "deny"},
			{amount, "pay", `{"amount":1000e-00000001}`, "deny"},
			{amount, "pay", `{"amount":1e-00000003}`, "allow"},
			{amount, "pay", `{"amount":0.` + strings.Repeat("0", 70) + `1e73}`, "deny"},
			{amount, "pay", `{"amount":0.` + strings.Repeat("0", 1000) + `1e00001003}`, "deny"},
			{rules(on("deny", "*", "n", "^0$")), "t", `{"n":-0e99999999999999999999}`, "deny"},
			{rules(on("deny", "*", "n", "^1e99999999999999999999$")), "t", `{"n":1e99999999999999999999}`, "deny"},
			{amount, "pay", `{"amount":100.0}`, "deny"},
			{amount, "pay", `{"amount":99}`, "allow"},
			{amount, "pay", `{"amount":-100}`, "allow"},
			{rules(on("deny", "*", "n", "^9007199254740993$")), "t", `{"n":9007199254740993}`, "deny"},
			{rules(on("deny", "*", "n", "^1e999$")), "t", `{"n":1e999}`, "deny"},
			{rules(on("deny", "*", "n", `^0\.0015$`)), "t", `{"n":1.50e-3}`, "deny"},
			{rules(on("deny", "*", "n", `^-12\.5$`)), "t", `{"n":-0.125e2}`, "deny"},
			{rules(on("deny", "*", "n", `^0$`)), "t", `{"n":-0}`, "deny"},
			{rules(on("deny", "*", "n", `^0$`)), "t", `{"n":-0.0}`, "deny"},
			{amount, "pay", `{"items":[{"ok":true}]}`, "deny"},
			{amount, "pay", `{"items":[{"ok":null}]}`, "deny"},
			{amount, "pay", `{"items":[{"ok":false},{"ok":true}]}`, "allow"},
			{rules(on("deny", "*", "a", "1", "b", "2")), "t", `{"a":1}`, "allow"},
			{rules(on("deny", "*", "a", "1", "b", "2")), "t", `{"a":1,"b":2}`, "deny"},
			{rules(on("ask", "*"), on("deny", "t")), "t", `{}`, "deny"},
			{only(on("allow", "*"), on("ask", "t")), "t", `{}`, "ask"},
		} {
			require.Empty(t, p.configure(c.config))
			require.Equal(t, c.want, p.decide(c.tool, c.arguments), "%v: %s %s", c.config, c.tool, c.arguments)
		}
		for want, config := range map[string]any{
			`config: default: \"no\" is not one of allow, ask, deny`:            object{"default": "no"},
			`config: rules[1].action: \"block\" is not one of allow, ask, deny`: rules(on("deny", "t"), on("block", "t")),
			"config: rules[0].action: allow has no effect if":                   rules(on("allow", "t")),
			"config: rules[0].tools: name at least one tool":                    rules(object{"action": "deny"}),
			"config: rules[0].tools[0]: a tool's name is never empty":           rules(on("deny", "")),
			"config: rules[0]: want an object":                                  object{"rules": []any{nil}},
			"config: rules[0].arguments[1].pattern: ":                           rules(on("deny", "t", "a", "x", "b", "(")),
			"config: rules[0].arguments[0].pattern: want a pattern":             rules(on("deny", "t", "a", "")),
			`config: rules[0].arguments[0].path: \"a..b\" has an empty key`:     rules(on("deny", "t", "a..b", "x")),
		} {
			require.Contains(t, p.configure(config), want)
		}
	})
}
