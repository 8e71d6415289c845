package journal

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// NewRunID makes the id of a run that begins: the second, and 90 random bits. Runs that
// begin one after the other lie beside each other in a store's indexes; where each lay
// anywhere, to write one would take reading and writing all over them once many are kept.
func NewRunID() string { return runID(time.Now()) }

func runID(at time.Time) string {
	return fmt.Sprintf("run_%08x%s", at.Unix(), strings.ToLower(rand.Text()[:18]))
}
