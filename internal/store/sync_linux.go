package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData waits until what was written to a file is on the disk. What only tells of the
// file, such as when that was, is not waited for.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
