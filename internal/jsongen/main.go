// Command jsongen generates the codecs of package abijson for the types of packages abi and
// contract. Guests encode and decode JSON in every hook, so the codecs do not use reflection.
//
//	jsongen ABI-FOLDER CONTRACT-FOLDER CODEC-FOLDER
//
// It reads the hand-written methods in the folder of package abijson, and writes json.go and
// jsonread.go there. jsonread.go has the code that modules do not need: strict decoding.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: jsongen ABI-FOLDER CONTRACT-FOLDER CODEC-FOLDER")
		os.Exit(2)
	}
	files, err := generate(os.Args[1], os.Args[2], os.Args[3])
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[3], name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "jsongen:", err)
		os.Exit(1)
	}
}
