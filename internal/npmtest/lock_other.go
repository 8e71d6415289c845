//go:build !unix

package npmtest

import (
	"fmt"
	"os"
	"time"
)

// lock takes a lock across processes: it creates a directory, which only one process can do. It
// returns an error if the directory exists for longer than patience.
func lock(name string, patience time.Duration) (unlock func(), err error) {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := os.Mkdir(name, 0o755)
		if err == nil {
			return func() { _ = os.Remove(name) }, nil
		}
		if !os.IsExist(err) || time.Now().After(end) {
			return nil, fmt.Errorf(
				"another process has been installing npm packages for more than %v; if there is none, remove %s: %w",
				patience,
				name,
				err,
			)
		}
	}
}
