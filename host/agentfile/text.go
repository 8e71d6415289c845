package agentfile

import (
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// MarshalText writes a duration as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// MarshalText writes a size as it is read.
func (s Bytes) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// Text writes the agent as JSON, which [Parse] reads. Paths in it are as they
// stand in f, and the directories of MCP servers are not in it.
func (f *File) Text() ([]byte, error) { return abi.Marshal(f) }
