package model_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// This example repeats a call that fails with a retryable error, after a delay.
func ExampleWithRetry() {
	busy := &model.Error{Code: abi.CodeUnavailable, Message: "too many requests", Retryable: true}
	m := model.WithRetry(scripted.New(scripted.Reply{Err: busy}, scripted.Text("Hello!")), &model.RetryOptions{
		Base:      time.Millisecond,
		OnAttempt: func(_ context.Context, a model.Attempt) { fmt.Println("retry after:", a.Err) },
	})
	res, err := m.Generate(context.Background(), &model.Request{Messages: []abi.Message{abi.User("Hi")}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Message.Content)
	// Output:
	// retry after: too many requests
	// Hello!
}
