package store

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the file system says before there is a database is told as the same of one.
func TestFileSystemErrors(t *testing.T) {
	t.Parallel()
	d := &sqliteDB{where: "runs.db"}
	for number, want := range map[syscall.Errno]Kind{syscall.EROFS: ReadOnly, syscall.EACCES: ReadOnly, syscall.ENOSPC: Full, syscall.EDQUOT: Full, syscall.EIO: Broken} {
		err := d.failed(&fs.PathError{Op: "open", Path: "runs.db", Err: number})
		var e *Error
		require.True(t, errors.As(err, &e), number)
		require.Equal(t, want, e.Kind, number)
	}
}
