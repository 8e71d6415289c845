package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// exampleServer returns a fake server with one agent, so that the examples need no real server.
func exampleServer() *httptest.Server {
	mux := http.NewServeMux()
	respond := func(w http.ResponseWriter, status int, contentType string, v any) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("POST /v1/runs", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusAccepted, "application/json", &api.Run{ID: "run_1", Agent: "support", Status: "running"})
	})
	mux.HandleFunc("GET /v1/runs/run_1/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range []abi.Event{{Type: abi.EventRunStarted}, {Type: abi.EventRunFinished, FinishReason: abi.RunStop}} {
			e.Seq = int64(i) + 1
			b, _ := json.Marshal(&e)
			_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
		}
	})
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			respond(
				w,
				http.StatusOK,
				"application/json",
				map[string]any{"agents": []api.Agent{{Name: "billing"}}, "next_cursor": "c1"},
			)
			return
		}
		respond(w, http.StatusOK, "application/json", map[string]any{"agents": []api.Agent{{Name: "support"}}})
	})
	mux.HandleFunc("GET /v1/runs/{run}", func(w http.ResponseWriter, r *http.Request) {
		respond(
			w,
			http.StatusNotFound,
			"application/problem+json",
			&api.Problem{Type: api.ProblemType + api.CodeNotFound, Title: "Not found",
				Detail: "run " + r.PathValue("run") + ": no such run"},
		)
	})
	return httptest.NewServer(mux)
}

// This example starts a run and follows its events until it finishes or pauses.
func ExampleClient_Follow() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(server.URL, "ar_key", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	run, err := c.StartRun(ctx, &api.StartRun{Agent: "support", Input: "Where is my order?"}, "order-17")
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.Follow(ctx, run.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Seq, event.Type)
	}
	// Output:
	// 1 run_started
	// 2 run_finished
}

// This example reads all pages of a list.
func ExampleCollect() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(server.URL, "ar_key", nil)
	if err != nil {
		log.Fatal(err)
	}
	agents, err := client.Collect(0, func(p client.Page) ([]*api.Agent, string, error) {
		return c.Agents(context.Background(), p)
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range agents {
		fmt.Println(a.Name)
	}
	// Output:
	// billing
	// support
}

// This example distinguishes errors by the problem's code.
func ExampleClient_Run() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(server.URL, "ar_key", nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Run(context.Background(), "run_2")
	var problem *api.Problem
	if errors.As(err, &problem) && problem.Code() == api.CodeNotFound {
		fmt.Println(problem)
	}
	// Output:
	// run run_2: no such run
}
