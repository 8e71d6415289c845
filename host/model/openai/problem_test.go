package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

func manyFields(n int) string {
	fields := map[string]int{}
	for i := range n {
		fields[fmt.Sprint("f", i)] = i
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestFailures checks the error for each form in which endpoints fail.
func TestFailures(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"he"}`)
	for name, tc := range map[string]struct {
		status    int
		header    map[string]string
		body      string
		want      []string
		retryable bool
		after     time.Duration
		maxEvent  int
	}{
		"key in JSON":           {status: 400, body: `{"error":{"message":"quoted: ` + strings.ReplaceAll(key, "-", `\\u002D`) + `, in a URL: ` + strings.ReplaceAll(key, "-", "%2d") + `"}}`, want: []string{"quoted: ***, in a URL: ***"}},
		"key at the end":        {status: 400, body: `{"error":{"message":"` + strings.Repeat("x", 290) + " " + key + `"}}`, want: []string{"x ***"}},
		"401":                   {status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + key + `"}}`, want: []string{"answered 401 Unauthorized: Incorrect API key provided: ***; check that OPENAI_API_KEY"}},
		"403":                   {status: 403, body: `{"error":"not yours"}`, want: []string{"403 Forbidden: not yours", `OPENAI_API_KEY may use model "m"`}},
		"404":                   {status: 404, body: `<html><head><title>Not\nFound</title></head></html>`, want: []string{`an HTML page, "Not`, `has model "m" (--model)`, "OPENAI_BASE_URL"}},
		"400":                   {status: 400, body: `[{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}]`, want: []string{"400 Bad Request: bad schema"}},
		"422":                   {status: 422, body: `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, want: []string{"422", `[{"loc":["body","messages"]`}},
		"408":                   {status: 408, retryable: true},
		"409":                   {status: 409, retryable: true},
		"429":                   {status: 429, header: map[string]string{"Retry-After": "7"}, body: `{"error":{"message":"slow down","type":"requests"}}`, want: []string{"429 Too Many Requests: slow down"}, retryable: true, after: 7 * time.Second},
		"429 in milliseconds":   {status: 429, header: map[string]string{"Retry-After": "7", "Retry-After-Ms": "1500"}, retryable: true, after: 1500 * time.Millisecond},
		"429 without money":     {status: 429, body: `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`, want: []string{"quota is used up"}},
		"500":                   {status: 500, body: "oops\x00\xff\n" + strings.Repeat("x", 100_000), want: []string{"500 Internal Server Error: oops \ufffd xxx", "…"}, retryable: true},
		"502":                   {status: 502, body: "<!DOCTYPE html>\n<h1>bad", want: []string{"502 Bad Gateway: an HTML page"}, retryable: true},
		"529":                   {status: 529, want: []string{"answered 529"}, retryable: true},
		"redirect":              {status: 307, header: map[string]string{"Location": "https://user:pw@example.com/v2/chat/completions?key=x"}, want: []string{"if https://example.com/v2 is right, use it for --base-url"}},
		"HTML":                  {body: "<html><title>Sign in</title>", want: []string{`not JSON: an HTML page, "Sign in"; check that it is the address`}},
		"text":                  {body: "hello", want: []string{"not JSON: hello"}},
		"half a document":       {body: `{"choices":[{"mess`, want: []string{"JSON that is not whole"}, retryable: true},
		"nothing":               {body: "", want: []string{"without a finish_reason"}, retryable: true},
		"no choices":            {body: `{"choices":[]}`, want: []string{"no choices"}, retryable: true},
		"error in a document":   {body: `{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}`, want: []string{"an error: no such model"}},
		"error object":          {body: `{"object":"error","message":"busy","code":503}`, want: []string{"busy"}, retryable: true},
		"cut":                   {body: sse(text), want: []string{"without a finish_reason"}, retryable: true},
		"done but not finished": {body: sse(text, "[DONE]"), want: []string{"without a finish_reason"}, retryable: true},
		"error event":           {body: sse(text, `{"error":{"message":"overloaded","type":"overloaded_error","code":529}}`), want: []string{"an error: overloaded"}, retryable: true},
		"type first":            {body: sse(text, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), want: []string{"an error: slow down"}, retryable: true},
		"type and message":      {body: sse(text, `{"type":"error","message":"context too long","code":"context_length_exceeded"}`), want: []string{"context too long"}},
		"error after comments": {
			body: ": ping\n\n: ping\n\n" + sse(`{"error":{"message":{"odd":1}}}`), want: []string{`{"odd":1}`}, retryable: true,
		},
		"named event": {
			body: sse(text) + "event: error\ndata: upstream is gone\n\n", want: []string{"upstream is gone"}, retryable: true,
		},
		"named JSON event":  {body: sse(text) + "event: error\ndata: {\"message\":\"no\",\"code\":400}\n\n", want: []string{"an error: no"}},
		"error in a choice": {body: sse(`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"provider down"}}]}`), want: []string{"provider down"}, retryable: true},
		"event not JSON": {
			body: sse("{choices}"), want: []string{"an event that is not JSON: { choices}"}, retryable: true,
		},
		"event of another kind": {body: sse(`"hello"`), want: []string{"an event of another shape"}, retryable: true},
		"choice of another":     {body: sse(`{"choices":[1]}`), want: []string{"a choice of another shape"}, retryable: true},
		"message of another":    {body: sse(delta(`[1]`)), want: []string{"a message of another shape"}, retryable: true},
		"content of another":    {body: sse(delta(`{"content":7}`)), want: []string{"content of another shape"}, retryable: true},
		"calls of another":      {body: sse(delta(`{"tool_calls":{}}`)), want: []string{"tool calls of another shape"}, retryable: true},
		"call of another":       {body: sse(delta(`{"tool_calls":[7]}`)), want: []string{"a tool call of another shape"}, retryable: true},
		"deep":                  {body: sse(delta(`{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`)), want: []string{"not JSON"}, retryable: true},
		"large event": {
			body: "data: " + strings.Repeat("x", 5000) + "\n\n", want: []string{"an event of more than 4096 bytes"},
		},
		"large event in lines": {
			body: strings.Repeat("data: xxxx\n", 1000), want: []string{"an event of more than 4096 bytes"},
		},
		"large answer": {
			body: sse(text) + strings.Repeat(":"+strings.Repeat("x", 1000)+"\n", 70), want: []string{"more than 65536 bytes"},
		},
		"large document": {body: `{"x":"` + strings.Repeat("x", 70_000) + `"}`, want: []string{"more than 65536 bytes"}},
		"many calls":     {body: sse(delta(`{"tool_calls":[` + strings.Repeat(`{"function":{"name":"f","arguments":"{}"}},`, 1024) + `{"function":{"name":"f","arguments":"{}"}}]}`)), maxEvent: 65536, want: []string{"more than 1024 tool calls"}},
		"many fields":    {body: sse(delta(manyFields(257))), maxEvent: 65536, want: []string{"more than 256 fields"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := model.ClientOptions{MaxEvent: max(4096, tc.maxEvent), MaxAnswer: 65536}
			c := serve(t, opts, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tc.header {
					w.Header().Set(k, v)
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, tc.body)
			})
			_, _, err := stream(t, c)
			var e *model.Error
			require.ErrorAs(t, err, &e)
			for _, want := range append(tc.want, c.(*client).at.Shown) {
				require.Contains(t, e.Message, want)
			}
			require.NotContains(t, err.Error(), key)
			require.NotContains(t, fmt.Sprintf("%+v", errors.Unwrap(err)), key)
			require.Equal(t, tc.retryable, e.Retryable, e.Message)
			require.Equal(t, tc.after, e.RetryAfter)
			require.Equal(t, abi.CodeModel, e.Code)
			require.Less(t, len(e.Message), 1500)
			require.NotContains(t, e.Message, "\n")
		})
	}
}
