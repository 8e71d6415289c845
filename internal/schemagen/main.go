// Command schemagen writes the JSON Schemas of agent.yaml and gateway.yaml to a folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schemagen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	texts, err := agentfile.SchemaTexts()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, b := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
