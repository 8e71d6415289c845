//go:build !wasip1

// Package trimresults tests the plug-in in this folder.
package trimresults

import (
	"testing"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/conversation"
)

func TestConversations(t *testing.T) { conversation.Test(t) }
