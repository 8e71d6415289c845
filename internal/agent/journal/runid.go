package journal

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// NewRunID returns an ID for a new run: the current second and 90 random bits. The time comes first
// so that new runs are adjacent in a store's indexes. Random IDs would spread the writes over the
// whole index of a large store.
func NewRunID() string { return runID(time.Now()) }

func runID(at time.Time) string {
	return fmt.Sprintf("run_%08x%s", at.Unix(), strings.ToLower(rand.Text()[:18]))
}
