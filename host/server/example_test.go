package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/host/store"
)

// This example serves a platform in its own process. Production code calls Serve with a listener
// instead of using httptest.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, filepath.Join(dir, "platform.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	srv, err := server.New(&server.Options{Store: s, Host: h})
	if err != nil {
		log.Fatal(err)
	}
	key, err := srv.OperatorKey(ctx, false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the operator has a key:", key != "")

	listener := httptest.NewServer(srv)
	defer listener.Close()
	res, err := http.Get(listener.URL + "/openapi.json")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output:
	// the operator has a key: true
	// 200 OK
}
