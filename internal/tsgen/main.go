// Command tsgen generates the TypeScript types of the ABI. It copies the comments from the Go
// sources of package abi.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tsgen ABI-FOLDER FILE")
		os.Exit(2)
	}
	text, err := generate(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tsgen:", err)
		os.Exit(1)
	}
}
