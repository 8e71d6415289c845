package agentfile

import (
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// MarshalText formats a duration for UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// MarshalText formats a size for UnmarshalText.
func (s Bytes) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// Text returns the agent as JSON that [Parse] accepts. It writes paths as they are in f, and omits
// the working directories of MCP servers.
func Text(f *File) ([]byte, error) { return abijson.Marshal(f) }
