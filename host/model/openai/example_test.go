package openai_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/openai"
)

// This example calls an endpoint that implements the Chat Completions API.
func ExampleNew() {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}]}`)
	}))
	defer endpoint.Close()

	client, err := openai.New(&model.ClientOptions{BaseURL: endpoint.URL, APIKey: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	res, err := client.Generate(
		context.Background(),
		&model.Request{Model: "gpt-5", Messages: []abi.Message{abi.User("Hi")}},
		nil,
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Message.Content)
	// Output: Hello!
}
