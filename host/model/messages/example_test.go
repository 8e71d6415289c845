package messages_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/messages"
)

func ExampleClient() {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"Hello!"}],`+
			`"stop_reason":"end_turn"}`)
	}))
	defer endpoint.Close()

	client, err := messages.New(&model.ClientOptions{BaseURL: endpoint.URL, APIKey: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	res, err := client.Generate(
		context.Background(),
		&model.Request{Model: "claude-sonnet-5", Messages: []abi.Message{abi.User("Hi")}},
		nil,
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Message.Content)
	// Output: Hello!
}
