package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LeavesOut reads which cases an example leaves out in one of its languages, and
// why: the file leaves-out of the language's folder, or NAME.ts.leaves-out beside the
// script NAME.ts, which has a line "case: reason" for each. Without the file it leaves
// out none.
func LeavesOut(folder string) (map[string]string, error) {
	file := filepath.Join(folder, "leaves-out")
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		file = folder + ".leaves-out" // a language that is one file
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, l := range lines(b) {
		name, why, ok := strings.Cut(l, ": ")
		if !ok {
			return nil, fmt.Errorf("%s: leaves-out: %q is not \"case: reason\"", folder, l)
		}
		out[name] = why
	}
	return out, nil
}
