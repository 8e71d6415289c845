package sqlite

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

func TestFileSystemErrorsAreClassified(t *testing.T) {
	t.Parallel()
	d := &DB{path: "runs.db"}
	for number, want := range map[syscall.Errno]database.Kind{
		syscall.EROFS: database.ReadOnly, syscall.EACCES: database.ReadOnly,
		syscall.ENOSPC: database.Full, syscall.EDQUOT: database.Full, syscall.EIO: database.Failed,
	} {
		err := d.classify(&fs.PathError{Op: "open", Path: "runs.db", Err: number})
		var e *database.Error
		require.ErrorAs(t, err, &e, number)
		require.Equal(t, want, e.Kind, number)
	}
}
