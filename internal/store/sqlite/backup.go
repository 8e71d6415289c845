package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// Backup writes a snapshot of the database at path to a new file, which only its owner can read. Other
// processes can use the database meanwhile: their writes are not delayed, and are not part of the
// snapshot. Their write-ahead log grows until the snapshot is complete. Backup fails with
// [fs.ErrExist] if there is a file at to. Until the snapshot is complete and on disk, the file has
// the suffix .part; a failed Backup removes it.
func Backup(ctx context.Context, path, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return &fs.PathError{Op: "create", Path: to, Err: fs.ErrExist}
	}
	part := to + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	defer f.Close()
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+
		fmt.Sprintf("?mode=rw&_pragma=busy_timeout(%d)", busyTimeoutMS))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", part); err != nil {
		return (&DB{path: path}).classify(err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(to)); err == nil {
		_ = dir.Sync() // some systems cannot sync directories
		_ = dir.Close()
	}
	return nil
}
