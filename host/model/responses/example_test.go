package responses_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/responses"
)

func ExampleClient() {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"completed","output":[{"type":"message","role":"assistant",`+
			`"content":[{"type":"output_text","text":"Hello!"}]}]}`)
	}))
	defer endpoint.Close()

	client, err := responses.New(&model.ClientOptions{BaseURL: endpoint.URL, APIKey: "secret"})
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
