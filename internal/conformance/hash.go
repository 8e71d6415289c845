package conformance

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hashTree adds the Go files below some folders, except tests, to a hash.
func hashTree(w io.Writer, root string, folders ...string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "%s %d\n%s", path[len(root):], len(b), b)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
