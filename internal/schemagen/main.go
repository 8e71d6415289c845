// Command schemagen writes the JSON Schema of agent.yaml to a file.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schemagen FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	b, err := agentfile.SchemaText()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
