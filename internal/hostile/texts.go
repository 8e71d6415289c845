package hostile

import "strings"

// goodTexts are answers and patches that are valid for some hook.
var goodTexts = []string{
	`{}`, `null`,
	`{"instruction":"mine","messages":{"splice":[{"at":0,"remove":1,"insert":[{"role":"user","content":"x"}]}]}}`,
	`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c7","type":"function","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c7","content":"y"}]}`,
	`{"tools":{"add":[{"name":"mine","description":"d","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}],"remove":["t"]},"return_directly":["mine"]}`,
	`{"active":["t"]}`, `{"respond":{"role":"assistant","content":"no"}}`,
	`{"request":{"model":"other","params":{"temperature":0.5},"messages":{"splice":[{"at":1,"insert":[{"role":"system","content":"s"}]}]}}}`,
	`{"model":"other","params":{"temperature":0.5}}`,
	`{"response":{"message":{"role":"assistant","content":"mine","tool_calls":[{"id":"c9","type":"function","function":{"name":"t","arguments":"{\"n\":2}"}}]},"finish_reason":"tool_calls","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}}`,
	`{"chunks":[{"seq":1,"kind":"text","text":"a"},{"kind":"tool_call","index":0,"id":"c","name":"t","arguments":"{"},{"kind":"reasoning","text":"r"}]}`,
	`{"chunks":[]}`, `{"again":{"request":{},"reason":"more"}}`, `{"again":{"arguments":"{}","reason":"more"}}`,
	`{"arguments":"{\"n\":2}"}`, `{"result":{"content":"r","is_error":false,"extra":{"a":1}}}`,
	`{"result":{"content":[{"type":"text","text":"x"}]}}`,
	`{"decision":"allow"}`, `{"decision":"deny","message":"no"}`, `{"decision":"ask","payload":{}}`, `{"decision":"stop"}`,
	`{"messages":[{"role":"tool","tool_call_id":"c1","content":"t-ok"}]}`,
	`{"final":{"role":"assistant","content":"f"}}`, `{"stop":{"reason":"r","code":"c"}}`, `{"interrupt":{"reason":"r"}}`,
	`{"name":"event","data":{"a":[1,2,3]}}`, `{"code":"denied","message":"m"}`,
	`key`, `run/shared`, `1`, `"text"`, `[1,2]`,
	`{"name":"me","hooks":["before_agent"],"messages":"lazy","events":["tool_call"],"config_schema":{"type":"object"}}`,
}

// badTexts are parts that are invalid or unusual in JSON.
var badTexts = []string{
	"\xff", "\x00", "\x1b[2J", `\ud800`, `\u0000`, "1e999999", "-0", "9007199254740993", "NaN", "//", "}", "{", "[", `"`, ",", ":",
	strings.Repeat(
		"[",
		100,
	), strings.Repeat(`{"a":`, 70), strings.Repeat("9", 70), `"instruction":1,`, `"Decision":"allow",`, `"id":"msg_1",`,
	`"role":"tool",`, `"at":-1,`, `"at":4294967296,`, `"remove":99999999999,`, `"tool_call_id":"c2",`, `{},`, "\ufeff",
	"\u202e",
}

// text returns a string to pass to the host: valid, mutated, or invalid.
func (p *program) text() string {
	s := goodTexts[p.IntN(len(goodTexts))]
	for range p.IntN(4) * p.IntN(2) {
		at := p.IntN(len(s) + 1)
		end := min(len(s), at+p.IntN(12))
		switch p.IntN(4) {
		case 0:
			s = s[:at] + badTexts[p.IntN(len(badTexts))] + s[at:]
		case 1:
			s = s[:at] + s[end:]
		case 2:
			s = s[:end] + s[at:]
		default:
			other := goodTexts[p.IntN(len(goodTexts))]
			s = s[:at] + other[p.IntN(len(other)):] + s[end:]
		}
	}
	if len(s) == 0 {
		return "{}"
	}
	return s
}
