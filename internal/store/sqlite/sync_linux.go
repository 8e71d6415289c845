package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData flushes a file's data to the disk, without metadata such as its modification
// time.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
