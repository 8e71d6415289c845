package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// answerEvents is the number of sentences of an answer.
const answerEvents = 40

// upstream answers requests immediately.
func upstream(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body[:min(len(body), 100)], []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(
			w,
			`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
				`"content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
			strings.Repeat("A sentence. ", answerEvents),
		)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(
			w,
			"data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"+
				"\"delta\":%s,\"finish_reason\":%s}]}\n\n",
			delta,
			finish,
		)
		w.(http.Flusher).Flush()
	}
	chunk(`{"role":"assistant","content":""}`, "null")
	for i := range answerEvents {
		if i == answerEvents/2 && r.Header.Get("X-Wait") != "" {
			<-r.Context().Done()
			return
		}
		chunk(`{"content":"A sentence. "}`, "null")
	}
	chunk(`{}`, `"stop"`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
