package gateway

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/gateway"
)

// watchInterval is the time between two looks at the files of a gateway.
const watchInterval = 400 * time.Millisecond

// watch replaces the routes of g when the file or one of its modules changes, until ctx is done.
func (c *command) watch(ctx context.Context, g *gateway.Gateway, f *gateway.File) {
	files := append([]string{c.file}, f.Files()...)
	seen := stamps(files)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
		}
		now := stamps(files)
		if now == seen {
			continue
		}
		seen = now
		next, err := c.load(ctx)
		if err == nil {
			err = g.Replace(ctx, next)
		}
		if err != nil {
			c.log.Error("the change is not active", "error", err)
			continue
		}
		if named := append([]string{c.file}, next.Files()...); !slices.Equal(named, files) {
			files, seen = named, stamps(named)
		}
		c.log.Info("the change is active")
	}
}

// maxWatched limits the files of a source folder that are watched.
const maxWatched = 2000

// stamps returns a text that changes when one of the files, or a file in one of the folders, does.
func stamps(files []string) string {
	var b strings.Builder
	for _, path := range files {
		n := 0
		_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if n++; err != nil || n > maxWatched {
				return filepath.SkipAll
			}
			if name := d.Name(); d.IsDir() && (name == "node_modules" || name == ".git" || name == "build" || name == "target") {
				return filepath.SkipDir
			}
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				b.WriteString(path)
				b.WriteString(info.ModTime().String())
				b.WriteByte('\n')
			}
			return nil
		})
	}
	return b.String()
}
