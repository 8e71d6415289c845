//go:build unix

package npmtest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes a lock across processes. It returns an error if another process holds the lock for
// longer than patience. The system releases the lock when its process ends, even by a crash.
func lock(name string, patience time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("another process has been installing npm packages for more than %v: %w", patience, err)
		}
	}
}
