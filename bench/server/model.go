package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The slow model streams for 10 s, so that readers have time to connect to its runs.
const (
	slowParts = 100
	slowPause = 100 * time.Millisecond
)

// A chatModel is a server with OpenAI's chat API. It answers at once, except for the model "slow",
// whose answers take 10 s.
type chatModel struct {
	url    string
	server *http.Server
}

func startModel() (*chatModel, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &chatModel{url: "http://" + l.Addr().String() + "/v1"}
	m.server = &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

func (m *chatModel) close() { _ = m.server.Close() }

const whole = `{"id":"c","object":"chat.completion","model":"quick","choices":[{"index":0,"message":{"role":"assistant","content":"It is done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	slow := bytes.Contains(body, []byte(`"model":"slow"`))
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		if slow {
			time.Sleep(slowParts * slowPause)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	parts, pause := 1, time.Duration(0)
	if slow {
		parts, pause = slowParts, slowPause
	}
	flush := http.NewResponseController(w)
	for range parts {
		fmt.Fprintf(
			w,
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"It is done. \"}}]}\n\n",
		)
		if pause > 0 {
			_ = flush.Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	}
	_, _ = io.WriteString(
		w,
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}\n\ndata: [DONE]\n\n",
	)
}
