package gateway

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/gateway"
)

// watchInterval is the time between two checks of a gateway's files.
const watchInterval = 400 * time.Millisecond

// A watched holds the paths of a gateway's files, and a text that changes if one of the files
// changes.
type watched struct {
	files  []string
	stamps string
}

// watch replaces the routes of g when the file or one of its modules changes, until ctx is done.
func (c *command) watch(ctx context.Context, g *gateway.Gateway, seen watched) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
		}
		now := stamps(seen.files)
		if now == seen.stamps {
			continue
		}
		seen.stamps = now
		f, named, err := c.load(ctx)
		if f != nil {
			seen = named
		}
		if err == nil {
			err = c.guarded(f)
		}
		if err == nil {
			err = g.Replace(ctx, f)
		}
		if err != nil {
			c.log.Error("the change is not active", "error", err)
			continue
		}
		c.log.Info("the change is active")
	}
}

// maxWatched limits the files of a source folder that are watched.
const maxWatched = 2000

// stamps returns a text that changes if one of the files, or a file in one of the folders, changes.
func stamps(files []string) string {
	var b strings.Builder
	for _, root := range files {
		n := 0
		if real, err := filepath.EvalSymlinks(root); err == nil {
			root = real
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if n++; err != nil || n > maxWatched {
				return filepath.SkipAll
			}
			if name := d.Name(); path != root && d.IsDir() &&
				(name == "node_modules" || name == ".git" || name == "build" || name == "target") {
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
