package mcp_test

import (
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/host/tool/mcp"
)

// A server is given as a command or as the URL of its streamable HTTP transport.
func ExampleParseOptions() {
	for _, text := range []string{"uvx mcp-server-time --local-timezone=UTC", "https://mcp.example.com/mcp"} {
		o, err := mcp.ParseOptions(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("command %q, URL %q\n", o.Command, o.URL)
	}
	// Output:
	// command ["uvx" "mcp-server-time" "--local-timezone=UTC"], URL ""
	// command [], URL "https://mcp.example.com/mcp"
}
