package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Slow answers have slowChunks chunks, and tickSteps is the number of steps of runs of the model ticks.
const (
	slowChunks = 50
	slowPause  = 100 * time.Millisecond
	tickSteps  = 400
	tickPause  = 50 * time.Millisecond
)

// A chatModel is a server with OpenAI's chat API. The model "steps" calls a tool three times and then
// answers, at once. The model "ticks" does the same tickSteps times, and waits tickPause before each
// answer. Each chunk of the model "slow" is the time at which it was sent, in nanoseconds.
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

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	calls, most := bytes.Count(body, []byte(`"role":"tool"`)), 3
	switch {
	case bytes.Contains(body, []byte(`"model":"slow"`)):
		for range slowChunks {
			select {
			case <-time.After(slowPause):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(
				w,
				chunk(`{"role":"assistant","content":"`+strconv.FormatInt(time.Now().UnixNano(), 10)+` "}`, "null"),
			)
			_ = flush.Flush()
		}
		calls = most
	case bytes.Contains(body, []byte(`"model":"ticks"`)):
		most = tickSteps
		time.Sleep(tickPause)
	}
	if calls < most {
		_, _ = io.WriteString(
			w,
			chunk(fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d","type":"function",`+
				`"function":{"name":"calculator","arguments":"{\"expression\":\"6*7\"}"}}]}`, calls), "null")+chunk("{}", `"tool_calls"`),
		)
	} else {
		_, _ = io.WriteString(w, chunk(`{"role":"assistant","content":"It is done."}`, "null")+chunk("{}", `"stop"`))
	}
	_, _ = io.WriteString(
		w,
		`data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`+
			"\n\ndata: [DONE]\n\n",
	)
}

// chunk returns an event of the stream with a delta and a reason to finish, both JSON.
func chunk(delta, reason string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + "}]}\n\n"
}
