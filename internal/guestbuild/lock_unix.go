//go:build unix

package guestbuild

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a file against other processes and goroutines. The system releases it when the process
// ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR { //nolint:errorlint // a plain errno
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
