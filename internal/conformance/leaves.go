package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agent-runner/agent-runner/internal/golden"
)

// LeavesOut returns the cases that one language's version of an example omits, mapped to the
// reasons. folder is the language's folder or a script NAME.ts. LeavesOut reads the file leaves-out
// in the folder, or NAME.ts.leaves-out next to the script. Each line is "case: reason". Without the
// file, the map is empty.
func LeavesOut(folder string) (map[string]string, error) {
	file := filepath.Join(folder, "leaves-out")
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		file = folder + ".leaves-out" // the language is a single file
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, l := range golden.Lines(b) {
		name, why, ok := strings.Cut(l, ": ")
		if !ok {
			return nil, fmt.Errorf("%s: leaves-out: %q is not \"case: reason\"", folder, l)
		}
		out[name] = why
	}
	return out, nil
}
