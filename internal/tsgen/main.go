// Command tsgen generates the TypeScript types of the ABI. It copies the comments from the Go
// sources of packages abi and contract.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: tsgen ABI-FOLDER CONTRACT-FOLDER FILE")
		os.Exit(2)
	}
	text, err := generate(os.Args[1], os.Args[2])
	if err == nil {
		err = os.WriteFile(os.Args[3], []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tsgen:", err)
		os.Exit(1)
	}
}
