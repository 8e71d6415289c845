// Command sdkgen generates the types of the ABI and their JSON codecs for the SDKs in C, Rust
// and AssemblyScript. It copies the comments from the Go sources of packages abi and
// contract.
//
//	sdkgen ABI-FOLDER CONTRACT-FOLDER SDK-FOLDER
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/abisource"
)

//go:generate go run . ../../abi ../contract ../../guest-sdk

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sdkgen ABI-FOLDER CONTRACT-FOLDER SDK-FOLDER")
		os.Exit(2)
	}
	files, err := generate(os.Args[3], os.Args[1], os.Args[2])
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[3], name), []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdkgen:", err)
		os.Exit(1)
	}
}

// generate returns the content of each generated file by its path in the SDKs' directory.
func generate(sdkDir, abiDir, contractDir string) (map[string]string, error) {
	m, err := read(abiDir, contractDir)
	if err != nil {
		return nil, err
	}
	const header = "c/agent_middleware.h"
	old, err := os.ReadFile(filepath.Join(sdkDir, header))
	if err != nil {
		return nil, err
	}
	c, err := abisource.Replace(string(old), beginMark, endMark, m.c())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", header, err)
	}
	return map[string]string{
		header:                             c,
		"rust/src/types.rs":                m.rust(),
		"assemblyscript/assembly/types.ts": m.assemblyScript(),
	}, nil
}
